package crd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"k8s.io/client-go/rest"
)

// played plays the API server for a migration of four objects.
type played struct {
	mu      sync.Mutex
	live    *crd.Definition
	answers map[string][]int // the codes of the next patches of an object, or of the status
	patched func(name string)
	times   map[string][]time.Time
	bodies  []string
	rate    float64
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	code, body := http.StatusOK, any(p.live)
	switch {
	case r.Method == http.MethodGet && name == "jobs":
		var items []any
		for _, n := range []string{"a", "b", "c", "d"} {
			items = append(items, p.object(n))
		}
		body = map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
			"metadata": map[string]any{"resourceVersion": "9"}, "items": items}
	case r.Method == http.MethodPatch:
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		p.bodies = append(p.bodies, name+" "+string(text))
		p.times[name] = append(p.times[name], time.Now())
		if left := p.answers[name]; len(left) > 0 {
			code, p.answers[name] = left[0], left[1:]
		}
		switch {
		case code != http.StatusOK:
			reason := map[int]string{404: "NotFound", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests"}[code]
			body = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
				"message": "no " + name}
		case name == "status":
			p.live.Status.StoredVersions = []string{"v2"}
		case len(name) == 1:
			body = p.object(name)
		}
		if p.patched != nil {
			p.patched(name)
		}
	}
	text, err := json.Marshal(body)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(string(text)))}, err
}

func (*played) object(name string) any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{
		"namespace": "n", "name": name, "uid": "u-" + name, "resourceVersion": "5"}}
}

// migration runs a migration by the played server.
func (p *played) migration(t *testing.T) error {
	t.Helper()
	d := jobs(t)
	live := *d
	live.SetGroupVersionKind(d.GVK())
	live.UID, live.ResourceVersion, live.Generation = "u", "7", 3
	live.Status.StoredVersions = []string{"v1", "v2"}
	p.live, p.times = &live, make(map[string][]time.Time)
	client, err := kube.Config{Rest: &rest.Config{Host: "https://played", Transport: p}, FieldManager: "test",
		Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return crd.Migrate(t.Context(), client, d, crd.MigrateOptions{Rate: p.rate})
}

// An object that was written or deleted is done. If the server has enough, Migrate waits.
func TestMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &played{answers: map[string][]int{"a": {404}, "b": {409}, "c": {429}, "status": {409}}}
		if err := p.migration(t); err != nil {
			t.Fatal(err)
		}
		if got := p.live.Status.StoredVersions; len(got) != 1 || len(p.times["a"]) != 1 || len(p.times["b"]) != 1 {
			t.Errorf("%v %v", got, p.bodies)
		}
		if c := p.times["c"]; len(c) != 2 || c[1].Sub(c[0]) < time.Second/10 {
			t.Errorf("after 429: %v", c)
		}
		if pause := p.times["b"][0].Sub(p.times["a"][0]); pause != time.Second/20 {
			t.Errorf("%v between two objects", pause)
		}
		for i, want := range []string{
			`a {"metadata":{"resourceVersion":"5","uid":"u-a"}}`, `b {"metadata":{"resourceVersion":"5","uid":"u-b"}}`,
		} {
			if p.bodies[i] != want {
				t.Errorf("%s", p.bodies[i])
			}
		}
		want := `status {"metadata":{"uid":"u","resourceVersion":"7"},"status":{"storedVersions":["v2"]}}`
		got := fmt.Sprint(p.bodies)
		if strings.Count(got, want) != 2 || !strings.Contains(got, `"crd.pintle.dev/migrated":"v2,v1"`) {
			t.Errorf("%s", got)
		}
	})
}

// An object that the server refuses stops no other, and the status stays.
func TestMigrateRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &played{answers: map[string][]int{"b": {422}}}
		err := p.migration(t)
		if err == nil || !strings.Contains(err.Error(), "1 of 4 objects could not be written") ||
			!strings.Contains(err.Error(), "no b") {
			t.Error(err)
		}
		if len(p.times["d"]) != 1 || len(p.live.Status.StoredVersions) != 2 {
			t.Errorf("%v %v", p.bodies, p.live.Status.StoredVersions)
		}
	})
}

// A definition that changes in the meantime keeps its status.
func TestMigrateChanged(t *testing.T) {
	for name, change := range map[string]func(*crd.Definition){
		"generation": func(d *crd.Definition) { d.Generation++ },
		"again":      func(d *crd.Definition) { d.UID = "another" },
		"storage": func(d *crd.Definition) {
			d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = false, true
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &played{}
			p.patched = func(patched string) {
				if patched == "d" {
					change(p.live)
				}
			}
			if err := p.migration(t); err == nil || !strings.Contains(err.Error(), "migrate again") {
				t.Errorf("%s: %v", name, err)
			}
			if len(p.times["status"]) > 0 {
				t.Errorf("%s: %v", name, p.bodies)
			}
		})
	}
}

// A rate without a bound makes no pause, and a tiny one a long pause.
func TestMigrateRates(t *testing.T) {
	for _, rate := range []float64{1e12, math.Inf(1)} {
		synctest.Test(t, func(t *testing.T) {
			p := &played{rate: rate}
			if err := p.migration(t); err != nil || p.times["d"][0].Sub(p.times["a"][0]) > time.Second {
				t.Errorf("%v: %v %v", rate, err, p.times)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := &played{rate: 1e-8}
		if err := p.migration(t); err != nil || p.times["b"][0].Sub(p.times["a"][0]) < time.Hour {
			t.Errorf("%v %v", err, p.times)
		}
	})
	for _, rate := range []float64{-1, math.NaN()} {
		if err := (&played{rate: rate}).migration(t); err == nil {
			t.Errorf("%v is no rate", rate)
		}
	}
}
