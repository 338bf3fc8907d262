package controller

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// logs keeps the lines that were logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs(attrs []slog.Attr) slog.Handler { return logsWith{l, attrs} }
func (l *logs) WithGroup(string) slog.Handler            { return l }

// traceKey finds a value in a context. The handler of a tracer would add it to each line.
type traceKey struct{}

func (l *logs) Handle(ctx context.Context, r slog.Record) error {
	if trace := ctx.Value(traceKey{}); trace != nil {
		r = r.Clone()
		r.AddAttrs(slog.Any("trace", trace))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slog.NewTextHandler(&l.buf, &slog.HandlerOptions{Level: slog.LevelDebug}).Handle(ctx, r)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// tail returns the last lines, each behind a bar: a deadline in them is not the test's.
func (l *logs) tail(n int) string {
	lines := strings.Split(strings.TrimSuffix(l.String(), "\n"), "\n")
	return "| " + strings.Join(lines[max(0, len(lines)-n):], "\n| ")
}

// count returns the number of lines that hold all of some texts.
func (l *logs) count(texts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			n++
		}
	}
	return n
}

// logsWith is logs with attributes.
type logsWith struct {
	*logs
	attrs []slog.Attr
}

func (l logsWith) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logsWith{l.logs, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l logsWith) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(l.attrs...)
	return l.logs.Handle(ctx, r)
}
