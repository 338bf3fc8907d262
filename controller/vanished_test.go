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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// cutter cuts the watches of a kind.
type cutter struct {
	of string // the end of its requests' paths

	mu     sync.Mutex
	cut    bool
	gone   bool // the history after the cut begins too late for the watch to resume
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
	if !isWatch(r) || !strings.HasSuffix(r.URL.Path, c.of) {
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
		return &http.Response{StatusCode: http.StatusGone, Header: header, Body: io.NopCloser(strings.NewReader(body)),
			Request: r}, nil
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

// Somebody else creates and deletes a child while the watch is cut. The child comes back,
// whether the watch is resumed or the children are listed again.
func TestChildDeletedUnseenComesBack(t *testing.T) {
	for name, relist := range map[string]bool{"by resumption": false, "by relist": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			cut := &cutter{of: "/secrets", bodies: make(map[*cutBody]struct{})}
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
				time.Sleep(500 * time.Millisecond) // nobody may see the deletion
				cut.set(false, relist)
				b.eventually("the child is back", func() bool { return b.hasChild(name) })
			}
		})
	}
}

// Token is a custom kind. An owner of another kind has one.
type Token struct {
	kube.Object
	Spec struct {
		Of string `json:"of"`
	} `json:"spec"`
}

func (Token) GVK() kube.GVK {
	return kube.GVK{Group: "vanished.pintle.test", Version: "v1", Kind: "Token"}
}

// Children whose definition is deleted and recreated come back: those that the store has
// shown, and one that it has not shown because its watch was cut.
func TestChildrenOfARecreatedKindComeBack(t *testing.T) {
	b := newBench(t)
	def := crd.Of[Token](crd.Options{})
	if err := def.Err(); err != nil {
		t.Fatal(err)
	}
	definitions := kube.For[crd.Definition](b.client)
	remove := func(ctx context.Context) {
		if err := definitions.Delete(ctx, def.Name); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	t.Cleanup(func() { remove(context.WithoutCancel(t.Context())) })
	if err := crd.Install(t.Context(), b.client, def); err != nil {
		t.Fatal(err)
	}
	cut := &cutter{of: "/tokens", bodies: make(map[*cutBody]struct{})}
	client := b.connect(cut.wire)
	parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
	tokens := kube.For[Token](client).In(b.namespace)
	b.create("shown")
	b.start(Options{}, Controller[corev1.ConfigMap]{
		For: parents, Owns: []kube.AnyHandle{tokens},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			token := new(Token)
			token.Name, token.Spec.Of = p.Name, p.Name
			if err := kube.SetController(parents, p, tokens, token); err != nil {
				return Done, err
			}
			_, err := tokens.Ensure(ctx, token)
			return Done, err
		},
	})
	others := kube.For[Token](b.client).In(b.namespace) // the test's own objects, unknown to the program
	has := func(name string) func() bool {
		return func() bool {
			_, err := others.Get(t.Context(), name)
			return err == nil
		}
	}
	b.eventually("a child", has("shown"))
	for _, name := range []string{"first", "second"} {
		cut.set(true, false)
		b.create(name)
		b.eventually("a child that the store has not shown", has(name))
		remove(t.Context())
		b.eventually("the definition is gone", func() bool {
			_, err := definitions.Get(t.Context(), def.Name)
			return apierrors.IsNotFound(err)
		})
		if err := crd.Install(t.Context(), b.client, def); err != nil {
			t.Fatal(err)
		}
		cut.set(false, false)
		b.eventually("the child that the store had shown is back", has("shown"))
		b.eventually("the child that it had not shown is back", has(name))
	}
}
