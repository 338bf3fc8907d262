package kube

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/hamt"
)

// Index finds the objects of a handle's store by keys of type K, as an indexer of
// an informer's cache does. It is a value to keep beside the handle:
//
//	pods := kube.For[corev1.Pod](client)
//	byNode := kube.IndexBy(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//
// The store of the handle builds it when it opens, or at the first use if it runs
// already. It is kept as long as the client. Its counterparts are an IndexFunc of
// client-go and FieldIndexer of controller-runtime.
type Index[T any, K comparable] struct {
	handle *handle
	of     func(*T) []K
	failed atomic.Bool // a failure was logged
	exits  atomic.Bool // the function ended its goroutine
}

// IndexBy returns an index of a handle's objects. The function returns the keys of an
// object. It must not change the object, nor keep it or a part of it: all indexes of a store are
// called with the same object, and then a loop over changes may get it. The function is called
// for every object and for every change, perhaps more than once and from several goroutines.
// While it runs, later changes wait. It must not read a store,
// because a store waits for the functions of its indexes. If it does, and the read would
// wait for the first sync of a store or for an index that is being built, the read
// returns an error, and the client's logger gets a warning.
//
// Declare an index once, beside its handle: the client keeps an index as long as the
// client lives. If a handle gets very many indexes, the client's logger gets a warning.
//
// The counterparts are IndexField of controller-runtime's FieldIndexer and the Indexers
// of client-go.
//
// An object that does not decode is left out of the index. An object is also left out if
// the function panics or ends its goroutine. The client's logger gets the first such
// failure of an index.
func IndexBy[T any, K comparable](h Handle[T], of func(*T) []K) *Index[T, K] {
	x := &Index[T, K]{handle: h.base(), of: of}
	if x.handle.err == nil && x.handle.client == nil {
		x.handle = &handle{err: errNoHandle}
	}
	if x.handle.err == nil {
		x.handle.client.stores.declare(x.handle, x)
	}
	return x
}

// Get yields the objects that have a key, in no order. It reads the store of the handle
// that runs in this program, and looks at no other objects. Like every read of a store,
// Get is never older than the own writes of this process, see [Cached]. Its counterparts
// are ByIndex of client-go's Indexer and client.MatchingFields of controller-runtime.
func (x *Index[T, K]) Get(ctx context.Context, key K) iter.Seq2[*T, error] {
	at := func(now *snapshot) iter.Seq2[Key, *entry] { return now.index(x).(keyIndex[K]).entries(now, key) }
	has := func(o object) bool { return slices.Contains(x.keysOf(KeyOf(o), typed[T](o)), key) }
	return cached[T](x.handle, func(s storeReader) iter.Seq2[object, error] {
		return s.read(ctx, query{by: x, pick: at, matches: has})
	})
}

// Keys returns the keys that have at least one object, in no order. Like Get, it is never
// older than the own writes of this process. Its counterpart is ListIndexFuncValues of
// client-go's Indexer.
func (x *Index[T, K]) Keys(ctx context.Context) ([]K, error) {
	for {
		s, err := x.handle.running("list", Key{})
		if err != nil {
			return nil, err
		}
		if keys, err := x.keys(ctx, s); !s.stopped(err) {
			return keys, err
		}
	}
}

// keys returns the keys that a store has.
func (x *Index[T, K]) keys(ctx context.Context, s storeReader) ([]K, error) {
	covers := s.covers()
	sure, err := s.sure(ctx, x, covers)
	if err != nil {
		return nil, x.wrap(err)
	}
	if len(sure.errs) > 0 {
		return nil, x.wrap(errors.Join(sure.errs...))
	}
	now := sure.now
	found := now.index(x).(keyIndex[K])
	keys := make([]K, 0, found.at.Len())
	for key := range found.at.All() {
		for at, e := range found.entries(now, key) {
			if covers(e) && !sure.without(at) {
				keys = append(keys, key)
				break
			}
		}
	}
	for _, w := range sure.asked {
		if !covers(w.entry) {
			continue
		}
		for _, key := range x.entryKeys(w.key, &reading{entry: w.entry}) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

func (x *Index[T, K]) wrap(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Verb: "list", Kind: x.handle.kindName(), Err: err}
}

// keysOf returns the keys of an object. It returns none if the index's function fails.
func (x *Index[T, K]) keysOf(key Key, o *T) []K {
	return x.apart(key, func() []K { return x.of(o) })
}

// values implements indexer.
func (x *Index[T, K]) values(key Key, r *reading) any { return x.entryKeys(key, r) }

// collector implements indexer.
func (x *Index[T, K]) collector() collector { return &keyCollector[K]{values: x.entryKeys} }

// entryKeys is keysOf for an entry, which may be nil. The caller owns the slice.
func (x *Index[T, K]) entryKeys(key Key, r *reading) []K {
	of := func() []K {
		o, err := r.decode(x.handle) // a type may decode itself
		if err != nil {
			return nil
		}
		return slices.Clone(x.of(typed[T](o))) // the program owns the slice
	}
	switch {
	case r.entry == nil:
		return nil
	case x.exits.Load():
		return x.apart(key, of)
	}
	return x.call(key, of)
}

// call calls code of the program. It returns no keys if that code panics. The code may
// also end its goroutine, as t.FailNow does in a test. Then the code runs apart from the
// next call on, and the starter of the ended goroutine repeats the caller's work.
func (x *Index[T, K]) call(key Key, of func() []K) (keys []K) {
	returned := false
	defer func() {
		if !returned {
			x.fails(key, recover())
		}
	}()
	keys = findable(of())
	returned = true
	return keys
}

// findable returns the keys without those that differ from themselves, such as NaN: no
// lookup finds them. Like a map, it panics at interfaces whose values cannot be compared.
func findable[K comparable](keys []K) []K {
	differs := func(k K) bool { return !same(k, k) }
	if !slices.ContainsFunc(keys, differs) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), differs) // the program owns the slice
}

func same[K comparable](a, b K) bool { return a == b }

// apart is call in a goroutine of its own, which costs as much as decoding an object.
func (x *Index[T, K]) apart(key Key, of func() []K) (keys []K) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		asReflector(func() { keys = x.call(key, of) })
	}()
	<-done
	return keys
}

// persist calls f in a goroutine of its own until f returns, because the function of an
// index may end the goroutine.
func persist(f func()) {
	for returned := false; !returned; {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
			returned = true
		}()
		<-done
	}
}

// fails logs the first failure of the index's function. The value of a panic is nil if
// the function ended its goroutine.
func (x *Index[T, K]) fails(key Key, p any) {
	if p == nil {
		x.exits.Store(true)
	}
	if x.failed.Swap(true) {
		return
	}
	if p == nil {
		p = "runtime.Goexit"
	}
	x.handle.client.logger.Error("an index function panicked, so the object is not in the index; "+
		"further failures of this index are not logged",
		"kind", x.handle.kindName(), "object", key.String(), "panic", p, "stack", string(debug.Stack()))
}

func (x *Index[T, K]) empty() indexed { return keyIndex[K]{} }

// pure implements indexer.
func (x *Index[T, K]) pure() bool { return false }

// indexer is an index as tables see it. It has no state of its own.
type indexer interface {
	// values returns the index keys of an object, and no keys for a nil entry. It runs
	// code of the program, so the caller must hold no lock.
	values(key Key, r *reading) any
	// collector returns an index in the making, which has no objects yet.
	collector() collector
	empty() indexed
	// pure reports that values and collectors run no code of the program.
	pure() bool
}

// collector makes an index of objects that are not in any index yet. It costs much less than adding
// the objects one by one.
type collector interface {
	// add adds an object, as indexer.values returns its keys.
	add(key Key, r *reading)
	// indexed returns the index. The collector must not be used after that.
	indexed(edit *hamt.Edit) indexed
}

// indexed is the content of an index for one snapshot. It is never changed.
type indexed interface {
	with(edit *hamt.Edit, key Key, values any) indexed
	values(key Key) any
}

// byOwner finds objects by the uids of their owners, without decoding them.
type byOwner struct{}

func (byOwner) values(key Key, r *reading) any { return ownersOf(key, r) }

func (byOwner) collector() collector { return &keyCollector[types.UID]{values: ownersOf} }

func ownersOf(_ Key, r *reading) (owners []types.UID) {
	if r.entry != nil {
		owners = slices.AppendSeq(owners, r.entry.OwnerUIDs())
	}
	return owners
}

func (byOwner) empty() indexed { return keyIndex[types.UID]{} }

func (byOwner) pure() bool { return true }

func ownedBy(owner types.UID) pick {
	return func(s *snapshot) iter.Seq2[Key, *entry] {
		return s.index(byOwner{}).(keyIndex[types.UID]).entries(s, owner)
	}
}

// keySet has no values. Their type is a pointer, as that of the other maps, so that one code serves all.
type keySet = hamt.Map[Key, *struct{}]

// keyIndex maps values to the keys of objects, and keys back to values.
type keyIndex[K comparable] struct {
	at hamt.Map[K, *keySet] // a set is never changed
	of hamt.Map[Key, *[]K]
}

// entries yields the entries of a snapshot that have a value.
func (x keyIndex[K]) entries(s *snapshot, value K) iter.Seq2[Key, *entry] {
	return func(yield func(Key, *entry) bool) {
		keys, ok := x.at.Get(value)
		if !ok {
			return
		}
		for key := range keys.All() {
			if !yield(key, s.entry(key)) {
				return
			}
		}
	}
}

func (x keyIndex[K]) values(key Key) any {
	return x.valuesOf(key)
}

func (x keyIndex[K]) valuesOf(key Key) (values []K) {
	if found, ok := x.of.Get(key); ok {
		values = *found
	}
	return values
}

func (x keyIndex[K]) with(edit *hamt.Edit, key Key, values any) indexed {
	is, _ := values.([]K)
	was := x.valuesOf(key)
	if slices.Equal(was, is) {
		return x
	}
	for _, v := range was {
		if slices.Contains(is, v) {
			continue
		}
		keys, ok := x.at.Get(v)
		if !ok {
			continue // the value is there twice
		}
		if rest := keys.Without(edit, key); rest.Len() == 0 {
			x.at = x.at.Without(edit, v)
		} else {
			x.at = x.at.With(edit, v, &rest)
		}
	}
	for _, v := range is {
		keys, ok := x.at.Get(v)
		if !ok {
			keys = new(keySet)
		}
		more := keys.With(edit, key, nil)
		x.at = x.at.With(edit, v, &more)
	}
	if len(is) == 0 {
		x.of = x.of.Without(edit, key)
	} else {
		x.of = x.of.With(edit, key, new(is))
	}
	return x
}

// keyCollector makes a keyIndex.
type keyCollector[K comparable] struct {
	values func(Key, *reading) []K
	byKey  hamt.Builder[Key, *[]K]
	groups map[K][]Key
}

func (c *keyCollector[K]) add(key Key, r *reading) {
	is := c.values(key, r)
	if len(is) == 0 {
		return
	}
	c.byKey.Add(key, new(is))
	if c.groups == nil {
		c.groups = make(map[K][]Key)
	}
	for i, v := range is {
		if !slices.Contains(is[:i], v) {
			c.groups[v] = append(c.groups[v], key)
		}
	}
}

func (c *keyCollector[K]) indexed(edit *hamt.Edit) indexed {
	var at hamt.Builder[K, *keySet]
	var keys hamt.Builder[Key, *struct{}]
	for v, group := range c.groups {
		for _, key := range group {
			keys.Add(key, nil)
		}
		set := keys.Map(edit)
		at.Add(v, &set)
	}
	return keyIndex[K]{at.Map(edit), c.byKey.Map(edit)}
}

// collect adds the objects of entries to indexes in the making. It returns some of the decoded
// objects. It ends early when ctx ends.
func collect(ctx context.Context, of entries, into []collector) (decoded decodedObjects, err error) {
	room := true
	var r reading
	for key, e := range of.All() {
		if ctx.Err() != nil {
			return decoded, context.Cause(ctx)
		}
		r = reading{entry: e}
		for _, c := range into {
			c.add(key, &r)
		}
		if room {
			room = decoded.add(&r)
		}
	}
	return decoded, nil
}

// builds are the indexes that are being built for a table that runs.
type builds struct {
	mu      sync.Mutex
	running map[indexer]chan struct{} // closed at the end of the build
}

// build adds an index to the content of a table, unless it is there already. It walks a
// snapshot, so only callers that ask for the same index wait for it.
func (t *table) build(ctx context.Context, by indexer) error {
	for t.now().index(by) == nil {
		mine, done := t.builds.begin(by)
		if mine {
			var err error
			persist(func() { asReflector(func() { err = t.buildNow(ctx, by) }) })
			t.builds.end(by)
			if err != nil {
				return err
			}
			continue
		}
		if underReflector() { // that build may wait for this caller
			return t.waitsForItself()
		}
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (t *table) buildNow(ctx context.Context, by indexer) error {
	now := t.now()
	if now.index(by) != nil {
		return nil // another build has just ended
	}
	c := []collector{by.collector()}
	if _, err := collect(ctx, now.entries, c); err != nil {
		return err
	}
	found := c[0].indexed(new(hamt.Edit))
	t.write(func(d *draft) { d.addIndex(by, found, now.entries) })
	return nil
}

// begin reports whether the caller must build the index. It also returns a channel that
// is closed at the end of the build.
func (b *builds) begin(by indexer) (mine bool, done chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if done, ok := b.running[by]; ok {
		return false, done
	}
	if b.running == nil {
		b.running = make(map[indexer]chan struct{})
	}
	done = make(chan struct{})
	b.running[by] = done
	return true, done
}

func (b *builds) end(by indexer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.running[by])
	delete(b.running, by)
}
