package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	forwarding = "/proc/sys/net/ipv4/ip_forward"

	// hostMark records the changes that the nodes of this machine have made in common.
	// The last node to end undoes them. A directory on which another node has mounts must
	// stay, because removing it would unmount them there.
	hostMark = "/run/pintle-host.json"
)

// A hostState records the nodes' changes of the host.
type hostState struct {
	Forwarding bool     `json:"forwarding"`     // IPv4 forwarding was off
	Made       []string `json:"made,omitempty"` // directories, the outermost first
}

// changeHost makes the directories that nodes mount file systems on, and lets the host
// forward. The node's control group must exist: it shows other nodes that this one lives.
func changeHost() error {
	return withHost(func(s *hostState) error {
		for path := range shadows {
			made, err := mkdirAll(path)
			s.Made = append(s.Made, made...)
			if err != nil {
				return err
			}
		}
		state, err := os.ReadFile(forwarding)
		if err != nil || strings.TrimSpace(string(state)) == "1" {
			return err
		}
		s.Forwarding = true
		return os.WriteFile(forwarding, []byte("1"), 0)
	})
}

// restoreHost undoes changeHost, unless another node lives.
func restoreHost() error {
	return withHost(func(s *hostState) error {
		others, err := filepath.Glob(filepath.Join(tracker(), cgroupPrefix+"*"))
		if err != nil || len(others) > 0 {
			return err
		}
		if s.Forwarding {
			if err := os.WriteFile(forwarding, []byte("0"), 0); err != nil {
				return err
			}
			s.Forwarding = false
		}
		for _, path := range slices.Backward(s.Made) {
			// Another program may use it by now.
			if err := os.Remove(
				path,
			); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) &&
				!errors.Is(err, unix.EBUSY) {
				return err
			}
		}
		s.Made = nil
		return nil
	})
}

// withHost calls f with the recorded state and records the state that f leaves, even if f
// fails. Only one process at a time does so.
func withHost(f func(*hostState) error) error {
	var release func()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if release, err = claimName("pintle-host"); err == nil {
			break
		}
		if time.Since(start) > 10*time.Second {
			return fmt.Errorf("wait for another node that changes this machine: %w", err)
		}
	}
	defer release()

	var s hostState
	data, err := os.ReadFile(hostMark)
	if err == nil {
		err = json.Unmarshal(data, &s)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", hostMark, err)
	}
	err = f(&s)
	if len(s.Made) == 0 && !s.Forwarding {
		if removed := os.Remove(hostMark); err == nil && !errors.Is(removed, fs.ErrNotExist) {
			err = removed
		}
	} else if written := writeJSON(hostMark, s); err == nil {
		err = written
	}
	return err
}

// mkdirAll is os.MkdirAll that returns the directories it made.
func mkdirAll(path string) (made []string, err error) {
	if _, err := os.Stat(path); err == nil {
		return nil, nil
	}
	made, err = mkdirAll(filepath.Dir(path))
	if err != nil {
		return made, err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return made, err
	}
	return append(made, path), nil
}
