package kube

import (
	"net/http"
	"testing"
)

// afterServing waits until the server has answered the next read, and calls f before the
// answer arrives.
func (c *ownCase) afterServing(f func()) {
	served := false
	c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if served || r.Method != http.MethodGet || isWatch(r) {
			return nil, nil
		}
		served = true
		resp, err := c.s.serve(r)
		f()
		return resp, err
	})
}

// A write may be made before the server's answer about its object arrives. The answer is
// older than such a write, so reads still wait for the write.
func TestAnswersThatWritesOvertake(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  func(c *ownCase)
	}{
		{"a question", func(c *ownCase) {
			c.s.remove(key("a"))
			c.cms.client.stores.unsure(c.cms.kind, key("a"))
			_, _ = c.store.Get(c.Context(), key("a"))
		}},
		{"a refresh", func(c *ownCase) {
			c.s.remove(key("a"))
			feed := OpenInformer(c.cms)
			defer feed.Close()
			if err := feed.Refresh(c.Context()); err != nil {
				c.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.afterServing(func() { c.write("a", "new") })
				tc.ask(c)
				c.wantNote("a", "new")
				wantLines(c.T, "all", content(c.T, c.store), "default/a new")
			})
		})
		t.Run(tc.name+" and a lost answer", func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.s.put(key("b"), "one") // a question finds this object
				c.afterServing(func() {
					c.s.put(key("a"), "new")
					c.s.put(key("b"), "new")
					c.cms.client.stores.unsure(c.cms.kind, key("a"))
					c.cms.client.stores.unsure(c.cms.kind, key("b"))
				})
				if tc.name == "a question" {
					c.cms.client.stores.unsure(c.cms.kind, key("b"))
					_, _ = c.store.Get(c.Context(), key("b"))
					c.wantNote("b", "new")
					return
				}
				feed := OpenInformer(c.cms)
				defer feed.Close()
				if err := feed.Refresh(c.Context()); err != nil {
					c.Error(err)
				}
				c.wantNote("a", "new")
				c.wantNote("b", "new")
			})
		})
	}
}
