package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// An answer that is neither a success nor a redirection nor a failure is an error: a switch
// of protocols, whose body does not end, and answers of 300 and more without a Location.
func TestSwitchOfProtocols(t *testing.T) {
	for _, code := range []int{101, 300, 301, 303, 304, 305, 307} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it hangs"))
			defer cancel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if code != http.StatusSwitchingProtocols {
					w.WriteHeader(code)
					return
				}
				conn, to, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = to.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: spdy\r\n\r\n")
				_ = to.Flush()
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				_, _ = to.ReadByte() // until the client closes the connection
			}))
			defer server.Close()
			c, err := Config{Rest: &rest.Config{Host: server.URL}}.Connect()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cms := For[corev1.ConfigMap](c).In("default")
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			for verb, do := range map[string]func() error{
				"get":    func() error { return second(cms.Get(ctx, "a")) },
				"create": func() error { return second(cms.Create(ctx, cm)) },
				"delete": func() error { return cms.Delete(ctx, "a") },
				"list": func() (err error) {
					for _, err = range cms.List(ctx) {
						break
					}
					return err
				},
				"watch": func() (err error) {
					for _, err = range cms.Watch(ctx) {
						break
					}
					return err
				},
			} {
				if err := do(); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), fmt.Sprint(code)) {
					t.Errorf("%s: error %v", verb, err)
				}
			}
		})
	}
}
