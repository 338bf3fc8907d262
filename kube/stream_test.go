package kube

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onlyWatch refuses lists, as for a user whose only right is watch.
func onlyWatch(_ int, r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && !isWatch(r) {
		return status(403, metav1.StatusReasonForbidden, `User "u" cannot list resource`), nil
	}
	return nil, nil
}

func TestWithoutTheRightToListAListIsStreamed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		s.put(key("b"), "one")
		s.intercept = onlyWatch
		f := watch(nil)
		lines := names(f.taken())
		if len(lines) != 3 || lines[2] != "SYNCED" {
			t.Fatalf("events: %q", lines)
		}
		s.put(key("c"), "one")
		wantLines(t, "then", names(f.taken()), "ADDED default/c")
		s.hold()
		s.remove(key("a"))
		s.loseHistory()
		time.Sleep(time.Minute)
		lines = names(f.taken())
		wantLines(t, "after the relist", lines[len(lines)-2:], "DELETED default/a", "SYNCED")
		for _, p := range s.paths()[1:] {
			if p == "list" {
				t.Fatalf("lists again: %q", s.paths())
			}
		}
		for _, r := range f.reports() {
			if strings.Contains(r.Error(), "cannot list") {
				t.Fatalf("reported although streaming works: %v", r)
			}
		}
	})
}

func TestWithoutAnyRight(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) {
				return status(422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden"), nil
			}
			return onlyWatch(0, r)
		}
		f := watch(nil)
		time.Sleep(time.Minute)
		r := f.reports()
		if len(r) != 1 || !strings.Contains(r[0].Error(), "cannot list") ||
			!strings.Contains(r[0].Error(), "sendInitialEvents is forbidden") {
			t.Fatalf("reports: %v", r)
		}
		s.setIntercept(nil)
		time.Sleep(maxDelay)
		wantLines(t, "the right is given", f.taken(), "SYNCED")
	})
}

// A server without streaming lists takes the request for a plain watch.
func TestServerThatIgnoresSendInitialEvents(t *testing.T) {
	for name, busy := range map[string]bool{"quiet": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.put(key("a"), "one")
				s.noStream = true
				s.intercept = onlyWatch
				f := watch(nil)
				for range 20 {
					time.Sleep(3 * time.Second)
					if busy {
						s.put(key("a"), "again")
					}
				}
				f.taken()
				r := f.reports()
				if len(r) == 0 {
					t.Fatalf("no report; requests %q", s.paths())
				}
				s.setIntercept(nil) // the user gets the right to list
				time.Sleep(time.Minute)
				lines := f.taken()
				if len(lines) == 0 || lines[len(lines)-1] != "SYNCED" {
					t.Fatalf("events: %q; requests %q", lines, s.paths())
				}
			})
		})
	}
}

// Changes come while the initial events are sent. These are changes between the state
// that is sent and the state that the mark promises.
func TestChangesAmongTheInitialEvents(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		var out *io.PipeWriter
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if n == 2 {
				resp, writer := piped(r, s.contentType(r))
				out = writer
				return resp, nil
			}
			return onlyWatch(n, r)
		}
		f := watch(nil)
		synctest.Wait()
		r := s.requests[1]
		send := func(kind string, o modelObject) {
			if _, err := out.Write(s.encodeEvent(r, kind, o)); err != nil {
				t.Fatal(err)
			}
		}
		a := modelObject{key: key("a"), uid: "a", rv: 105, note: "one"}
		b := modelObject{key: key("b"), uid: "b", rv: 103, note: "one"}
		send(eventAdded, a)
		send(eventAdded, b)
		a.rv, a.note = 110, "two"
		send(eventModified, a)
		b.rv = 111
		send(eventDeleted, b)
		send(eventDeleted, modelObject{key: key("never"), uid: "n", rv: 112})
		b.uid, b.rv = "b2", 113
		send(eventAdded, b)
		send(eventDeleted, modelObject{key: key("b"), uid: "b", rv: 111}) // the deletion of the old object
		send(eventBookmark, modelObject{rv: 114,
			extra: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
		wantLines(t, "events", names(f.taken()), "ADDED default/a", "ADDED default/b", "MODIFIED default/a",
			"DELETED default/b", "ADDED default/b", "SYNCED")
		s.rv = 114
		s.objects[key("a")], s.objects[key("b")] = a, b
		out.CloseWithError(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		if p := s.paths(); p[2] != "watch 114" {
			t.Fatalf("requests: %q", p)
		}
		wantLines(t, "events", f.taken())
	})
}

// The same holds for a store, whose content appears in one step.
func TestStoreOfAStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		var out *io.PipeWriter
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if n == 2 {
				resp, writer := piped(r, s.contentType(r))
				out = writer
				return resp, nil
			}
			return onlyWatch(n, r)
		}
		store, _ := startStore(t, configMaps(s.client(t)))
		synctest.Wait()
		r := s.requests[1]
		for _, ev := range []struct {
			kind string
			o    modelObject
		}{
			{eventAdded, modelObject{key: key("a"), uid: "a", rv: 105, note: "one"}},
			{eventAdded, modelObject{key: key("b"), uid: "b", rv: 103, note: "one"}},
			{eventModified, modelObject{key: key("a"), uid: "a", rv: 110, note: "two"}},
			{eventDeleted, modelObject{key: key("b"), uid: "b", rv: 111}},
		} {
			if _, err := out.Write(s.encodeEvent(r, ev.kind, ev.o)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if store.Synced() || store.Stats().Objects != 0 {
			t.Fatal("the store shows half a listing")
		}
		_, _ = out.Write(s.encodeEvent(r, eventBookmark, modelObject{rv: 114,
			extra: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}))
		synctest.Wait()
		wantLines(t, "content", content(t, store), "default/a two")
	})
}
