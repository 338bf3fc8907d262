package kube_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/requesttrace"
	"github.com/pintle-go/pintle/kube"
)

// The server tells who manages the fields of a change, and a trace is told of the
// request. The program may list and watch the kind but not get it: a store needs no more.
func TestManagers(t *testing.T) {
	s := start(t)
	config := s.cluster.Config()
	config.Impersonate.UserName = s.user(t, "", "configmaps", "list", "watch")
	maps, read := kube.For[corev1.ConfigMap](s.Client).In(s.namespace), kube.For[corev1.ConfigMap](s.connect(t, config))
	applied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "1"}}
	if _, err := maps.Apply(t.Context(), applied); err != nil {
		t.Fatal(err)
	}
	feed := read.In(s.namespace).Open(context.Background())
	defer feed.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c := range feed.Changes(ctx) {
		switch {
		case c.Type == kube.Synced:
			patch := []byte(`{"data":{"b":"2"},"metadata":{"labels":{"x.y/z":"3"}}}`)
			if _, err := maps.Patch(ctx, "m", types.MergePatchType, patch); err != nil {
				t.Fatal(err)
			}
		case c.Type == kube.Modified && c.Key.Name == "m":
			fields, err := c.Fields()
			if err != nil || !slices.Equal(fields, []string{"data.b", "metadata.labels"}) {
				t.Errorf("the changed fields are %v, %v", fields, err)
			}
			var mu sync.Mutex
			var traced []requesttrace.Request
			var codes []int
			trace := func(ctx context.Context, r requesttrace.Request) (context.Context, func(int, error)) {
				return ctx, func(code int, _ error) {
					mu.Lock()
					defer mu.Unlock()
					traced, codes = append(traced, r), append(codes, code)
				}
			}
			got, err := c.Managers(requesttrace.With(ctx, trace), "data.a", "data.b", "metadata.labels[x.y/z]", "data.c")
			if err != nil {
				t.Fatal(err)
			}
			apply := kube.Manager{Name: "pintle-test", Operation: "Apply"}
			update := kube.Manager{Name: "pintle-test", Operation: "Update"}
			for path, want := range map[string][]kube.Manager{
				"data.a": {apply}, "data.b": {update}, "metadata.labels[x.y/z]": {update}, "data.c": nil,
			} {
				if !slices.Equal(got[path], want) {
					t.Errorf("%s is managed by %v, want %v", path, got[path], want)
				}
			}
			if len(traced) != 1 || traced[0].Kind != "ConfigMap" || traced[0].Verb != "list" || codes[0] != 200 {
				t.Errorf("traced is %+v, %v", traced, codes)
			}
			must(t, maps.Delete(ctx, "m"))
			got, err = c.Managers(ctx, "data.a")
			if err != nil || len(got) > 0 {
				t.Errorf("the managers of an object that is gone are %v, %v", got, err)
			}
			if _, err := maps.Apply(ctx, applied); err != nil {
				t.Fatal(err)
			}
			got, err = c.Managers(ctx, "data.a")
			if err != nil || len(got) > 0 {
				t.Errorf("the managers of an object that was recreated are %v, %v", got, err)
			}
			return
		}
	}
	t.Error("the change was not seen")
}
