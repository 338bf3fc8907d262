package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/pintle-go/pintle/controller"
)

// started is the time after which the start of the program is over.
const started = 10 * time.Second

// thrifty gives back memory once after the start. More frequent garbage collection would save
// another 8 MB, and lists of 1,000 llamas would take half as long again. The program is large: its
// start touches most pages of its file, of which it later needs half.
var thrifty = controller.Runnable{Name: "memory", EveryReplica: true, Run: func(ctx context.Context) error {
	select {
	case <-time.After(started):
		debug.FreeOSMemory()
		unmap()
		return nil
	case <-ctx.Done():
		return nil
	}
}}
