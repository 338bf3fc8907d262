package aggregate_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// held holds the first watches of the ConfigMap that names the authorities of clients: one is for the
// clients' authority, one for kube-apiserver's, and one for the headers.
type held struct {
	mu    sync.Mutex
	first []func() // each lets one of them go
}

const watches = 3

func (h *held) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Query().Get("fieldSelector"), "extension-apiserver-authentication") {
			if released := h.hold(); released != nil {
				select {
				case <-released:
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			}
		}
		return next.RoundTrip(req)
	})
}

func (h *held) hold() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.first) == watches {
		return nil
	}
	released := make(chan struct{})
	h.first = append(h.first, sync.OnceFunc(func() { close(released) }))
	return released
}

func (h *held) all() []func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
}

// TestAuthoritiesComeLate has a server learn of the authorities one after the other, in different orders. As
// soon as it is ready, it knows a client by its certificate.
func TestAuthoritiesComeLate(t *testing.T) {
	server := plain(t)
	server.Kinds = server.Kinds[:1]
	f := prepare(t, kubetest.Start(t, kubetest.Options{ServerOnly: true}))
	for first := range watches {
		t.Run(fmt.Sprint("from ", first), func(t *testing.T) {
			f := *f
			f.T = t
			h := new(held)
			config := f.cluster.Config()
			config.Wrap(h.wrap)
			client, err := kube.Config{Rest: config}.Connect()
			f.ok(err)
			t.Cleanup(client.Close)
			f.client = client
			server.Storage = aggregate.Storage{Dir: shortDir(t)}
			r := f.begin(server)
			kubetest.Eventually(t, "all watches have begun", func() error {
				if n := len(h.all()); n != watches {
					return fmt.Errorf("%d have", n)
				}
				return nil
			})
			for i := range watches {
				if r.ready() && i == 0 {
					t.Error("the server is ready before it knows any authority")
				}
				h.all()[(first+i)%watches]()
				// The server may be ready after each of them: it is given some time.
				for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end) && !r.ready(); {
					time.Sleep(time.Millisecond)
				}
				if r.ready() {
					break
				}
			}
			r.awaitReady()
			r.read(f.path(group, "")) // it fails the test if the client is refused
			for _, release := range h.all() {
				release()
			}
		})
	}
}
