package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// watch looks whether a client leaves while it waits. The context that it returns ends then.
// The function ends the watch and returns the bytes that the client has sent meanwhile.
func watch(ctx context.Context, conn net.Conn) (context.Context, func() []byte) {
	ctx, cancel := context.WithCancel(ctx)
	sent := make(chan []byte, 1)
	go func() {
		early := make([]byte, 1024)
		n, err := conn.Read(early)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
		sent <- early[:n]
	}()
	return ctx, func() []byte {
		_ = conn.SetReadDeadline(time.Now()) // a connection that is closed needs none
		early := <-sent
		_ = conn.SetReadDeadline(time.Time{})
		cancel()
		return early
	}
}
