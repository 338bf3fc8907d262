package kube

import (
	"context"
	"time"

	"github.com/pintle-go/pintle/kube/internal/own"
)

// A read of a store is not older than the writes of this process that the server has answered.
// Most of them are in the content at once. For the others a read waits for the watch, and then
// asks the server. See package own.

const (
	// ownWriteWait is how long a read waits for the watch to show a write.
	ownWriteWait = time.Second
	// ownFieldWait is the same for a store with a field selector, which may never show the
	// write.
	ownFieldWait = 100 * time.Millisecond
)

// get returns an object's entry, nil if there is none, and the key under which the table has the
// object. If the content is not sure, get waits for the watch, and then asks the server.
func (t *table) get(ctx context.Context, asked Key) (e *entry, key Key, err error) {
	e, key, need := t.peek(asked)
	if need == own.AskLane {
		if err := t.refreshed(ctx); err != nil {
			return nil, key, err
		}
		e, key, need = t.peek(asked)
	}
	if need == own.Wait {
		if err := t.await(ctx, func(s *snapshot) bool { return s.own.Look(key) != own.Wait }); err != nil {
			return nil, key, err
		}
		e, key, need = t.peek(asked)
	}
	if need == own.Read {
		return e, key, nil
	}
	found, _, errs := t.ask(ctx, []Key{key})
	switch {
	case len(found) > 0:
		return found[0].entry, key, nil
	case len(errs) > 0:
		return nil, key, errs[0]
	}
	return nil, key, nil
}

// peek returns the state of an object, the key under which the table has it, and the task of a
// read. The key of a cluster-scoped object has no namespace, even if the caller asks for one.
func (t *table) peek(asked Key) (e *entry, at Key, need own.Need) {
	s := t.now()
	if e, need = s.entry(asked), s.own.Look(asked); e != nil || need != own.Read || asked.Namespace == "" {
		return e, asked, need
	}
	bare := Key{Name: asked.Name}
	if b, needs := s.entry(bare), s.own.Look(bare); b != nil || needs != own.Read {
		return b, bare, needs
	}
	return nil, asked, own.Read
}

// await waits until ok returns true or ownWait has passed.
func (t *table) await(ctx context.Context, ok func(*snapshot) bool) error {
	var timeout *time.Timer
	for {
		rings := t.bell.wait()
		if ok(t.now()) {
			return nil
		}
		if timeout == nil {
			timeout = time.NewTimer(t.ownWait())
			defer timeout.Stop()
		}
		select {
		case <-rings:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ownWait is how long a read waits for the watch to show a write.
func (t *table) ownWait() time.Duration {
	if t.handle.selector.field != "" {
		return ownFieldWait
	}
	return ownWriteWait
}

// sure is a content with the server's answers about the keys of which the content is not sure.
type sure struct {
	now   *snapshot
	asked []keyed
	errs  []error
	// unsure are the keys of which asked has the objects, or errs the errors.
	unsure map[Key]struct{}
}

func (s *sure) without(key Key) bool {
	_, ok := s.unsure[key]
	return ok
}

// sureOf returns the content, which has the writes of this process so far that may matter. May
// tells whether an object may be one of those that are asked for. It waits for the watch, and then
// asks the server.
func (t *table) sureOf(ctx context.Context, may func(*entry) bool) (*sure, error) {
	now := t.now()
	if !now.own.Remembers() && !now.own.Doubtful(now.own.Began()) {
		return &sure{now: now}, nil
	}
	made := now.own.Began()
	if now.own.Doubtful(made) {
		if err := t.refreshed(ctx); err != nil {
			return nil, err
		}
	}
	matters := func(s *snapshot, u own.Unsure[Key]) bool {
		e := s.entry(u.Key) // the write may have taken it out of those that are asked for
		return !u.Claimed || u.Last == nil || may(u.Last) || e != nil && may(e)
	}
	err := t.await(ctx, func(s *snapshot) bool {
		for u := range s.own.Unsure(made) {
			if u.Need == own.Wait && matters(s, u) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	var keys []Key
	now = t.now()
	for u := range now.own.Unsure(made) {
		if matters(now, u) {
			keys = append(keys, u.Key)
		}
	}
	s := new(sure)
	if len(keys) == 0 {
		s.now = now
		return s, nil
	}
	s.asked, s.unsure, s.errs = t.ask(ctx, keys)
	s.now = t.now()
	return s, nil
}
