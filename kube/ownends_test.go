package kube

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
)

// The answer to a write comes after the watch has shown the written object, and its end. A loop that
// has seen both is not shown them again, and one that was behind is shown them once.
func TestEndBeforeTheAnswer(t *testing.T) {
	for name, made := range map[string]Key{"named": key("ours"), "the server makes the name": {Namespace: "default"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				maps := For[corev1.ConfigMap](s.client(t)).In("default")
				s.put(key("busy"), "one")
				prompt, behind := holdLoop(t, maps), holdLoop(t, maps)
				prompt.rest()
				behind.rest()
				s.put(key("busy"), "two") // one loop waits at it
				prompt.rest()
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodPost {
						return nil, nil
					}
					o := s.put(key("ours"), "ours")
					wantLines(t, "the object", linesOf(t, prompt.rest()), "ADDED ours ours")
					s.remove(o.key)
					wantLines(t, "its end", linesOf(t, prompt.rest()), "DELETED ours ours")
					return s.encode(r, o), nil
				})
				cm := &corev1.ConfigMap{}
				if cm.Name = made.Name; cm.Name == "" {
					cm.GenerateName = "ou"
				}
				if _, err := maps.Create(context.Background(), cm); err != nil {
					t.Fatal(err)
				}
				wantLines(t, "after the answer", linesOf(t, prompt.rest()))
				behind.next()
				wantLines(t, "a loop that was behind", linesOf(t, behind.rest()), "ADDED ours ours", "DELETED ours ours")
				if left := remembered(prompt.feed.table); left != "" {
					t.Errorf("this is remembered: %s", left)
				}
			})
		})
	}
}
