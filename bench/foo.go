package main

import (
	"context"
	"io"

	"k8s.io/client-go/rest"
)

// fooFigure is a promise about the foo operator; it has no peer.
type fooFigure struct {
	name  string
	value float64 // zero: not measured
	limit float64
	show  func(float64) string
}

func (f fooFigure) shown() string {
	if f.value == 0 {
		return "not built"
	}
	return f.show(f.value)
}

func (f fooFigure) verdict() string {
	if f.value == 0 {
		return "not built"
	}
	return verdict(true, f.value < f.limit)
}

func measureFoo(ctx context.Context, out io.Writer, dir string, cfg *rest.Config, runs int) ([]fooFigure, error) {
	return nil, nil
}
