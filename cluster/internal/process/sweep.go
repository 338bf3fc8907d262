package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Sweep ends the processes that an earlier group in dir left running, and returns their
// names. It must not be called while that group's supervisor runs. Processes get a second
// to end by themselves before they are killed.
func Sweep(dir string) ([]string, error) {
	files, err := os.ReadDir(recordDir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read process records: %w", err)
	}
	var swept []string
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok {
			continue
		}
		record := filepath.Join(recordDir(dir), file.Name())
		left, err := sweepOne(record)
		if err != nil {
			return swept, fmt.Errorf("end %s, left by an earlier run: %w", name, err)
		}
		if left {
			swept = append(swept, name)
		}
		if err := os.Remove(record); err != nil {
			return swept, fmt.Errorf("remove process record: %w", err)
		}
	}
	return swept, nil
}

func sweepOne(record string) (left bool, err error) {
	data, err := os.ReadFile(record)
	if err != nil {
		return false, err
	}
	var id Identity
	if err := json.Unmarshal(data, &id); err != nil {
		return false, fmt.Errorf("parse %s: %w", record, err)
	}
	return End(id, time.Second)
}

// End ends a process that is not a child of this one: SIGTERM, and SIGKILL after grace.
// It reports whether the process still existed, and returns once the process is gone.
func End(id Identity, grace time.Duration) (bool, error) {
	if !id.Alive() {
		return false, nil
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := id.Signal(sig); err != nil && !errors.Is(err, ErrGone) {
			return true, err
		}
	}
	if awaitEnd(id, grace) {
		return true, nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
		return true, err
	}
	if !awaitEnd(id, 10*time.Second) {
		return true, fmt.Errorf("process %d does not end", id.PID)
	}
	return true, nil
}

func awaitEnd(id Identity, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); id.Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
