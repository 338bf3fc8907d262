package kube

// write has f change the content of a table. It may call f several times, each time with a draft of
// a later content, of which only the last one counts.
//
// The functions of indexes run meanwhile. They are code of the program, which may block, write
// objects, or end its goroutine. So they run without a lock. If another writer comes between, f is
// called again under the lock, with the index keys that are known by then.
func (t *table) write(f func(*draft)) {
	known := new(indexKeys) // it stays if a function ends the goroutine
	for done := false; !done; {
		was := t.now()
		try := func() {
			d := was.draft(known)
			f(d)
			done = t.replace(was, d, f)
		}
		if was.runsProgram() {
			persist(func() { asReflector(try) })
		} else {
			try()
		}
	}
}

// replace makes a draft of a content the next one. It returns false if another writer came
// between, and index keys are missing that only the program knows.
func (t *table) replace(was *snapshot, d *draft, f func(*draft)) bool {
	t.writing.Lock()
	defer t.writing.Unlock()
	if now := t.now(); now != was {
		d = now.draft(d.known)
		d.locked = true
		if f(d); d.missing {
			return false
		}
	}
	t.publish(d)
	return true
}

// publish makes a draft the content. The caller holds writing.
func (t *table) publish(d *draft) {
	for _, e := range d.ends {
		t.ensured.gone(e.key, e.entry.UID())
	}
	t.followers.publish(t, d)
	t.bell.ring()
}

// runsProgram reports that a change of the content runs code of the program.
func (s *snapshot) runsProgram() bool {
	for i := range s.indexes {
		if !s.indexes[i].by.pure() {
			return true
		}
	}
	return false
}

// indexKeys holds the index keys of entries that a writer has asked the program for.
type indexKeys struct {
	few  []indexKey // at most manyIndexKeys
	many map[indexKeyOf]any
	// latest is the latest entry that was decoded for that, and decoded holds some of those before.
	latest  *reading
	decoded decodedObjects
}

// reading returns the reading of an entry. It is the one before if a function of an index has ended
// the goroutine, or another writer has come between.
func (k *indexKeys) reading(e *entry) *reading {
	if k.latest == nil || k.latest.entry != e {
		k.rest()
		k.latest = &reading{entry: e}
	}
	return k.latest
}

// rest adds the latest entry to the others. It returns them all.
func (k *indexKeys) rest() decodedObjects {
	if k.latest != nil {
		k.decoded.add(k.latest)
		k.latest = nil
	}
	return k.decoded
}

type indexKeyOf struct {
	by indexer
	e  *entry
}

type indexKey struct {
	of   indexKeyOf
	keys any
}

// manyIndexKeys is how many entries are found one by one.
const manyIndexKeys = 8

func (k *indexKeys) get(of indexKeyOf) (keys any, ok bool) {
	for i := range k.few {
		if k.few[i].of == of {
			return k.few[i].keys, true
		}
	}
	keys, ok = k.many[of]
	return keys, ok
}

func (k *indexKeys) set(of indexKeyOf, keys any) {
	if len(k.few) < manyIndexKeys {
		k.few = append(k.few, indexKey{of, keys})
		return
	}
	if k.many == nil {
		k.many = make(map[indexKeyOf]any)
	}
	k.many[of] = keys
}

// keysOf returns the keys of an entry, which may be nil, in an index.
func (d *draft) keysOf(by indexer, key Key, e *entry) any {
	if e == nil || by.pure() {
		return by.values(key, &reading{entry: e})
	}
	of := indexKeyOf{by, e}
	keys, ok := d.known.get(of)
	switch {
	case ok:
	case d.locked:
		d.missing = true
		return by.values(key, new(reading))
	default:
		keys = by.values(key, d.known.reading(e))
		d.known.set(of, keys)
	}
	return keys
}
