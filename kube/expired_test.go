package kube

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server may take back the history again and again. The watch then does not list all
// objects again at once each time.
func TestWatchThatExpiresAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		o := s.put(key("a"), "one")
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !isWatch(r) {
				return nil, nil
			}
			in, out := io.Pipe()
			go func() {
				_, _ = out.Write(s.encodeEvent(r, eventModified, o))
				time.Sleep(1100 * time.Millisecond)
				_, _ = out.Write(errorEvent(s.contentType(r) == typeProtobuf,
					metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired}))
				out.Close()
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {s.contentType(r)}}, Body: in,
				Request: r}, nil
		})
		startStore(t, configMaps(s.client(t)))
		time.Sleep(10 * time.Minute)
		lists := 0
		for _, p := range s.paths() {
			if p == "list" {
				lists++
			}
		}
		if lists > 60 {
			t.Errorf("%d lists in ten minutes", lists)
		}
	})
}
