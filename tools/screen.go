package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// screenLine is a line of the terminal, and when it appears.
type screenLine struct {
	at    time.Duration
	text  string
	typed time.Duration // how long it takes to type it; zero for output
}

// screen holds the lines of a session. Its time goes on without the waits that nobody
// wants to watch.
type screen struct {
	lines []screenLine
	now   time.Duration
	open  bool // the last line has no end yet
	// waited is the time of the command's last output, since the command began.
	waited time.Duration
}

const (
	// keyTime is the time for a key.
	keyTime = 20 * time.Millisecond
	// readTime is the pause after a command's output.
	readTime = 900 * time.Millisecond
	// longestWait is the longest wait that is shown.
	longestWait = 900 * time.Millisecond
)

// command types a command.
func (s *screen) command(text string) {
	if len(s.lines) > 0 {
		s.now += readTime
	}
	for i, part := range wrap(text, columns-2) {
		prompt := "$ "
		if i > 0 {
			prompt = "  "
		}
		typed := time.Duration(utf8.RuneCountInString(part)) * keyTime
		s.lines = append(s.lines, screenLine{s.now, prompt + part, typed})
		s.now += typed
	}
	s.open = false
	s.waited = 0
}

// control matches the terminal's control sequences.
var control = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|\x1b\\][^\a]*\a")

// write adds output that came some time after the command began.
func (s *screen) write(after time.Duration, text []byte) {
	text = control.ReplaceAll(text, nil)
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if len(text) == 0 {
		return
	}
	s.now += min(after-s.waited, longestWait)
	s.waited = after
	for part := range strings.Lines(string(text)) {
		line, ended := strings.CutSuffix(part, "\n")
		s.add(line)
		s.open = !ended
	}
}

// add adds text to the last line if that is open, and otherwise a line. A carriage return
// begins the line again.
func (s *screen) add(text string) {
	if s.open {
		last := len(s.lines) - 1
		text = s.lines[last].text + text
		s.lines = s.lines[:last]
	}
	if i := strings.LastIndex(text, "\r"); i >= 0 {
		text = text[i+1:]
	}
	for _, part := range wrap(strings.ReplaceAll(text, "\t", "    "), columns) {
		s.lines = append(s.lines, screenLine{at: s.now, text: part})
	}
}

// wrap cuts a line into lines of a width. It returns at least one line.
func wrap(text string, width int) (lines []string) {
	rest := []rune(text)
	for len(rest) > width {
		lines, rest = append(lines, string(rest[:width])), rest[width:]
	}
	return append(lines, string(rest))
}

const (
	rows       = 24
	cellWidth  = 8.4
	lineHeight = 19
	margin     = 14
	// holdTime is how long the last screen stays.
	holdTime = 6 * time.Second
)

// drawSession returns the lines as an animated SVG. Without animation, or if the reader
// wants less motion, it shows the last screen. It names no font and loads no file.
func drawSession(lines []screenLine) []byte {
	var b bytes.Buffer
	end := lines[len(lines)-1].at + lines[len(lines)-1].typed + holdTime
	percent := func(t time.Duration) string { return fmt.Sprintf("%.4g%%", 100*float64(t)/float64(end)) }
	width, height := 2*margin+columns*cellWidth, 2*margin+rows*lineHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d">`+"\n",
		width, height, width, height)
	b.WriteString(`<style>
:root{--back:#f6f8fa;--text:#1f2328;--typed:#0a5cc2;--line:#d1d9e0}
@media(prefers-color-scheme:dark){:root{--back:#161b22;--text:#e6edf3;--typed:#6cb0ff;--line:#3d444d}}
text{font:14px monospace;white-space:pre;fill:var(--text)}
.t{fill:var(--typed);font-weight:bold}
.c{fill:var(--back);transform-box:fill-box;transform-origin:right;transform:scaleX(0)}
`)
	fmt.Fprintf(&b, "text,.c,#s{animation:%.1fs step-end infinite}\n", end.Seconds())
	fmt.Fprintf(&b, "#s{transform:translateY(%dpx);animation-name:s}\n", -lineHeight*max(0, len(lines)-rows))
	b.WriteString("@keyframes s{0%{transform:none}")
	for i, line := range lines {
		if i >= rows {
			fmt.Fprintf(&b, "%s{transform:translateY(%dpx)}", percent(line.at), -lineHeight*(i-rows+1))
		}
	}
	b.WriteString("}\n")
	for i, line := range lines {
		if line.text == "" {
			continue
		}
		fmt.Fprintf(&b, "#l%d{animation-name:l%d}@keyframes l%d{0%%{opacity:0}%s{opacity:1}}\n", i, i, i, percent(line.at))
		if line.typed > 0 {
			fmt.Fprintf(&b, "#c%d{animation-name:c%d}@keyframes c%d{0%%{transform:none}"+
				"%s{transform:none;animation-timing-function:steps(%d)}%s,to{transform:scaleX(0)}}\n",
				i, i, i, percent(line.at), utf8.RuneCountInString(line.text)-2, percent(line.at+line.typed))
		}
	}
	b.WriteString("@media(prefers-reduced-motion:reduce){text,.c,#s{animation:none}}\n</style>\n")
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%.0f" height="%d" rx="8" fill="var(--back)" stroke="var(--line)"/>`+"\n",
		width-1, height-1)
	fmt.Fprintf(&b, `<svg x="%d" y="%d" width="%.0f" height="%d"><g id="s">`+"\n",
		margin, margin, columns*cellWidth, rows*lineHeight)
	for i, line := range lines {
		line.draw(&b, i)
	}
	b.WriteString("</g></svg>\n</svg>\n")
	return b.Bytes()
}

// draw writes a line as text. The text has a length, so that every font fits. A cover
// that shrinks shows a command as it is typed.
func (l screenLine) draw(b *bytes.Buffer, i int) {
	if l.text == "" {
		return
	}
	class := ""
	if l.typed > 0 {
		class = ` class="t"`
	}
	n := utf8.RuneCountInString(l.text)
	fmt.Fprintf(b, `<text id="l%d"%s y="%d" textLength="%.1f">`, i, class, lineHeight*i+14, float64(n)*cellWidth)
	_ = xml.EscapeText(b, []byte(l.text)) // a buffer takes everything
	b.WriteString("</text>\n")
	if l.typed > 0 {
		fmt.Fprintf(b, `<rect id="c%d" class="c" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n",
			i, 2*cellWidth, lineHeight*i, float64(n-2)*cellWidth, lineHeight)
	}
}
