package gate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/internal/gate"
	"github.com/pintle-go/pintle/internal/leak"
)

// Every goroutine that a test starts ends with the test.
func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

var errClosed = errors.New("the gate is closed")

func write(ctx context.Context, t *testing.T) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://server/x", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A closed gate stops a request before it is sent, when its body leaves, and when the
// body is sent once more.
func TestPass(t *testing.T) {
	closed := false
	ctx, stop := gate.With(t.Context(), context.Background(), func() error {
		if closed {
			return errClosed
		}
		return nil
	})
	defer stop()
	req := write(ctx, t)
	if err := gate.Pass(req); err != nil {
		t.Fatal(err)
	}
	closed = true
	if _, err := io.ReadAll(req.Body); !errors.Is(err, errClosed) {
		t.Errorf("the body leaves: %v", err)
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(again); !errors.Is(err, errClosed) {
		t.Errorf("the body leaves once more: %v", err)
	}
	inner, stopInner := gate.With(context.WithoutCancel(ctx), context.Background(), func() error { return nil })
	defer stopInner()
	for name, ctx := range map[string]context.Context{"the gate": ctx, "a gate behind it": inner} {
		if err := gate.Pass(write(ctx, t)); !errors.Is(err, errClosed) {
			t.Errorf("%s lets a write pass: %v", name, err)
		}
	}
	read := write(ctx, t)
	read.Method = http.MethodGet
	if err := gate.Pass(read); err != nil {
		t.Errorf("a read is kept back: %v", err)
	}
	if err := gate.Pass(write(t.Context(), t)); err != nil {
		t.Errorf("a write without a gate is kept back: %v", err)
	}
}

// An exchange that writes ends with the gate, even if its context does not end.
func TestBind(t *testing.T) {
	until, end := context.WithCancelCause(context.Background())
	ctx, stop := gate.With(t.Context(), until, func() error { return nil })
	defer stop()
	apart := context.WithoutCancel(ctx)
	bound, release := gate.Bind(apart, http.MethodPut)
	defer release()
	read, releaseRead := gate.Bind(apart, http.MethodGet)
	defer releaseRead()
	end(errClosed)
	for name, ctx := range map[string]context.Context{"the gated context": ctx, "the exchange": bound} {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, errClosed) {
			t.Errorf("%s ends because of %v", name, cause)
		}
	}
	if read.Err() != nil {
		t.Error("an exchange that reads ends with the gate")
	}
}
