package aggregate_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kubetest"
)

// shortDir returns a directory whose path is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dir-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestHandover starts servers on the directory of one that runs, as a rolling update does.
// They wait and accept no connection. One of them is stopped while it waits. When the first ends, the
// other serves all objects.
func TestHandover(t *testing.T) {
	server := plain(t)
	server.Kinds = server.Kinds[:1]
	server.Storage = aggregate.Storage{Dir: shortDir(t)}
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	one := f.replica(server)
	made := map[string]*Sample{}
	create := func(r *replica, name string) {
		t.Helper()
		l := new(Sample)
		l.Name, l.Spec.Weight, l.Spec.Height = name, 100, 170
		l, err := r.samples.Create(t.Context(), l)
		f.ok(err)
		made[name] = l
	}
	for i := range 10 {
		create(one, fmt.Sprint("early-", i))
	}
	two, three := f.begin(server), f.begin(server)
	// For a while nobody may listen.
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		for _, r := range []*replica{two, three} {
			if conn, err := net.Dial("tcp", strings.TrimPrefix(r.address, "https://")); err == nil {
				conn.Close()
				t.Fatal("a server that cannot serve yet accepts connections")
			}
		}
	}
	create(one, "late")
	stopped := make(chan bool)
	go func() { two.stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("a server that waits does not end")
	}
	create(one, "later")
	one.stop()
	three.awaitReady()
	for name, want := range made {
		got, err := three.samples.Get(t.Context(), name)
		f.ok(err)
		if got.UID != want.UID || got.ResourceVersion != want.ResourceVersion {
			t.Errorf("%s has version %s, acknowledged was %s", name, got.ResourceVersion, want.ResourceVersion)
		}
	}
	create(three, "last")
}
