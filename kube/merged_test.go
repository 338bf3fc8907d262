package kube

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// heldLoop is a loop over the changes of a feed. Its body takes one change for each call
// of next.
type heldLoop struct {
	t       *testing.T
	feed    *Informer
	changes chan Change
	cancel  context.CancelFunc
	ended   chan struct{}
}

func holdLoop(t *testing.T, s AnyHandle) *heldLoop {
	t.Helper()
	return holdFeed(t, s.Open(context.Background()), merged)
}

// merged are the changes of a loop that is shown the newest states.
func merged(ctx context.Context, f *Informer) iter.Seq[Change] { return f.Changes(ctx) }

// stepwise are the changes of a loop that is shown every step.
func stepwise(ctx context.Context, f *Informer) iter.Seq[Change] { return f.Changes(ctx, EveryStep) }

func holdFeed(t *testing.T, feed *Informer, changes func(context.Context, *Informer) iter.Seq[Change]) *heldLoop {
	ctx, cancel := context.WithCancel(t.Context())
	l := &heldLoop{t, feed, make(chan Change), cancel, make(chan struct{})}
	go func() {
		defer close(l.ended)
		for c := range changes(ctx, feed) {
			select {
			case l.changes <- c:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-l.ended; feed.Close() })
	return l
}

// next lets the loop take the change at which it waits.
func (l *heldLoop) next() Change {
	l.t.Helper()
	synctest.Wait()
	select {
	case c := <-l.changes:
		return c
	default:
		l.t.Fatal("there is no change")
		panic("unreachable")
	}
}

// rest lets the loop take all remaining changes. It returns them sorted by key, and in
// order for each key.
func (l *heldLoop) rest() (all []Change) {
	for {
		synctest.Wait()
		select {
		case c := <-l.changes:
			all = append(all, c)
		default:
			slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
			return all
		}
	}
}

func linesOf(t *testing.T, changes []Change) (lines []string) {
	t.Helper()
	for _, c := range changes {
		_, is, err := Decode[corev1.ConfigMap](c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Key.Name, is.Data["note"]))
	}
	return lines
}

// entryOf returns an entry of a ConfigMap with the label of this operator.
func entryOf(t *testing.T, table *table, name string) *entry {
	t.Helper()
	cm := &corev1.ConfigMap{Data: map[string]string{"note": "ours"}}
	cm.Namespace, cm.Name, cm.UID, cm.ResourceVersion = "default", name, types.UID("uid-"+name), "1"
	return wire.NewEntry(recordOf(t, table.handle.codec, cm))
}

// A loop waits at one object while another object goes through several steps. The loop is
// shown one change, from the state that it saw last to the present state.
func TestMergedChangesBeginAtWhatTheLoopSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		generation := func(n int64) func(*modelObject) {
			return func(o *modelObject) { o.extra.Generation = n }
		}
		owned := func(by types.UID) func(*modelObject) { return func(o *modelObject) { o.owner = by } }
		deleting := func(o *modelObject) { o.extra.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
		s.put(key("spec"), "one", generation(1))
		s.put(key("child"), "one", generation(1), owned("first"))
		s.put(key("orphan"), "one", generation(1), owned("first"))
		s.put(key("going"), "one", generation(1))
		s.put(key("busy"), "one")
		l := holdLoop(t, configMaps(s.client(t)))
		if n := len(l.rest()); n != 6 {
			t.Fatalf("%d changes at first", n)
		}
		s.put(key("busy"), "two") // the loop waits at it
		synctest.Wait()
		s.put(key("spec"), "two", generation(2))
		s.put(key("spec"), "two, and its status") // a write of another controller
		s.put(key("child"), "one", generation(2), owned("second"))
		s.put(key("child"), "two")
		s.put(key("orphan"), "one", owned("second"))
		s.remove(key("orphan"))
		s.put(key("going"), "one", deleting, generation(2))
		s.put(key("going"), "without the finalizer of another one", deleting)
		if c := l.next(); c.Key != key("busy") {
			t.Fatalf("the first change is of %s", c.Key)
		}
		all := l.rest()
		if len(all) != 4 {
			t.Fatalf("%d changes: %v", len(all), all)
		}
		child, going, orphan, spec := all[0], all[1], all[2], all[3]
		was, is, err := Decode[corev1.ConfigMap](spec)
		if err != nil || was.Data["note"] != "one" || is.Data["note"] != "two, and its status" {
			t.Errorf("before and after: %v, %v, %v", was, is, err)
		}
		if !spec.NewGeneration() {
			t.Error("a change of the spec is lost in one of the status")
		}
		if fields, err := spec.Fields(); err != nil || !slices.Contains(fields, "data.note") {
			t.Errorf("the fields are %q, %v", fields, err)
		}
		ownersOf := func(c Change) (uids []types.UID) {
			for o := range c.Owners() {
				uids = append(uids, o.UID)
			}
			return uids
		}
		if got := ownersOf(child); !slices.Equal(got, []types.UID{"second", "first"}) {
			t.Errorf("the owners of the child are %q", got)
		}
		if got := ownersOf(orphan); orphan.Type != Deleted || !slices.Equal(got, []types.UID{"second", "first"}) {
			t.Errorf("the owners of the deleted child are %q: %s", got, orphan.Type)
		}
		was, is, err = Decode[corev1.ConfigMap](orphan)
		if err != nil || was.OwnerReferences[0].UID != "first" || is.OwnerReferences[0].UID != "second" {
			t.Errorf("the deleted child went from %v to %v, %v", was, is, err)
		}
		if !orphan.NewGeneration() || !orphan.DeletionBegan() {
			t.Error("the end of the child is not the beginning of its deletion")
		}
		if !going.DeletionBegan() {
			t.Error("the beginning of the deletion is lost")
		}
	})
}

// Several changes that are merged begin at the state before the first one.
func TestChangesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		step := func(n int) {
			s.put(key("a"), fmt.Sprint(n), func(o *modelObject) {
				o.extra.Generation = int64(min(n, 2))
				o.owner = types.UID(fmt.Sprint("owner", n))
			})
		}
		step(1)
		l := holdLoop(t, configMaps(s.client(t)))
		first := l.next()
		l.next() // Synced
		var steps []Change
		for n := 2; n <= 4; n++ {
			step(n)
			steps = append(steps, l.next())
		}
		s.remove(key("a"))
		end := l.next()
		sum := steps[0].Then(steps[1]).Then(steps[2])
		was, is, err := Decode[corev1.ConfigMap](sum)
		if err != nil || was.Data["note"] != "1" || is.Data["note"] != "4" || !sum.NewGeneration() {
			t.Errorf("the sum goes from %v to %v, %v", was, is, err)
		}
		if all := first.Then(sum); all.Type != Added || all.before() != nil {
			t.Errorf("with the addition it is %s", all.Type)
		}
		gone := sum.Then(end)
		var owners []types.UID
		for o := range gone.Owners() {
			owners = append(owners, o.UID)
		}
		if gone.Type != Deleted || !slices.Equal(owners, []types.UID{"owner4", "owner1"}) {
			t.Errorf("with the deletion it is %s, of %q", gone.Type, owners)
		}
	})
}

// A loop was behind while an object came and went. It is shown the object if this process
// has ensured it, and no other object.
func TestObjectsThatCameAndWentUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, name := range []string{"busy", "seen", "replaced"} {
			s.put(key(name), "one")
		}
		maps := configMaps(s.client(t))
		l := holdLoop(t, maps)
		if n := len(l.rest()); n != 4 {
			t.Fatalf("%d changes at first", n)
		}
		table := l.feed.table
		ensure := func(o modelObject) {
			table.answered(o.key, own.Answer{Own: true,
				Object: own.Object{Exists: true, UID: o.uid, Version: strconv.FormatInt(o.rv, 10)}})
		}
		s.put(key("busy"), "two") // the loop waits at it
		synctest.Wait()
		for _, name := range []string{"ours", "twice", "seen"} {
			for range 2 {
				ensure(s.put(key(name), "ours"))
				synctest.Wait()
				s.remove(key(name))
				synctest.Wait()
				if name == "ours" {
					break
				}
			}
		}
		s.remove(key("replaced"))
		ensure(s.put(key("replaced"), "ours"))
		synctest.Wait()
		s.remove(key("replaced"))
		synctest.Wait()
		ensure(s.put(key("replaced"), "the last"))
		s.put(key("theirs"), "one")
		s.remove(key("theirs"))
		l.next()
		wantLines(t, "what is shown", linesOf(t, l.rest()),
			"ADDED ours ours", "DELETED ours ours",
			"DELETED replaced one", "ADDED replaced ours", "DELETED replaced ours", "ADDED replaced the last",
			"DELETED seen ours", "ADDED seen ours", "DELETED seen ours",
			"ADDED twice ours", "DELETED twice ours", "ADDED twice ours", "DELETED twice ours")

		// An object that no watch has ever shown is shown to all loops once.
		other := holdLoop(t, maps)
		other.rest()
		table.write(func(d *draft) {
			d.rule(key("never"), own.Verdict{Ended: []own.End{{UID: "never", Last: entryOf(t, table, "never")}}})
		})
		for _, l := range []*heldLoop{l, other} {
			wantLines(t, "what was never told of", linesOf(t, l.rest()), "ADDED never ours", "DELETED never ours")
		}
	})
}
