package plan

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/gate"
)

// A program that has lost its lease does not change things outside the cluster any more.
func TestCallsAskTheGate(t *testing.T) {
	errClosed := errors.New("the lease is lost")
	for _, call := range []string{"create", "update", "delete"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				describe := func(p *Plan) { s.step(p, things, "a") }
				if call != "create" {
					s.turns(describe)
					time.Sleep(10 * time.Minute)
					s.shed.find("a").Color = "blue"
				}
				closed := false
				ctx, stop := gate.With(s.ctx, s.ctx, func() error {
					if closed {
						return errClosed
					}
					return nil
				})
				defer stop()
				observe := things.Observe
				things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
					is, err := observe(ctx, r)
					closed = call == "update"
					return is, err
				}
				p := s.plan()
				describe(p)
				var err error
				if call == "delete" {
					closed = true
					_, err = p.Delete(ctx)
				} else {
					if call == "create" {
						p.ensureOwner = closing(p.ensureOwner, &closed)
					}
					_, err = p.Run(ctx)
				}
				if !errors.Is(err, errClosed) || s.shed.count(call) > 0 {
					t.Errorf("got %v, calls %v", err, s.shed.calls)
				}
				s.kill()
			})
		})
	}
}

// closing closes a gate after the owner's status was written.
func closing(write func(context.Context) error, closed *bool) func(context.Context) error {
	return func(ctx context.Context) error {
		err := write(ctx)
		*closed = true
		return err
	}
}
