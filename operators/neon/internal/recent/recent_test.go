package recent

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestShared has ten callers at once, while a read of before is under way that is too old for
// them. They share one more.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		r := &Reader[int64]{Read: func(context.Context) (int64, error) {
			time.Sleep(time.Second)
			return reads.Add(1), nil
		}}
		var all sync.WaitGroup
		ask := func(moment time.Time, want int64) {
			all.Go(func() {
				if got, began, err := r.Since(t.Context(), moment); got != want || began.Before(moment) || err != nil {
					t.Errorf("the answer is %d of %s, %v, want %d", got, began, err, want)
				}
			})
		}
		ask(time.Now(), 1)
		time.Sleep(500 * time.Millisecond)
		for range 10 {
			ask(time.Now(), 2)
		}
		all.Wait()
		ask(time.Now().Add(-time.Second), 2) // the second read began a second ago
		all.Wait()
		time.Sleep(time.Second)
		ask(time.Now(), 3)
		all.Wait()
	})
}

// TestGivenUp has a caller whose context ends during its read. Others do not get its error.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &Reader[string]{Read: func(ctx context.Context) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Minute):
				return "answer", nil
			}
		}}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := r.Since(short, begin); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the caller that gave up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, _, err := r.Since(t.Context(), begin); got != "answer" || err != nil {
				t.Errorf("the other one: %q, %v", got, err)
			}
		})
		all.Wait()
	})
}

// TestErrorIsShared sees that an error is the answer of all callers that wait for the read, and is not
// kept.
func TestErrorIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		reads := 0
		r := &Reader[int]{Read: func(context.Context) (int, error) {
			time.Sleep(time.Second)
			if reads++; reads == 1 {
				return 0, broken
			}
			return reads, nil
		}}
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, _, err := r.Since(t.Context(), begin); !errors.Is(err, broken) {
					t.Errorf("the error is %v", err)
				}
			})
		}
		all.Wait()
		if got, _, err := r.Since(t.Context(), begin); got != 2 || err != nil {
			t.Errorf("after the error: %d, %v", got, err)
		}
	})
}
