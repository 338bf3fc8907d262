package aggregate

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSlowBody sends a part of a large body, and then nothing. The answer is a Status. Complete
// bodies of all sizes arrive whole.
func TestSlowBody(t *testing.T) {
	b := newBodies(1 << 20)
	b.within = 300 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	}))
	defer server.Close()
	client := server.Client()
	for _, size := range []int{0, 1, small - 1, small, small + 1, 1 << 20} {
		want := bytes.Repeat([]byte("x"), size)
		resp, err := client.Post(server.URL, "application/json", bytes.NewReader(want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes arrive of %d: %v", len(got), size, err)
		}
	}
	b.within = time.Minute
	complete, err := client.Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", 3<<20)))
	if err == nil { // the server closes the connection before it has read the rest
		got, _ := io.ReadAll(complete.Body)
		complete.Body.Close()
		if len(got) > 1<<20+1 {
			t.Errorf("%d bytes of a body over the limit are read", len(got))
		}
	}

	b.within = 300 * time.Millisecond
	body, rest := io.Pipe()
	var sender sync.WaitGroup
	sender.Go(func() { _, _ = rest.Write(bytes.Repeat([]byte("x"), 2*small)) })
	defer sender.Wait()
	defer body.Close()
	resp, err := client.Post(server.URL, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusGatewayTimeout || status.Kind != "Status" || status.Reason != metav1.StatusReasonTimeout {
		t.Errorf("%s %+v", resp.Status, status)
	}
}

// TestGrows tells bodies that grow from others.
func TestGrows(t *testing.T) {
	const patch, apply = "application/json-patch+json", "application/apply-patch+yaml"
	for _, test := range []struct {
		contentType, body string
		want              bool
	}{
		{patch, `[{"op":"copy","from":"/a","path":"/b"}]`, true},
		{patch + "; charset=utf-8", `[{"op":"test"},{"op":"\u0063opy"}]`, true},
		{patch, `[{"op":"copy","OP":"test"}]`, true},
		{patch, `[{"op":"add","path":"/copy","value":"copy"}]`, false},
		{patch, `[{"op":`, false},
		{"application/merge-patch+json", `{"op":"copy"}`, false},
		{apply, "a: &x 1\nb: *x", true},
		{apply, "a: 1", false},
		{"application/yaml", "a: &x 1", true},
		{"", "&", false},
	} {
		if got := grows(test.contentType, []byte(test.body)); got != test.want {
			t.Errorf("%s %s: %t", test.contentType, test.body, got)
		}
	}
}
