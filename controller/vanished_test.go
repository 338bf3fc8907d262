package controller

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// cutter cuts the watches of secrets.
type cutter struct {
	mu     sync.Mutex
	cut    bool
	gone   bool // what is resumed after the cut is too old
	bodies map[*cutBody]struct{}
}

type cutBody struct {
	io.ReadCloser
	of *cutter
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if b.of.cut {
		return 0, errors.New("cut")
	}
	return n, err
}

func (c *cutter) wire(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if !isWatch(r) || !strings.HasSuffix(r.URL.Path, "/secrets") {
		return send()
	}
	c.mu.Lock()
	cut, gone := c.cut, c.gone
	c.gone = c.gone && cut
	c.mu.Unlock()
	switch {
	case cut:
		return nil, errors.New("cut")
	case gone:
		const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusGone, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	resp, err := send()
	if err == nil {
		body := &cutBody{resp.Body, c}
		c.mu.Lock()
		c.bodies[body] = struct{}{}
		c.mu.Unlock()
		resp.Body = body
	}
	return resp, err
}

func (c *cutter) set(cut, gone bool) {
	c.mu.Lock()
	c.cut, c.gone = cut, gone
	bodies := c.bodies
	c.bodies = make(map[*cutBody]struct{})
	c.mu.Unlock()
	for b := range bodies {
		if cut {
			b.ReadCloser.Close()
		}
	}
}

// A child that is made and deleted by somebody else while the watch is cut comes
// back, whether the watch is resumed or the children are listed again.
func TestChildDeletedUnseenComesBack(t *testing.T) {
	for name, relist := range map[string]bool{"by resumption": false, "by relist": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			cut := &cutter{bodies: make(map[*cutBody]struct{})}
			client := b.connect(cut.wire)
			parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
			children := kube.For[corev1.Secret](client).In(b.namespace)
			b.create("first")
			b.start(Options{}, Controller[corev1.ConfigMap]{
				For: parents, Owns: []kube.AnyHandle{children},
				Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
					child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Data: map[string][]byte{"of": []byte(p.Name)}}
					if err := kube.SetController(parents, p, children, child); err != nil {
						return Done, err
					}
					_, err := children.Ensure(ctx, child)
					return Done, err
				},
			})
			b.eventually("a child", func() bool { return b.hasChild("first") })
			for _, name := range []string{"second", "third"} {
				cut.set(true, false)
				b.create(name)
				b.eventually("another child", func() bool { return b.hasChild(name) })
				if err := b.children.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
				time.Sleep(500 * time.Millisecond)
				cut.set(false, relist)
				b.eventually("the child is back", func() bool { return b.hasChild(name) })
			}
		})
	}
}
