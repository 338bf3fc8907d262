package kube

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ignoresLabels has the server list and watch all objects, whatever labels are asked for, as a server
// may that serves a kind from a system of its own.
func (s *apiServer) ignoresLabels() {
	s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		q := r.URL.Query()
		q.Del("labelSelector")
		r.URL.RawQuery = q.Encode()
		return nil, nil
	})
}

// A watch of objects with some labels shows no others, also if the server does not select them. An
// object ends that loses the labels.
func TestServerIgnoresLabelSelectors(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.ignoresLabels()
		s.put(key("other"), "one")
		s.put(key("web"), "one", isWeb)
		f := watch(func(n narrow) { n.Labeled("app=web") })
		wantLines(t, "at first", names(f.taken()), "ADDED default/web", "SYNCED")
		s.put(key("other"), "two")
		s.put(key("late"), "one", isWeb)
		s.put(key("web"), "two", func(o *modelObject) { o.labels = nil })
		s.put(key("other"), "three", isWeb)
		s.remove(key("late"))
		wantLines(t, "then", names(f.taken()),
			"ADDED default/late", "DELETED default/web", "ADDED default/other", "DELETED default/late")
	})
}

// Lists and stores show no others either, and the store of a program that may not list, but watch.
func TestServerIgnoresLabelSelectorsOfLists(t *testing.T) {
	for name, mayList := range map[string]bool{"a list": true, "a streaming list": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.ignoresLabels()
				s.put(key("other"), "one")
				s.put(key("web"), "one", isWeb)
				cms := ofWeb(For[corev1.ConfigMap](s.client(t)).In("default").ReadOnly())
				var listed []string
				for o, err := range cms.List(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					listed = append(listed, KeyOf(o).String())
				}
				wantLines(t, "List", listed, "default/web")
				if !mayList {
					s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
						q := r.URL.Query()
						q.Del("labelSelector")
						r.URL.RawQuery = q.Encode()
						if q.Has("watch") {
							return nil, nil
						}
						return jsonAnswer(403, &metav1.Status{
							TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
							Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no list",
						}), nil
					})
				}
				store, _ := startStore(t, cms)
				synctest.Wait()
				wantLines(t, "the store", content(t, store), "default/web one")
				s.put(key("web"), "two", func(o *modelObject) { o.labels = nil })
				synctest.Wait()
				wantLines(t, "the store later", content(t, store))
			})
		})
	}
}

// Objects of another namespace than the one that was asked for, and objects without a name, are errors.
func TestListOfObjectsElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		key  Key
		want string
	}{
		"another namespace": {Key{"other", "a"}, "the object is other/a"},
		"no name":           {Key{"default", ""}, "an object without a name"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(test.key, "one")
				elsewhere := func(_ int, r *http.Request) (*http.Response, error) {
					r.URL.Path = strings.Replace(r.URL.Path, "/namespaces/default", "", 1)
					return nil, nil
				}
				s.setIntercept(elsewhere)
				cms := For[corev1.ConfigMap](s.client(t)).In("default").ReadOnly()
				var failed error
				for o, err := range cms.List(t.Context()) {
					if failed = err; err == nil {
						t.Errorf("List yields %s", KeyOf(o))
					}
				}
				if failed == nil || !strings.Contains(failed.Error(), test.want) {
					t.Errorf("List fails with %v", failed)
				}
				store, _ := startStore(t, cms)
				synctest.Wait()
				if store.Trouble() == nil {
					t.Error("the store tells no trouble")
				}
				if n := store.Stats().Objects; n > 0 {
					t.Errorf("the store has %d objects", n)
				}
			})
		})
	}
}
