package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestSoakFullVolume fills the volume of the llamas from outside, while clients write. etcd then ends the
// program, as it ends itself in a cluster, and again while there is no room. After that the program has all
// that it acknowledged, and no more than the writes that were under way.
func TestSoakFullVolume(t *testing.T) {
	volume := t.TempDir()
	if err := syscall.Mount("none", volume, "tmpfs", 0, "size=220m"); err != nil {
		t.Skipf("mount a small volume: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(volume, 0); err != nil {
			t.Error(err)
		}
	})
	f := newFarmIn(t, &binary, filepath.Join(volume, "data"))
	var mu sync.Mutex
	acknowledged := map[string]*Llama{}
	write := func(name string) error {
		l := new(Llama)
		l.Name, l.Spec.Weight, l.Spec.Height = name, 110, 170
		l.Annotations = map[string]string{"large": strings.Repeat(name, 10_000)}
		l, err := f.llamas.Create(t.Context(), l)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			acknowledged[name] = l
		}
		return err
	}
	var writers sync.WaitGroup
	const clients = 4
	for w := range clients {
		writers.Go(func() {
			for i := range 1000 {
				if err := write(fmt.Sprintf("llama-%d-%d", w, i)); err != nil {
					return
				}
			}
			t.Error("the volume is not full")
		})
	}
	f.until("llamas are written", func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) >= 20 })
	filler, err := os.Create(filepath.Join(volume, "filler"))
	f.ok(err)
	for err == nil {
		_, err = filler.Write(make([]byte, 64<<10))
	}
	f.ok(filler.Close())
	ended := func() {
		t.Helper()
		select {
		case <-f.operator.Done():
		case <-time.After(patience):
			t.Fatal("the program goes on without room")
		}
		lines, _ := f.operator.Lines()
		t.Log(lines[len(lines)-1])
		if !strings.Contains(lines[len(lines)-1], "no space left on device") {
			t.Error("it does not say why it ends")
		}
	}
	ended()
	writers.Wait()
	kubeconfig := optest.Kubeconfig(t, f.cluster.Config(), f.namespace, "")
	f.operator = f.program.Run(t, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+f.data)
	ended()
	f.ok(os.Remove(filler.Name()))
	f.start()
	t.Logf("%d llamas are acknowledged", len(acknowledged))
	for name, was := range acknowledged {
		l, err := f.llamas.Get(t.Context(), name)
		f.ok(err)
		if l.UID != was.UID || l.Annotations["large"] != was.Annotations["large"] || versionOf(t, l) < versionOf(t, was) {
			t.Errorf("%s has version %s and uid %s, was %s and %s", name, l.ResourceVersion, l.UID, was.ResourceVersion, was.UID)
		}
	}
	stored := 0
	for _, err := range f.llamas.List(t.Context()) {
		f.ok(err)
		stored++
	}
	if stored > len(acknowledged)+clients {
		t.Errorf("%d llamas are stored, %d were acknowledged", stored, len(acknowledged))
	}
	f.ok(write("late"))
}
