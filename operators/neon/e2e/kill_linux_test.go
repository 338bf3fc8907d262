package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// kill kills all processes of a pod's container at once, as a failure does, and waits until the
// container was started again and is ready.
func (w *world) kill(name string) {
	w.Helper()
	before, err := w.pods.Get(w.soon(), name)
	w.ok(err)
	is := before.Status.ContainerStatuses[0]
	_, id, _ := strings.Cut(is.ContainerID, "://")
	pids, err := processes(id)
	w.ok(err)
	if len(pids) == 0 {
		w.Fatalf("no process of %s was found", name)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			w.Fatalf("kill %d: %v", pid, err)
		}
	}
	w.ready(name, func(p *corev1.Pod) bool {
		now := p.Status.ContainerStatuses
		return len(now) > 0 && (p.UID != before.UID || now[0].RestartCount > is.RestartCount)
	})
}

// processes returns the processes of a container. Its control group has its name.
func processes(container string) (pids []int, err error) {
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it has just ended
		case err != nil:
			return err
		case !entry.IsDir() || entry.Name() != container || len(pids) > 0:
			return nil
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return fmt.Errorf("read processes: %w", err)
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("read processes: %w", err)
			}
			pids = append(pids, pid)
		}
		return filepath.SkipDir
	})
	return pids, err
}

// replace deletes a pod and waits until another one is ready.
func (w *world) replace(name string) {
	w.Helper()
	before, err := w.pods.Get(w.soon(), name)
	w.ok(err)
	w.ok(w.pods.Delete(w.soon(), name))
	if prefix := before.GenerateName; before.OwnerReferences[0].Kind == "ReplicaSet" {
		w.eventually("another pod "+prefix+" is ready", func(ctx context.Context) error {
			for p, err := range w.pods.List(ctx) {
				if err == nil && p.GenerateName == prefix && p.UID != before.UID && isReady(p) {
					return nil
				}
			}
			return errors.New("it is not")
		})
		return
	}
	w.ready(name, func(p *corev1.Pod) bool { return p.UID != before.UID })
}

// ready waits until a pod is ready and fulfils a condition.
func (w *world) ready(name string, also func(*corev1.Pod) bool) {
	w.Helper()
	w.eventually("pod "+name+" is ready", func(ctx context.Context) error {
		p, err := w.pods.Get(ctx, name)
		if err == nil && (!isReady(p) || !also(p)) {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}
