package kube

import (
	"net/http"
	"testing"
)

// afterServing has the next read of the server be answered, and calls f before the
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

// What the server says of an object is older than what is written before its answer
// arrives: such a write is still waited for.
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
				c.s.put(key("b"), "one") // which a question finds
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
