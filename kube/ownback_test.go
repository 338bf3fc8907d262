package kube

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Somebody takes an object's label while a create is under way, whose name the server makes. This process
// puts the label back, and somebody deletes the object before the watch shows that. Each loop must learn of
// the end of what this process wrote: nobody would make it again otherwise.
func TestEndOfWhatCameBack(t *testing.T) {
	for name, under := range map[string]bool{"no other write": false, "another write is under way": true} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
				return r.Labeled("app=web")
			}, func(c *ownCase) {
				loop := follow(c.T, c.store.Watch, noteOfConfigMap)
				loop.taken()
				c.s.release()
				c.s.put(key("b"), "one", isWeb)
				synctest.Wait()
				wantLines(c.T, "at first", loop.taken(), "ADDED default/b one")
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPost {
						time.Sleep(10 * time.Second) // a webhook
						return jsonAnswer(403, &metav1.Status{
							TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
							Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no",
						}), nil
					}
					return nil, nil
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					if under {
						cm := &corev1.ConfigMap{}
						cm.GenerateName = "other-"
						if _, err := c.cms.Create(context.Background(), cm); err == nil {
							c.Error("the webhook refuses nothing")
						}
					}
				}()
				synctest.Wait()
				c.s.put(key("b"), "two", func(o *modelObject) { o.labels = nil })
				synctest.Wait()
				wantLines(c.T, "it has left", loop.taken(), "DELETED default/b one")
				c.s.hold()
				c.elsewhere()
				c.write("b", "three", func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": "web"} })
				c.s.remove(key("b"))
				c.s.loseHistory()
				time.Sleep(5 * time.Minute)
				<-done
				c.s.release()
				time.Sleep(time.Minute)
				wantLines(c.T, "at last", without(loop.taken(), "SYNCED"), "ADDED default/b", "DELETED default/b")
			})
		})
	}
}
