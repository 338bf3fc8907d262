package kube

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slowly answers a list as of now, and calls do before the end of the list arrives.
func (s *apiServer) slowly(r *http.Request, do func()) (*http.Response, error) {
	resp, err := s.serve(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	most, last := body[:len(body)-1], body[len(body)-1:]
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(most), readerOf(do), bytes.NewReader(last)))
	return resp, nil
}

// readerOf is a reader without content that calls a function.
type readerOf func()

func (f readerOf) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// This process writes while a long list is on its way. The list is older than these writes, and no
// older than what was known when it was asked for. It counts, and so do the writes.
func TestOwnWritesDuringALongList(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.release()
		loop := follow(c.T, c.store.Watch, noteOfConfigMap)
		loop.taken()
		var want []string
		lists, written := 0, []string{"default/a one"}
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || isWatch(r) {
				return nil, nil
			}
			lists++
			return c.s.slowly(r, func() {
				name := fmt.Sprint("b", lists)
				c.write(name, "new")
				want, written = append(want, "ADDED default/"+name+" new"), append(written, "default/"+name+" new")
			})
		})
		c.s.loseHistory()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if lists != 1 {
			c.Errorf("there were %d lists, want 1", lists)
		}
		wantLines(c.T, "all", content(c.T, c.store), written...)
		wantLines(c.T, "a loop", without(loop.taken(), "SYNCED"), want...)
		c.remembersNothing()
	})
}

// The function of an index takes so long that this process writes an object while a list is being
// taken into the content.
func TestOwnWritesWhileAListIsIndexed(t *testing.T) {
	for name, filled := range map[string]bool{"the first list": false, "a later list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				s.put(key("gone"), "one")
				cms := For[corev1.ConfigMap](s.client(t)).In("default")
				slow, on := make(chan struct{}), filled
				IndexBy(cms, func(o *corev1.ConfigMap) []string {
					if !on && o.Data["note"] != "new" {
						<-slow
					}
					return []string{o.Data["note"]}
				})
				store, _ := startStore(t, cms.ReadOnly())
				synctest.Wait()
				if filled {
					s.hold()
					s.put(key("a"), "two")
					s.remove(key("gone"))
					on = false
					s.loseHistory()
					synctest.Wait()
				}
				s.hold()
				c := &ownCase{T: t, s: s, cms: cms, store: store, start: time.Now()}
				c.write("b", "new")
				close(slow)
				synctest.Wait()
				c.wantNote("b", "new")
				s.release()
				time.Sleep(5 * time.Minute)
				c.wantNote("b", "new")
				c.remembersNothing()
			})
		})
	}
}
