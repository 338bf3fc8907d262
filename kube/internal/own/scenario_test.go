package own_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
)

// scenarios are things that a store hears, a line each, with the state after that: the content, the
// task of a read, and the ends that are told. u1@3 is the object u1 at version 3.
var scenarios = map[string]string{
	"a write is read at once": `
		event u1@1            u1@1 read
		wrote u1@3            u1@3 read
		event u1@2            u1@3 read
		event u1@3            u1@3 read
		ended u1@4            none read u1
	`,
	"a child is deleted and replaced before the watch shows it": `
		wrote u1@1            u1@1 read
		event u2@5            u2@5 read u1
	`,
	"a child is gone before the answer about it comes": `
		list none at 7        none read
		wrote u1@3            none read u1
	`,
	"two children of one name end": `
		wrote u1@1            u1@1 read
		gone u1               none read u1
		wrote u2@4            u2@4 read
		gone u2               none read u2
		event u1@1            none read
		event u2@4            none read
	`,
	"the answer to a status write has no content": `
		event u1@1            u1@1 read
		part u1@2             u1@1 wait
		event u1@2            u1@2 read
		ended u1@3            none read u1
	`,
	"the watch is late with a status, and the server is asked": `
		event u1@1            u1@1 read
		part u1@4             u1@1 wait
		live u1@3             u1@1 wait
		live u1@5             u1@5 read
		event u1@4            u1@5 read
	`,
	"a status write of an object that others replaced": `
		event u1@1            u1@1 read
		part u2@4             none wait
		live none at 6        none read u2
		event u2@3            none read
	`,
	"a write whose answer is lost": `
		event u1@1            u1@1 read
		lost                  u1@1 ask
		event u1@2            u1@2 ask
		live u1@2             u1@2 read
	`,
	"a list of before an own write": `
		wrote u1@5            u1@5 read
		list none at 4        u1@5 read
		list u1@6 at 7        u1@6 read
	`,
	"a list of before an own deletion": `
		list u1@2 at 3        u1@2 read
		gone u1               none read u1
		list u1@2 at 3        none read
		list none at 9        none read
	`,
	"the storage is restored": `
		wrote u1@5            u1@5 read
		part u1@7             u1@5 wait
		gone u1               none read u1
		restored u1@2 at 3    u1@2 read
		restored none at 1    none read
	`,
	"versions that cannot be compared": `
		event u1@a            u1@a read
		wrote u1@c            u1@a wait
		event u1@b            u1@b wait
		event u1@c            u1@c read
		part u1@d             u1@c wait
		list u1@e at e        u1@e read
	`,
	"an answer that cannot be compared holds until the watch shows another state": `
		event u1@a            u1@a read
		lost                  u1@a ask
		live u1@c             u1@c read
		event u1@b            u1@b wait
		live u1@d             u1@d read
		event u1@d            u1@d read
		event u1@e            u1@e read
	`,
	"the metadata of all objects is listed when a lease is taken": `
		event u1@1            u1@1 read
		metadata u1@3 at 5    u1@1 wait
		event u1@3            u1@3 read
		metadata none at 9    none read
		event u1@8            none read
		list u2@12 at 13      u2@12 read
	`,
	"a write that the watch never shows": `
		event u1@1            u1@1 read
		part u1@4             u1@1 wait
		bookmark 3            u1@1 wait
		part u1@6             u1@1 wait
		bookmark 5            u1@1 wait
		bookmark 6            u1@1 read
		bookmark 7            u1@1 read
	`,
	"a deletion that the watch shows late": `
		event u1@1            u1@1 read
		deleting u1@1         u1@1 wait
		bookmark 2            u1@1 wait
		event u1@3            u1@3 wait
		ended u1@4            none read u1
	`,
	"a list of before a deletion of all": `
		event u1@1            u1@1 read
		deleting u1@4         u1@1 wait
		list u1@2 at 3        u1@1 wait
		list none at 6        none read u1
	`,
	"an object that is deleted and was never seen may be before the seen one": `
		event u1@4            u1@4 read
		gone u2               u1@4 ask
		event u1@5            u1@5 ask
		live u1@5             u1@5 read
		event u1@6            u1@6 read
	`,
}

func TestScenarios(t *testing.T) {
	for name, text := range scenarios {
		t.Run(name, func(t *testing.T) {
			w := newWorld(budget{})
			for line := range strings.Lines(strings.TrimSpace(text)) {
				words := strings.Fields(line)
				n := 2
				switch {
				case words[0] == "lost":
					n = 1
				case strings.Contains(line, " at "):
					n = 4
				}
				w.told = nil
				w.hears(words[:n])
				got := []string{"none", []string{"read", "wait", "ask", "list"}[w.store.Look(key)]}
				if w.now.Exists {
					got[0] = fmt.Sprintf("%s@%s", w.now.UID, w.now.Version)
				}
				for _, uid := range w.told {
					got = append(got, string(uid))
				}
				if want := words[n:]; strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("after %v: got %v, want %v", words[:n], got, want)
				}
			}
		})
	}
}

// hears has the store hear a line of a scenario.
func (w *world) hears(words []string) {
	var is own.Object
	if len(words) > 1 && words[1] != "none" {
		uid, version, _ := strings.Cut(words[1], "@")
		is = own.Object{Exists: true, UID: types.UID(uid), Version: version}
	}
	var v verdict
	switch words[0] {
	case "event", "ended":
		w.store, v = w.store.Event(key, w.now, is, words[0] == "ended")
		w.apply(v, is)
		w.store = w.store.Progress(0, is.Version, w.content, w.each)
		return
	case "bookmark":
		w.store = w.store.Progress(0, words[1], w.content, w.each)
		return
	case "deleting":
		w.store, v = w.store.Deleting(key, w.now, is, nil)
	case "wrote", "part":
		a := own.Answer{Object: is, Whole: words[0] == "wrote", Own: true}
		w.store, v = w.store.Answered(key, w.now, a, 0)
	case "gone":
		w.store, v = w.store.Deleted(key, w.now, is.UID, epoch)
	case "lost":
		w.store, v = w.store.Lost(key, w.now, epoch)
	case "live":
		if !is.Exists {
			w.store, v = w.store.Absent(key, w.now, words[3], w.store.Began())
			break
		}
		a := own.Answer{Object: is, Whole: true}
		w.store, v = w.store.Answered(key, w.now, a, w.store.Began())
	default:
		l := own.List{
			Version: words[3], Began: w.store.Began(), Floor: w.store.Lane(0).Floor,
			Whole: words[0] != "metadata", Restored: words[0] == "restored",
		}
		if l.Stale() {
			return
		}
		w.store, v = w.store.Listed(l, key, w.now, is, nil)
		w.apply(v, is)
		w.store = w.store.ListEnds(l, w.content, w.each)
		return
	}
	w.apply(v, is)
}

// A read began before another write, and a list that it has had made shows that the content is old.
func TestListForAReadThatBeganBefore(t *testing.T) {
	w := newWorld(budget{})
	w.hears([]string{"event", "u1@1"})
	w.store = w.store.LostAll(0, epoch)
	made := w.store.Began()
	w.store, _ = w.store.Lost("another", own.Object{}, epoch)
	w.hears([]string{"metadata", "u1@3", "at", "5"})
	for u := range w.store.Unsure(made) {
		if u.Key == key && u.Need == own.Wait {
			return
		}
	}
	t.Error("the read does not wait for the state in the list")
}

// A list of before a deletion of all objects, and of after all that the deletion's answer shows of one
// of them, is stale.
func TestAnswerToADeletionOfAll(t *testing.T) {
	w := newWorld(budget{})
	w.hears([]string{"event", "u1@1"})
	w.store = w.store.Known(0, "9")
	if l := (own.List{Version: "7", Floor: w.store.Lane(0).Floor}); !l.Stale() {
		t.Error("a list of before the answer is not stale")
	}
}

// A write of very many keys makes the lane doubtful, and not each key.
func TestDoubtsAreBounded(t *testing.T) {
	s := own.New(1, func(int) int { return 0 }, false)
	for i := range 5000 {
		s, _ = s.Lost(i, own.Object{}, epoch)
	}
	asks := 0
	for range s.Unsure(s.Began()) {
		asks++
	}
	if asks > 1000 || s.Look(4999) != own.AskLane {
		t.Errorf("%d keys are asked for, and a read has to %v", asks, s.Look(4999))
	}
	s = s.Tick(0, epoch.Add(own.Kept+time.Second))
	if left := own.Print(&s); left != "" || s.Look(4999) != own.Read {
		t.Errorf("this is left: %s", left)
	}
}

// What a watch shows costs as much as the marks that it ends, however many there are.
func TestManyMarks(t *testing.T) {
	const marks = 10_000
	object := func(i, version int) own.Object {
		return own.Object{Exists: true, UID: types.UID(strconv.Itoa(i)), Version: strconv.Itoa(version)}
	}
	for name, wrote := range map[string]func(s own.State[int], i int) own.State[int]{
		"objects that are deleted together": func(s own.State[int], i int) own.State[int] {
			s, _ = s.Deleting(i, object(i, 1+i), object(i, 1+i), nil)
			return s
		},
		"objects that are written": func(s own.State[int], i int) own.State[int] {
			s, _ = s.Answered(i, object(i, 1+i), own.Answer{Object: object(i, marks+1+i), Own: true}, 0)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, asked := own.New(1, func(int) int { return 0 }, false), 0
			for i := range marks {
				s = wrote(s, i)
			}
			now := func(i int) own.Object { asked++; return object(i, 1+i) }
			for i := range marks {
				is := object(i, marks+1+i)
				s, _ = s.Event(i, object(i, 1+i), is, name != "objects that are written")
				s = s.Progress(0, is.Version, now, func(int, own.Verdict) {})
			}
			if s.Remembers() {
				t.Error("something is remembered although the watch has shown all")
			}
			if asked > 2*marks {
				t.Errorf("%d contents are looked at for %d objects", asked, marks)
			}
		})
	}
}

// The server answers a question from before a write, or from after it, with versions that cannot be
// compared.
func TestQuestionsAndOpaqueVersions(t *testing.T) {
	w := newWorld(budget{})
	w.hears([]string{"event", "u1@a"})
	before := w.store.Began()
	w.hears([]string{"wrote", "u1@c"})
	ask := func(uid types.UID, version string, began uint64) (v verdict) {
		is := own.Object{Exists: true, UID: uid, Version: version}
		w.store, v = w.store.Answered(key, w.now, own.Answer{Object: is, Whole: true}, began)
		w.apply(v, is)
		return v
	}
	ask("u1", "b", before)
	if need := w.store.Look(key); need != own.Wait || w.now.Version != "a" {
		t.Errorf("an answer from before the write: the content is %v, and a read has to %v", w.now, need)
	}
	w.hears([]string{"wrote", "u2@d"})
	v := ask("u3", "e", w.store.Began())
	if len(v.Ended) != 1 || v.Ended[0].UID != "u2" || v.OwnIs {
		t.Errorf("an answer from after the object that was written: %+v", v)
	}
}
