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

// packageLine is a line of go build -v when it starts a package. With -n, the Go command
// also prints the end of texts that it would write.
var packageLine = regexp.MustCompile(`^[\w.~/-]+$`)

const endOfText = "EOF"

// A progress shows the progress of a build: in a terminal on one changing line, elsewhere
// as a line from time to time. It reads the output of go build -v, first with -n
// ([progress.looking]), which tells how many packages there are to compile, and then
// without ([progress.compiling]). Of another build it shows the time.
type progress struct {
	out      io.Writer
	title    string
	target   string // the main package, which is compiled last
	terminal bool
	start    time.Time
	stop     chan struct{}
	done     chan struct{}

	mu         sync.Mutex
	phase      phase
	partial    []byte
	total      int // packages to compile
	packages   int // packages whose compilation has begun
	downloads  int
	linking    bool
	complaints []string
}

// A phase is a part of a build.
type phase int

const (
	unknown phase = iota
	looking
	compiling
)

func newProgress(out io.Writer, title, target string) *progress {
	p := &progress{
		out: out, title: title, target: target, terminal: isTerminal(out), start: time.Now(),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// looking begins the phase in which the Go command lists the packages that it would
// compile.
func (p *progress) looking() { p.begin(looking) }

// compiling begins the phase in which it compiles them.
func (p *progress) compiling() { p.begin(compiling) }

func (p *progress) begin(next phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.partial = next, nil
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
	case p.phase == looking && line != endOfText && packageLine.MatchString(line):
		p.total++
	case p.phase == looking: // a command, or an error that the build will report
	case packageLine.MatchString(line):
		p.packages++
		p.linking = strings.HasSuffix(line, p.target)
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
	since = since.Round(time.Second)
	switch {
	case p.phase == unknown:
		return fmt.Sprintf("%s: %s", p.title, since)
	case p.phase == looking && p.downloads > 0:
		return fmt.Sprintf("%s: %d modules downloaded, %s", p.title, p.downloads, since)
	case p.phase == looking:
		return fmt.Sprintf("%s: looking for packages to compile, %s", p.title, since)
	case p.linking:
		return fmt.Sprintf("%s: linking, %s", p.title, since)
	default:
		return fmt.Sprintf("%s: compiling package %d of %d, %s", p.title, p.packages, p.total, since)
	}
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
