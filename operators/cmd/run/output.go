package main

import (
	"fmt"
	"io"
	"sync"
)

// output keeps the lines of several programs apart.
type output struct {
	mu sync.Mutex
	to io.Writer
}

// say says something in the name of this command.
func (o *output) say(format string, args ...any) {
	o.line("run", fmt.Sprintf(format, args...))
}

// lines returns a function that shows lines of a program.
func (o *output) lines(name string) func(string) {
	return func(text string) { o.line(name, text) }
}

func (o *output) line(name, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.to, "%-7s | %s\n", name, text)
}
