package profile

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A recording may take longer than the server's limit for other answers.
func TestRecordLongerThanTimeouts(t *testing.T) {
	server := httptest.NewUnstartedServer(Handler())
	server.Config.ReadTimeout, server.Config.WriteTimeout = 2*time.Second, 2*time.Second
	server.Start()
	defer server.Close()
	for _, name := range []string{"trace", "profile"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/debug/pprof/"+name+"?seconds=3",
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if took := time.Since(start); err != nil || resp.StatusCode != http.StatusOK || len(body) == 0 ||
			took < 3*time.Second {
			t.Errorf("%s: status %d, %d bytes after %s, %v", name, resp.StatusCode, len(body), took, err)
		}
	}
}
