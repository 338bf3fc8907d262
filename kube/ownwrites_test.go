package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ownCase is a store whose watch is held up, in virtual time.
type ownCase struct {
	*testing.T
	s     *apiServer
	cms   Resource[corev1.ConfigMap]
	store *Store[corev1.ConfigMap]
	start time.Time

	other   Resource[unstructured.Unstructured]
	byOther bool
}

func ownWritesTest(
	t *testing.T, narrowTo func(Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap], test func(c *ownCase),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		c := &ownCase{T: t, s: s, cms: For[corev1.ConfigMap](s.client(t)).In("default")}
		c.store, _ = startStore(t, narrowTo(c.cms.ReadOnly()))
		if err := c.store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.hold()
		c.start = time.Now()
		test(c)
	})
}

// elsewhere makes the writes that follow by a handle of another type. A store cannot take the
// objects in the answers to them.
func (c *ownCase) elsewhere() {
	c.other = For[unstructured.Unstructured](c.cms.handle.client, KindOf[corev1.ConfigMap]()).In("default")
	c.byOther = true
}

// answered tells the stores of the answer to a write.
func (c *ownCase) answered(o *corev1.ConfigMap) {
	c.Helper()
	raw, err := wire.EncodeJSON(o)
	if err != nil {
		c.Fatal(err)
	}
	c.cms.handle.client.stores.wrote(c.cms.handle, c.cms.handle.kind, o, wire.Raw{Bytes: raw})
}

// remembersNothing fails if the store remembers anything besides its watch.
func (c *ownCase) remembersNothing() {
	c.Helper()
	if left := remembered(c.store.reads.table); left != "" {
		c.Errorf("this is remembered: %s", left)
	}
}

func asIs(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] { return r }

// took fails if reading has waited for longer, or for less time, than it should.
func (c *ownCase) took(want time.Duration) {
	c.Helper()
	if d := time.Since(c.start); d != want {
		c.Errorf("it took %s, want %s", d, want)
	}
	c.start = time.Now()
}

func (c *ownCase) wantNote(name, want string) {
	c.Helper()
	o, err := c.store.Get(c.Context(), key(name))
	switch {
	case apierrors.IsNotFound(err):
		if want != "" {
			c.Errorf("%s is not found, want %q", name, want)
		}
	case err != nil:
		c.Error(err)
	case o.Data["note"] != want:
		c.Errorf("%s is %q, want %q", name, o.Data["note"], want)
	}
}

func (c *ownCase) write(name, note string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"note": note}}
	for _, f := range change {
		f(o)
	}
	_, exists := c.s.objects[key(name)]
	var err error
	switch {
	case c.byOther:
		o, err = c.writeElsewhere(o, exists)
	case exists:
		o, err = c.cms.Update(c.Context(), o)
	default:
		o, err = c.cms.Create(c.Context(), o)
	}
	if err != nil {
		c.Fatal(err)
	}
	return o
}

func (c *ownCase) writeElsewhere(o *corev1.ConfigMap, exists bool) (*corev1.ConfigMap, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if exists {
		u, err = c.other.Update(c.Context(), u)
	} else {
		u, err = c.other.Create(c.Context(), u)
	}
	if err != nil {
		return nil, err
	}
	is := new(corev1.ConfigMap)
	return is, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, is)
}

func (c *ownCase) remove(name string) {
	c.Helper()
	if err := c.cms.Delete(c.Context(), name); err != nil {
		c.Fatal(err)
	}
}

func TestOwnWritesAreWaitedForAndThenAskedFor(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.wantNote("a", "one")
		c.took(0)
		c.elsewhere()
		c.write("a", "two")
		c.write("b", "new")
		c.wantNote("a", "two")
		c.took(ownWriteWait)
		wantLines(c.T, "all", content(c.T, c.store), "default/a two", "default/b new")
		c.took(ownWriteWait)
		c.wantNote("b", "new") // the server was asked for it
		c.took(0)
		c.write("b", "newer")
		go func() {
			time.Sleep(ownWriteWait / 2)
			c.s.release()
		}()
		c.wantNote("b", "newer")
		c.took(ownWriteWait / 2)
		wantLines(c.T, "all", content(c.T, c.store), "default/a two", "default/b newer")
		c.took(0)
		c.remembersNothing()
	})
}

func TestLostAnswers(t *testing.T) {
	for name, executed := range map[string]bool{"executed": true, "not executed": false} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet {
						return nil, nil
					}
					if executed {
						if _, err := c.s.serve(r); err != nil {
							return nil, err
						}
					}
					return nil, io.ErrUnexpectedEOF
				})
				_, err := c.cms.Update(c.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"},
					Data: map[string]string{"note": "two"}})
				if !errors.Is(err, errLost) {
					c.Fatalf("update: %v", err)
				}
				want := "one"
				if executed {
					want = "two"
				}
				c.wantNote("a", want)
				c.took(0)
				if err := c.cms.Delete(c.Context(), "a"); !errors.Is(err, errLost) {
					c.Fatalf("delete: %v", err)
				}
				if executed {
					want = ""
				}
				c.wantNote("a", want)
				wantLen := 1
				if executed {
					wantLen = 0
				}
				if got := content(c.T, c.store); len(got) != wantLen {
					c.Errorf("all: %q", got)
				}
				c.took(0)
			})
		})
	}
}

// A store with a selector may never see the write.
func TestOwnWritesThatASelectorHides(t *testing.T) {
	web := func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": "web"} }
	ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
		return r.Labeled("app=web")
	}, func(c *ownCase) {
		c.write("a", "unlabeled still")
		wantLines(c.T, "all", content(c.T, c.store))
		c.wantNote("a", "")
		c.took(0)
		c.write("a", "in", web)
		c.wantNote("a", "in")
		c.took(0)
		c.write("a", "out")
		c.wantNote("a", "")
		wantLines(c.T, "all", content(c.T, c.store))
		c.took(0)
		c.s.release()
		synctest.Wait()
		c.wantNote("a", "")
		c.s.put(key("a"), "by another", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		synctest.Wait()
		c.wantNote("a", "by another")
		c.took(0)
		time.Sleep(2 * time.Minute) // a bookmark comes
		c.remembersNothing()
	})
}

// Only the server can tell whether an object matches a field selector.
func TestOwnWritesThatAFieldSelectorHides(t *testing.T) {
	ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
		return r.Fielded("data.note=one")
	}, func(c *ownCase) {
		c.write("b", "other")
		wantLines(c.T, "all", content(c.T, c.store), "default/a one")
		c.took(0)
		c.write("a", "two")
		c.wantNote("a", "")
		c.took(0)
		c.write("a", "one")
		c.wantNote("a", "one")
		c.took(0)
		c.elsewhere()
		c.write("a", "one")
		c.wantNote("a", "one")
		c.took(ownFieldWait)
		c.wantNote("a", "one")
		c.took(0)
		c.s.release()
		synctest.Wait()
		wantLines(c.T, "all", content(c.T, c.store), "default/a one")
		c.took(0)
	})
}

func TestAnswersThatOvertakeOneAnother(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		first := c.write("a", "two")
		last := c.write("a", "three")
		c.answered(first) // the stores are told late
		if rv := c.store.reads.table.entry(key("a")).ResourceVersion(); rv != last.GetResourceVersion() {
			c.Errorf("version %s is read, want %s", rv, last.GetResourceVersion())
		}
		c.wantNote("a", "three")
		c.took(0)
		c.remove("a")
		c.answered(first)
		c.wantNote("a", "")
		c.took(0)
		c.s.release()
		synctest.Wait()
		late := c.write("b", "one")
		synctest.Wait()
		c.answered(late)
		c.remembersNothing()
	})
}

// A read waits for the writes before it began, not for later writes.
func TestReadsDoNotWaitForLaterWrites(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.elsewhere()
		c.write("b", "one")
		done := make(chan []string)
		go func() { done <- content(c.T, c.store) }()
		synctest.Wait()
		c.s.release() // the watch shows b
		synctest.Wait()
		select {
		case got := <-done:
			wantLines(c.T, "all", got, "default/a one", "default/b one")
		default:
			c.Error("the reader waits still")
		}
		c.took(0)
	})
}

func TestVersionsThatAreNoNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The objects are of an aggregated server with versions of its own.
		object := func(name, uid, rv, note string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u",
				ResourceVersion: rv}, Data: map[string]string{"note": note + uid}}
		}
		encode := func(o *corev1.ConfigMap) []byte {
			msg, err := o.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			return msg
		}
		s := newAPIServer()
		var out *io.PipeWriter
		live := object("a", "", "v-a", "one")
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			switch {
			case isWatch(r):
				resp, writer := piped(r, typeProtobuf)
				out = writer
				return resp, nil
			case r.Method == http.MethodGet:
				return answer(200, typeProtobuf, protobufList(metav1.ListMeta{ResourceVersion: "v-1"}, encode(live))), nil
			}
			return answer(200, typeProtobuf, inEnvelope("ConfigMap", encode(live))), nil
		}
		c := s.client(t)
		cms := For[corev1.ConfigMap](c).In("default")
		store, _ := startStore(t, cms.ReadOnly())
		wantLines(t, "at first", content(t, store), "default/a one")
		live = object("a", "", "v-b", "two")
		if _, err := cms.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		wantLines(t, "asked", content(t, store), "default/a two")
		if time.Since(start) != ownWriteWait {
			t.Errorf("after %s", time.Since(start))
		}
		synctest.Wait()
		if _, err := out.Write(protobufEvent(eventModified, inEnvelope("ConfigMap", encode(live)))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start = time.Now()
		wantLines(t, "seen", content(t, store), "default/a two")
		if left := remembered(store.reads.table); time.Since(start) != 0 || left != "" {
			t.Errorf("after %s, %s", time.Since(start), left)
		}
		// This process wrote the object, then another process wrote it, and the watch
		// merged the two changes.
		live = object("a", "", "v-c", "three")
		if _, err := cms.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		live = object("a", "", "v-d", "four")
		_, _ = out.Write(protobufEvent(eventModified, inEnvelope("ConfigMap", encode(live))))
		synctest.Wait()
		wantLines(t, "merged", content(t, store), "default/a four")
		if left := remembered(store.reads.table); left != "" {
			t.Errorf("this is remembered: %s", left)
		}
	})
}

// Writes while the watch is away, by a handle of another type, are remembered until the watch
// has come as far, or a list that began later.
func TestManyOwnWritesWhileTheWatchIsAway(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		const n = 10000
		table := c.store.reads.table
		for i := range n {
			table.answered(key(fmt.Sprint("o", i)), own.Answer{Own: true,
				Object: own.Object{Exists: true, UID: "u", Version: fmt.Sprint(1000 + i)}})
		}
		left := func() int { return len(table.now().own.Marked(0)) }
		if got := left(); got != n {
			c.Fatalf("%d are remembered", got)
		}
		sink := &tableSink{table: table, namespace: "default"}
		sink.progress(fmt.Sprint(1000 + n/2 - 1))
		if got := left(); got != n/2 {
			c.Errorf("%d are remembered after half", got)
		}
		sink.begin()
		if err := sink.synced(fmt.Sprint(1000 + n)); err != nil {
			c.Fatal(err)
		}
		c.remembersNothing()
	})
}

func TestDryRunsAndRefusalsAreNoWrites(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		for _, code := range []int{400, 403, 404, 409, 422, 429} {
			c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					return nil, nil
				}
				return status(code, metav1.StatusReasonUnknown, "no"), nil
			})
			if code != 429 { // the client repeats a request that got 429
				if err := c.cms.Delete(c.Context(), "a"); err == nil {
					c.Error("deleted")
				}
			}
		}
		c.s.setIntercept(nil)
		if _, err := c.cms.With(WriteOptions{DryRun: true}).Update(c.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
			c.Error(err)
		}
		c.remembersNothing()
	})
}

func TestOwnWritesOfASecondStore(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		views, _ := startStore(c.T, noteViews(c.cms.handle.client))
		if err := views.Sync(c.Context()); err != nil {
			c.Fatal(err)
		}
		c.write("a", "two")
		o, err := views.Get(c.Context(), key("a"))
		if err != nil || o.Data["note"] != "two" {
			c.Errorf("a view's store: %v, %v", o, err)
		}
		var all []string
		for o, err := range views.All(c.Context()) {
			if err != nil {
				c.Error(err)
			}
			all = append(all, o.Data["note"])
		}
		if !slices.Equal(all, []string{"two"}) {
			c.Errorf("all: %q", all)
		}
	})
}

func TestManyUnseenWritesAreAskedForAtOnce(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		want := []string{"a one"}
		c.elsewhere()
		for i := range 2 * askedEach {
			name := fmt.Sprintf("o%02d", i)
			c.write(name, "own")
			want = append(want, name+" own")
		}
		c.s.remove(key("o00")) // somebody else deletes it
		want = slices.Delete(want, 1, 2)
		before := len(c.s.paths())
		for range 2 {
			var got []string
			for o, err := range c.store.All(c.Context()) {
				if err != nil {
					c.Fatal(err)
				}
				got = append(got, o.Name+" "+o.Data["note"])
			}
			slices.Sort(got)
			wantLines(c.T, "objects", got, want...)
		}
		asked := c.s.paths()[before:]
		for _, path := range asked {
			if path != "page" {
				c.Errorf("asked for %q", asked)
			}
		}
		if len(asked) == 0 || len(asked) > 2 {
			c.Errorf("asked for %q", asked)
		}
	})
}
