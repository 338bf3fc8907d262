package aggregate_test

import (
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kubetest"
)

// get sends a request and returns the answer as it is on the wire.
func (f *bench) get(client *http.Client, url string, header ...string) (*http.Response, []byte) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, url, http.NoBody)
	f.ok(err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	f.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	f.ok(err)
	return resp, body
}

// TestProtocol reads the parts of answers that clients do not show: directly, as kube-apiserver does.
func TestProtocol(t *testing.T) {
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	server := plain(t)
	release := make(chan bool)
	server.Kinds = []aggregate.Any{aggregate.Stored[Sample]{Definition: samples(t), Subresources: []aggregate.Subresource[Sample]{{
		Name: "wait", Verb: "get",
		Serve: func(w http.ResponseWriter, _ *http.Request, _ *Sample) error {
			<-release
			_, err := w.Write([]byte("done"))
			return err
		},
	}}}}
	r := f.replica(server)
	l := new(Sample)
	l.Name, l.Spec.Weight, l.Spec.Height = "anna", 100, 170
	_, err := r.samples.Create(t.Context(), l)
	f.ok(err)

	// Discovery has an ETag that stays, and is not sent again.
	const aggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	first, body := f.get(r.http, r.address+"/apis", aggregated)
	tag := first.Header.Get("ETag")
	if first.StatusCode != http.StatusOK || tag == "" || !strings.Contains(string(body), `"resource":"samples"`) {
		t.Errorf("discovery: %s, ETag %q, %s", first.Status, tag, body)
	}
	if again, body := f.get(r.http, r.address+"/apis", aggregated, "If-None-Match: "+tag); again.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("discovery again: %s, %d bytes", again.Status, len(body))
	}

	// Large answers are compressed for those who ask.
	for i := range 300 {
		l := new(Sample)
		l.Name, l.Spec.Weight, l.Spec.Height = fmt.Sprint("many-", i), 100, 170
		_, err := r.samples.Create(t.Context(), l)
		f.ok(err)
	}
	packed, body := f.get(r.http, r.address+f.path(group, ""), "Accept-Encoding: gzip")
	if packed.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a list of %d bytes has the encoding %q", len(body), packed.Header.Get("Content-Encoding"))
	} else if plain, err := gzip.NewReader(strings.NewReader(string(body))); err != nil {
		t.Error(err)
	} else if all, err := io.ReadAll(plain); err != nil || strings.Count(string(all), `"name":"many-`) != 300 {
		t.Errorf("a compressed list: %v, %d bytes", err, len(all))
	}

	// A streamed list has one bookmark that ends it. Others come before the watch ends.
	follow := func(query string) (added, ends, marks int) {
		t.Helper()
		_, body := f.get(r.http, r.address+f.path(group, "?watch=1&allowWatchBookmarks=true&"+query))
		for frames := json.NewDecoder(strings.NewReader(string(body))); frames.More(); {
			var ev event
			f.ok(frames.Decode(&ev))
			switch {
			case ev.Type == "ADDED":
				added++
			case ev.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true":
				ends++
				if added != 301 {
					t.Errorf("the list ends after %d events", added)
				}
			case ev.Type == "BOOKMARK":
				marks++
			}
		}
		return added, ends, marks
	}
	if added, ends, _ := follow("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=3"); added != 301 || ends != 1 {
		t.Errorf("a streamed list has %d events, and %d bookmarks end it", added, ends)
	}
	_, body = f.get(r.http, r.address+f.path(group, "?limit=1"))
	var page struct {
		Metadata struct{ ResourceVersion string }
	}
	f.ok(json.Unmarshal(body, &page))
	// A bookmark tells of a version that the client does not know from events.
	var change sync.WaitGroup
	change.Go(func() {
		time.Sleep(time.Second) // the watch has begun, as a rule; it sees the change in either case
		if _, err := r.samples.Modify(t.Context(), "anna", func(l *Sample) error { l.Spec.Weight++; return nil }); err != nil {
			t.Error(err)
		}
	})
	defer change.Wait()
	if added, ends, marks := follow("fieldSelector=metadata.name%3Dnone&timeoutSeconds=8&resourceVersion=" + page.Metadata.ResourceVersion); added != 0 || ends != 0 || marks == 0 {
		t.Errorf("a watch has %d events, %d ends and %d bookmarks", added, ends, marks)
	}

	// More requests than the server handles at once get 429. Later ones are answered.
	// Members of system:masters are never refused, so the client is an account with rights.
	binding := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"all"},` +
		`"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"` + f.namespace + `"}],` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`
	if got := f.do("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/"+f.namespace+"/rolebindings", binding); got.Code != http.StatusCreated {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	f.answers("the account has its rights", http.StatusOK, func() answer {
		user := "Impersonate-User: system:serviceaccount:" + f.namespace + ":default"
		return f.do("GET", "/api/v1/namespaces/"+f.namespace+"/configmaps", "", user)
	})
	bearer := "Bearer " + f.token()
	transport := &http.Transport{ // of HTTP/1: one connection of HTTP/2 has too few streams
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // other tests check the server's certificate
		MaxIdleConnsPerHost: 1000,
	}
	defer transport.CloseIdleConnections()
	const all = 450
	codes := make(chan int, all)
	for range all {
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address+f.path(group, "/anna/wait?timeout=120s"), http.NoBody)
			if err != nil {
				panic(err)
			}
			req.Header.Set("Authorization", bearer)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				codes <- 0
				return
			}
			resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	select {
	case code := <-codes:
		if code != http.StatusTooManyRequests {
			t.Errorf("the first answer has the status %d", code)
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("%d requests are handled at once", all)
	}
	close(release)
	refused := 1
	for range all - 1 {
		switch code := <-codes; code {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusOK:
		default:
			t.Errorf("an answer has the status %d", code)
		}
	}
	t.Logf("%d of %d requests are refused", refused, all)
	if refused > all/2 {
		t.Errorf("%d of %d requests are refused", refused, all)
	}
	if resp, _ := f.get(r.http, r.address+f.path(group, "/anna")); resp.StatusCode != http.StatusOK {
		t.Errorf("get after that: %s", resp.Status)
	}
}
