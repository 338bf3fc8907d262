package own_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
)

// The model has one key, a server, and a store that follows it by a watch. Everything that the
// store may hear can be late, and comes in any order. TestModel visits all states that a bounded
// number of steps leads to, and checks the promises of the package's documentation in each.

type (
	state   = own.State[string]
	verdict = own.Verdict
)

// fact is the state of the server at a version: an object, or none. Version n is history[n-1].
type fact struct {
	uid  types.UID // empty: none
	gone types.UID // the object that was deleted at this version, or left the selection
	out  bool      // the selection does not have the object
	// deleting: the object has a deletion timestamp, and a finalizer holds it.
	deleting bool
}

// letter is an answer on its way to the store.
type letter struct {
	kind    string // wrote, part, deleted, lost, list, live
	version int
	uid     types.UID // of the object; for a list or a question: empty if there is none
	object  int       // version of the object in a list or an answer
	began   uint64
	floor   string
}

type world struct {
	history []fact
	seen    int // by the watch
	letters []letter
	// asked are the questions and lists that the server has not answered.
	asked []letter
	store state
	now   own.Object
	mine  bool // this process wrote the content's object
	// ours are the objects that this process has written, as far as it knows by answers. told are
	// those whose ends were told.
	ours, told []types.UID
	acked      int // the latest version of an own write that was answered
	// left are the steps that are left, by kind.
	left budget
}

type budget struct {
	foreign, relabels, writes, losses, lists, asks, stales int
	// blind: this process also deletes objects that it has not seen. A server that answers questions
	// from before such a deletion, whose version is not known, cannot be found out.
	blind bool
	// all: this process also deletes the object together with others.
	all bool
	// metadata: the lists are of the metadata alone.
	metadata bool
	// honest: the server answers no question from before, so that a read is not older than a write
	// whose answer was lost.
	honest bool
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const key = "key"

func newWorld(left budget) world {
	w := world{store: own.New(1, func(string) int { return 0 }, left.relabels > 0), left: left}
	if left.metadata { // the store has been filled
		w.progress(0)
	}
	return w
}

func (w *world) clone() world {
	c := *w
	c.history, c.letters, c.asked = slices.Clone(w.history), slices.Clone(w.letters), slices.Clone(w.asked)
	c.ours, c.told = slices.Clone(w.ours), slices.Clone(w.told)
	return c
}

// fact returns the state of the server at a version.
func (w *world) fact(version int) fact {
	if version == 0 {
		return fact{}
	}
	return w.history[version-1]
}

// at returns the object that the selection has at a version.
func (w *world) at(version int) own.Object {
	f := w.fact(version)
	if f.uid == "" || f.out {
		return own.Object{}
	}
	return own.Object{Exists: true, UID: f.uid, Version: strconv.Itoa(version), Deleting: f.deleting}
}

func (w *world) present() own.Object { return w.at(len(w.history)) }

// change adds a version to the server's history.
func (w *world) change(f fact) int {
	was := w.fact(len(w.history))
	if f.uid == "" || f.out && !was.out {
		f.gone = was.uid
	}
	w.history = append(w.history, f)
	return len(w.history)
}

// wasOut reports that an object has been outside of the selection.
func (w *world) wasOut(uid types.UID) bool {
	return slices.ContainsFunc(w.history, func(f fact) bool { return f.out && f.uid == uid })
}

// newUID returns the uid of an object that is made.
func (w *world) newUID() types.UID {
	n := 1
	for _, f := range w.history {
		if f.uid == "" {
			n++
		}
	}
	return types.UID("u" + strconv.Itoa(n))
}

// apply obeys a verdict, as a store does.
func (w *world) apply(v verdict, is own.Object) {
	w.mine = w.mine || v.OwnWas
	if lost := w.now; lost.Exists && (v.Drop || v.Take && lost.UID != is.UID) && w.mine {
		w.tell(lost.UID)
	}
	switch {
	case v.Take && w.now.UID != is.UID:
		w.mine, w.now = false, is
	case v.Take:
		w.now = is
	case v.Drop:
		w.mine, w.now = false, own.Object{}
	}
	for _, e := range v.Ended {
		w.tell(e.UID)
	}
	w.mine = w.mine || v.OwnIs
}

func (w *world) content(string) own.Object { return w.now }

func (w *world) each(_ string, v verdict) { w.apply(v, own.Object{}) }

func (w *world) tell(uid types.UID) { w.told = append(w.told, uid) }

func (w *world) progress(version int) {
	w.store = w.store.Progress(0, strconv.Itoa(version), w.content, w.each)
}

// arrives has the store hear a letter.
func (w *world) arrives(l letter) {
	var v verdict
	is := own.Object{
		Exists: true, UID: l.uid, Version: strconv.Itoa(l.version), Deleting: w.fact(l.version).deleting,
	}
	switch l.kind {
	case "wrote", "part":
		w.acked = max(w.acked, l.version)
		if !slices.Contains(w.ours, l.uid) {
			w.ours = append(w.ours, l.uid)
		}
		w.store, v = w.store.Answered(key, w.now, own.Answer{
			Object: is, Whole: l.kind == "wrote", Own: true, Out: w.fact(l.version).out,
		}, 0)
		for _, e := range v.Ended { // the answer may come after the watch has shown the end
			w.told = slices.DeleteFunc(w.told, func(uid types.UID) bool { return uid == e.UID })
		}
		w.apply(v, is)
	case "deleted":
		w.acked = max(w.acked, l.version)
		w.store, v = w.store.Deleted(key, w.now, l.uid, epoch)
		w.apply(v, own.Object{})
	case "deleting":
		w.acked = max(w.acked, l.version)
		is.Version, is.Deleting = strconv.Itoa(l.object), false
		w.store, v = w.store.Deleting(key, w.now, is, nil)
		w.apply(v, own.Object{})
	case "lost":
		if w.left.honest {
			w.acked = max(w.acked, l.version)
		}
		w.store, _ = w.store.Lost(key, w.now, epoch)
	case "live":
		w.answer(l)
	case "list":
		w.list(l)
	}
}

// answer has the store hear the answer to a question.
func (w *world) answer(l letter) {
	version, is, f := strconv.Itoa(l.version), w.at(l.object), w.fact(l.object)
	told := version
	if f.uid != "" {
		is = own.Object{Exists: true, UID: f.uid, Version: version, Deleting: f.deleting}
	}
	if least, _ := strconv.Atoi(w.store.Least(key, w.now)); least > atoi(told) {
		return // stale: it is asked again
	}
	var v verdict
	if is.Exists {
		w.store, v = w.store.Answered(key, w.now, own.Answer{
			Object: is, Whole: true, Out: f.out,
		}, l.began)
	} else {
		w.store, v = w.store.Absent(key, w.now, version, l.began)
	}
	w.apply(v, is)
}

func (w *world) list(l letter) {
	list := own.List{Version: strconv.Itoa(l.version), Began: l.began, Floor: l.floor, Whole: !w.left.metadata}
	if list.Stale() {
		return // it is asked for again
	}
	is := w.at(l.object)
	var v verdict
	w.store, v = w.store.Listed(list, key, w.now, is, nil)
	w.apply(v, is)
	w.store = w.store.ListEnds(list, w.content, w.each)
	if list.Whole {
		w.seen = max(w.seen, l.version)
	}
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// watch has the store hear the next event.
func (w *world) watch() {
	w.seen++
	f, was := w.fact(w.seen), w.fact(w.seen-1)
	if f.out && (was.out || was.uid == "") || f.uid == "" && was.out { // nothing that the selection has
		w.progress(w.seen)
		return
	}
	is := own.Object{Exists: true, UID: f.uid, Version: strconv.Itoa(w.seen), Deleting: f.deleting}
	if f.gone != "" {
		is.UID = f.gone
	}
	var v verdict
	w.store, v = w.store.Event(key, w.now, is, f.gone != "")
	w.apply(v, is)
	w.progress(w.seen)
}

// steps returns the worlds that one step leads to, with the names of the steps.
func (w *world) steps() (names []string, next []world) {
	step := func(name string, f func(*world)) {
		c := w.clone()
		f(&c)
		names, next = append(names, name), append(next, c)
	}
	is := w.fact(len(w.history))
	if w.left.foreign > 0 {
		others := func(name string, f fact) {
			step("others "+name, func(w *world) { w.left.foreign--; w.change(f) })
		}
		if is.uid != "" {
			others("update", fact{uid: is.uid, out: is.out, deleting: is.deleting})
			others("delete", fact{})
		} else {
			others("create", fact{uid: w.newUID()})
		}
	}
	if w.left.relabels > 0 && is.uid != "" {
		relabeled := fact{uid: is.uid, out: !is.out, deleting: is.deleting}
		step("others relabel", func(w *world) { w.left.relabels--; w.change(relabeled) })
	}
	if w.left.writes > 0 {
		write := func(name, kind string, f fact) {
			step("own "+name, func(w *world) {
				w.left.writes--
				version := w.change(f)
				uid := types.UID(cmp.Or(string(f.uid), string(is.uid)))
				w.letters = append(w.letters, letter{kind: kind, version: version, uid: uid, object: version - 1})
			})
		}
		known := w.left.blind || w.now.UID == is.uid || slices.Contains(w.ours, is.uid)
		switch {
		case is.uid == "":
			write("create", "wrote", fact{uid: w.newUID()})
		case known:
			write("delete", "deleted", fact{})
			fallthrough
		default:
			write("update", "wrote", fact{uid: is.uid, out: is.out, deleting: is.deleting})
			write("status", "part", fact{uid: is.uid, out: is.out, deleting: is.deleting})
			if w.left.relabels > 0 {
				write("relabel", "wrote", fact{uid: is.uid, out: !is.out, deleting: is.deleting})
			}
			if w.left.all && !is.out && !is.deleting {
				write("deletion of all", "deleting", fact{})
				write("deletion of all, held", "deleting", fact{uid: is.uid, deleting: true})
			}
		}
	}
	if w.seen < len(w.history) {
		step("watch", (*world).watch)
	}
	if w.left.lists > 0 {
		step("list begins", func(w *world) {
			w.left.lists--
			w.asked = append(w.asked, letter{kind: "list", began: w.store.Began(), floor: w.store.Lane(0).Floor})
		})
	}
	if w.left.asks > 0 && w.store.Look(key) != own.Read {
		step("question", func(w *world) {
			w.left.asks--
			w.asked = append(w.asked, letter{kind: "live", began: w.store.Began()})
		})
	}
	w.answers(step)
	for i, l := range w.letters {
		arrives := func(w *world) { w.letters = slices.Delete(w.letters, i, i+1); w.arrives(l) }
		step(l.kind+" arrives", arrives)
		if w.left.losses > 0 && (l.kind == "wrote" || l.kind == "part" || l.kind == "deleted") {
			step(l.kind+" is lost", func(w *world) { w.left.losses--; l.kind = "lost"; arrives(w) })
		}
	}
	return names, next
}

// answers has the server answer questions, from the present or, as a cache that lags does,
// from before.
func (w *world) answers(step func(string, func(*world))) {
	for i, l := range w.asked {
		oldest := len(w.history)
		if w.left.stales > 0 {
			oldest = 0
		}
		for version := oldest; version <= len(w.history); version++ {
			step(fmt.Sprintf("server answers %s of %d", l.kind, version), func(w *world) {
				if version < len(w.history) {
					w.left.stales--
				}
				w.asked = slices.Delete(w.asked, i, i+1)
				l.version, l.object = version, version
				w.letters = append(w.letters, l)
			})
		}
	}
}

// wrong returns which promise does not hold, or "".
func (w *world) wrong() string {
	if w.store.Look(key) == own.Read && !w.readable() {
		return fmt.Sprintf("a read gives %v, older than the own write %d", w.now, w.acked)
	}
	for i, uid := range w.told {
		switch {
		case w.wasOut(uid):
		case w.present().UID == uid:
			return fmt.Sprintf("the end of %s is told, and it exists", uid)
		case slices.Contains(w.told[:i], uid):
			return fmt.Sprintf("the end of %s is told twice", uid)
		}
	}
	return ""
}

// readable reports that the content is the server's at the last own write that was answered, or at
// a later version.
func (w *world) readable() bool {
	for version := w.acked; version <= len(w.history); version++ {
		if w.at(version) == w.now {
			return true
		}
	}
	return false
}

// settled has everything happen that is due, and returns which promise does not hold then.
func (w *world) settled() string {
	c := w.clone()
	for len(c.letters) > 0 {
		l := c.letters[0]
		c.letters = c.letters[1:]
		c.arrives(l)
		if wrong := c.wrong(); wrong != "" {
			return wrong
		}
	}
	for c.seen < len(c.history) {
		c.watch()
		if wrong := c.wrong(); wrong != "" {
			return wrong
		}
	}
	c.store = c.store.Tick(0, epoch.Add(own.Kept))
	for _, uid := range c.ours {
		if c.present().UID != uid && !c.wasOut(uid) && !slices.Contains(c.told, uid) {
			return fmt.Sprintf("the end of %s is never told", uid)
		}
	}
	switch left := own.Print(&c.store); {
	case left != "":
		return "this is remembered for ever: " + left
	case c.now != c.present():
		return fmt.Sprintf("the content is %v, and the server has %v", c.now, c.present())
	}
	return ""
}

// explore visits all states, the nearest first. It returns their number, and the shortest way to a
// state in which a promise does not hold.
func explore(from world) (states int, way []string, wrong string) {
	type visit struct {
		world world
		came  *visit
		step  string
	}
	visited := map[string]bool{}
	queue := []*visit{{world: from}}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		if wrong = v.world.wrong(); wrong == "" {
			wrong = v.world.settled()
		}
		if wrong != "" {
			for ; v != nil; v = v.came {
				way = append(way, v.step)
			}
			slices.Reverse(way)
			return states, way, wrong
		}
		names, next := v.world.steps()
		for i := range next {
			if next[i].floorFell(&v.world) {
				next[i].told = append(next[i].told, "the floor fell")
			}
			if p := next[i].print(); !visited[p] {
				visited[p] = true
				queue = append(queue, &visit{next[i], v, names[i]})
			}
		}
		states++
	}
	return states, nil, ""
}

// floorFell reports that the lane's floor is lower than it was.
func (w *world) floorFell(was *world) bool {
	return atoi(w.store.Lane(0).Floor) < atoi(was.store.Lane(0).Floor)
}

func TestModel(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine visits all states: TestMutants runs this without the race detector")
	}
	for _, c := range []struct {
		name  string
		left  budget
		least int // states: fewer show that the test looks at less
	}{
		{"writes", budget{foreign: 2, writes: 3, losses: 1, blind: true}, 35000},
		{"others", budget{foreign: 4, writes: 2, blind: true}, 23000},
		{"deletions of all", budget{foreign: 2, writes: 2, losses: 1, asks: 1, all: true}, 18000},
		{"selection", budget{foreign: 1, relabels: 2, writes: 2, losses: 1, asks: 1}, 41000},
		{"losses", budget{foreign: 2, writes: 2, losses: 2, asks: 2, blind: true, honest: true}, 66000},
		{"questions", budget{foreign: 2, writes: 2, losses: 1, asks: 1, stales: 1}, 17000},
		{"lists", budget{foreign: 2, writes: 2, losses: 1, lists: 1, stales: 1}, 90000},
		{"lists and unseen objects", budget{foreign: 2, writes: 2, lists: 1, blind: true}, 36000},
		{"lists of metadata", budget{foreign: 2, writes: 2, losses: 1, lists: 1, metadata: true}, 50000},
	} {
		t.Run(c.name, func(t *testing.T) {
			states, way, wrong := explore(newWorld(c.left))
			t.Logf("%d states", states)
			if wrong != "" {
				t.Fatalf("%s, after:%s", wrong, strings.Join(way, "\n\t"))
			}
			if states < c.least {
				t.Errorf("%d states, want at least %d", states, c.least)
			}
		})
	}
}
