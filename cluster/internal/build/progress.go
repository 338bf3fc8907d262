package build

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// packagesInAll is the number of packages that a full build compiles, including the
// standard library. It is only shown.
const packagesInAll = 2500

// packageLine is a line of go build -v when it starts a package.
var packageLine = regexp.MustCompile(`^[\w.~/-]+$`)

// A progress reads the output of go build -v and shows the progress: in a terminal on one
// changing line, elsewhere as a line from time to time.
type progress struct {
	out      io.Writer
	title    string
	terminal bool
	start    time.Time
	stop     chan struct{}
	done     chan struct{}

	mu         sync.Mutex
	partial    []byte
	packages   int
	downloads  int
	linking    bool
	complaints []string
}

func newProgress(out io.Writer, title string) *progress {
	p := &progress{
		out: out, title: title, terminal: isTerminal(out), start: time.Now(),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// Write takes the output of the Go command.
func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, data...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		p.line(string(line))
		p.partial = rest
	}
}

func (p *progress) line(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.downloads++
	case packageLine.MatchString(line):
		p.packages++
		p.linking = strings.HasSuffix(line, target)
	default:
		p.complaints = append(p.complaints, line)
	}
}

func (p *progress) run() {
	defer close(p.done)
	every := 10 * time.Second
	if p.terminal {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.show()
		case <-p.stop:
			if p.terminal {
				fmt.Fprint(p.out, "\r\x1b[K")
			}
			return
		}
	}
}

func (p *progress) show() {
	text := p.text(time.Since(p.start))
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	} else {
		fmt.Fprintln(p.out, text)
	}
}

func (p *progress) text(since time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var state string
	switch {
	case p.linking:
		state = "linking"
	case p.packages == 0 && p.downloads > 0:
		state = fmt.Sprintf("%d modules downloaded", p.downloads)
	case p.packages == 0:
		state = "looking for packages to build"
	default:
		state = fmt.Sprintf("%d packages compiled (%d in a first build)", p.packages, packagesInAll)
	}
	return fmt.Sprintf("%s: %s, %s", p.title, state, since.Round(time.Second))
}

// close ends the display. After it returns, nothing more is written.
func (p *progress) close() {
	close(p.stop)
	<-p.done
}

// errors returns the error messages of the Go command.
func (p *progress) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.complaints, "\n")
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
