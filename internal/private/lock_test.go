package private

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ended, file); !errors.Is(err, context.Canceled) {
		t.Errorf("the lock is held twice: %v", err)
	}
	unlock()
	unlock, err = Lock(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
