package kube

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This process made an object, and somebody deletes it before the store shows it. The
// store shows it as added and deleted, so that dependents learn of its absence.
func TestOwnObjectsThatVanish(t *testing.T) {
	owned := func(o *corev1.ConfigMap) {
		o.Labels = map[string]string{"app": "web"}
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "uid-1"}}
	}
	for _, tc := range []struct {
		name string
		do   func(c *ownCase)
	}{
		{"by resumption", func(c *ownCase) {
			c.write("b", "one", owned)
			c.s.remove(key("b"))
			c.s.cutWatches()
			synctest.Wait()
			c.s.release()
		}},
		{"by relist", func(c *ownCase) {
			c.write("b", "one", owned)
			c.s.remove(key("b"))
			c.s.loseHistory()
		}},
		{"by relist after the watch showed it", func(c *ownCase) {
			c.write("b", "one", owned)
			c.s.mu.Lock()
			c.s.held = c.s.rv
			close(c.s.changed)
			c.s.changed = make(chan struct{})
			c.s.mu.Unlock()
			c.s.remove(key("b"))
			c.s.loseHistory()
		}},
		{"by relist after a lost answer", func(c *ownCase) {
			o := c.write("b", "one", owned)
			c.cms.handle.client.stores.lost(c.cms.handle.kind, KeyOf(o), errLost)
			c.s.remove(key("b"))
			c.s.loseHistory()
		}},
		{"by relist after a write of a subresource", func(c *ownCase) {
			o := c.write("b", "one", owned)
			o.ResourceVersion += "1"
			c.cms.handle.client.stores.wrotePart(c.cms.handle.kind, o)
			c.s.remove(key("b"))
			c.s.loseHistory()
		}},
		{"when a reader asks, and by relist", func(c *ownCase) {
			c.elsewhere()
			c.write("b", "one", owned)
			c.s.remove(key("b"))
			c.wantNote("b", "")
			c.s.loseHistory()
		}},
		{"before the answer", func(c *ownCase) {
			c.s.release()
			c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost {
					return nil, nil
				}
				resp, err := c.s.serve(r)
				time.Sleep(time.Millisecond) // the quick loop sees the object
				c.s.remove(key("b"))
				time.Sleep(time.Second)
				return resp, err
			})
			c.write("b", "one", owned)
		}},
		{"before the answer, which a list overtakes", func(c *ownCase) {
			c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost {
					return nil, nil
				}
				resp, err := c.s.serve(r)
				c.s.remove(key("b"))
				c.s.loseHistory()
				time.Sleep(time.Minute)
				return resp, err
			})
			c.write("b", "one", owned)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
				return r.Labeled("app!=db")
			}, func(c *ownCase) {
				t := c.T
				var seen []string
				quick := follow(t, c.store.Watch, noteOfConfigMap)
				slow := follow(t, c.store.Watch, noteOfConfigMap)
				quick.taken()
				slow.taken()
				slow.setSlow(time.Hour)
				c.s.release()
				c.s.put(key("a"), "two") // it keeps the slow loop busy
				synctest.Wait()
				c.s.hold()
				quick.taken()
				tc.do(c)
				time.Sleep(2 * time.Minute)
				for _, line := range quick.taken() {
					seen = append(seen, strings.TrimSuffix(strings.TrimSuffix(line, " one"), " two"))
				}
				want := []string{"ADDED default/b", "DELETED default/b"}
				if tc.name == "before the answer" {
					want = append(want, want...) // its owner becomes known after it was shown
				}
				wantLines(t, "a quick loop", without(seen, "SYNCED"), want...)
				slow.setSlow(0)
				time.Sleep(2 * time.Hour)
				seen = nil
				for _, line := range slow.taken() {
					seen = append(seen, strings.TrimSuffix(strings.TrimSuffix(line, " one"), " two"))
				}
				wantLines(t, "a slow loop", without(seen, "SYNCED"), "MODIFIED default/a", "ADDED default/b", "DELETED default/b")
			})
		})
	}
}

func without(lines []string, line string) (left []string) {
	for _, l := range lines {
		if l != line {
			left = append(left, l)
		}
	}
	return left
}

// The end of an object that still exists is not shown, and neither is that of an object that a
// selector hides. An own object that this process has deleted itself is shown like others.
func TestOwnObjectsThatDoNotVanish(t *testing.T) {
	ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
		return r.Labeled("app!=db")
	}, func(c *ownCase) {
		t := c.T
		loop := follow(t, c.store.Watch, noteOfConfigMap)
		loop.taken()
		c.write("mine", "one")
		c.remove("mine")
		c.write("hidden", "one", func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": "db"} })
		c.write("there", "one")
		c.s.remove(key("hidden"))
		c.s.loseHistory()
		time.Sleep(2 * time.Minute)
		wantLines(t, "a loop", without(loop.taken(), "SYNCED"),
			"ADDED default/mine one", "DELETED default/mine one", "ADDED default/there one")
		c.s.remove(key("there"))
		wantLines(t, "a loop that has seen it", loop.taken(), "DELETED default/there one")
	})
}

// Only the server knows whether an own object matches a field selector. Loops are shown its end,
// because it may have been in the store's selection.
func TestOwnObjectsThatAFieldSelectorNeverShows(t *testing.T) {
	ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
		return r.Fielded("data.shown=one")
	}, func(c *ownCase) {
		loop := follow(c.T, c.store.Watch, noteOfConfigMap)
		loop.taken()
		c.s.release()
		c.write("b", "two") // its answer does not show the field
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		wantLines(c.T, "a loop", loop.taken(), "ADDED default/b", "DELETED default/b")
	})
}
