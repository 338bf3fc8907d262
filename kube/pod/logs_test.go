package pod_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
)

// TestLogsCut cuts a log in the middle.
func TestLogsCut(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if (r.ProtoMajor == 2) != http2 {
				t.Errorf("the request is %s", r.Proto)
			}
			write(w, halfLine)
			_ = http.NewResponseController(w).Flush() // the client may be gone
			panic(http.ErrAbortHandler)
		}))
		s.EnableHTTP2 = http2
		config := &rest.Config{}
		if http2 {
			s.StartTLS()
			config.Insecure = true
		} else {
			s.Start()
		}
		config.Host = s.URL
		client, err := kube.Config{Rest: config}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		log, err := pod.Logs(t.Context(), kube.For[corev1.Pod](client).In("default"), "p", corev1.PodLogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if err == nil || !http2 && !errors.Is(err, io.ErrUnexpectedEOF) || string(text) != halfLine {
			t.Errorf("HTTP/2 %t: %v, %q", http2, err, text)
		}
		log.Close()
		client.Close()
		s.Close()
	}
}
