package own

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// hand is a key in hand: its mark and content, and the verdict so far.
type hand struct {
	lane *Lane
	mark Mark
	now  Object
	out  Verdict
}

func (h *hand) take() {
	h.out.Take, h.out.Drop = true, false
	if c := h.mark.claim; c != nil && c.shown {
		other := *c
		other.shown = false
		h.mark.claim = &other
	}
	h.unsure()
}

func (h *hand) drop() { h.out.Drop = h.now.Exists }

func (h *hand) ended(uid types.UID, last *wire.Entry) {
	h.out.Ended = append(h.out.Ended, End{uid, last})
}

// settle ends the claim. If its object is gone, the loops learn of that.
func (h *hand) settle(gone bool) {
	c := h.mark.claim
	h.mark.claim = nil
	switch {
	case c == nil || !c.own:
	case h.now.is(c.UID):
		h.out.OwnWas = true
	case gone:
		h.ended(c.UID, c.last)
	default:
		h.out.OwnIs = true
	}
}

// claim makes a claim, which takes the place of an earlier one.
func (h *hand) claim(o Object, last *wire.Entry, own bool, seq uint64) {
	c := &claim{Object: o, last: last, own: own, seq: seq, since: seq}
	if was := h.mark.claim; was != nil {
		c.since = was.since
		if was.is(o.UID) {
			c.own = own || was.own
			c.Deleting = o.Deleting || was.Deleting
		}
	}
	h.mark.claim = c
	if !h.now.is(o.UID) && versions.Numeric(o.Version) {
		h.drop() // the content's object has ended before
	}
}

func (h *hand) answered(a Answer, began, seq uint64) {
	if a.Own && h.now.is(a.UID) {
		h.out.OwnWas = true
	}
	over := func() { // the object has ended, or has left the selection, since
		if a.Own && !a.Out {
			h.ended(a.UID, a.Last)
		}
	}
	if d := h.mark.deadOf(a.UID); d != nil {
		if !d.told {
			over()
		}
		d.told = d.told || a.Own
		if versions.Numeric(a.Version) {
			d.known = true
			if !versions.Older(a.Version, h.now.Version) {
				h.drop()
				h.setPast(a.Version)
			}
		}
		return
	}
	h.buries(a.Version, began)
	c := h.mark.claim
	if a.Bare && c != nil && c.is(a.UID) {
		a.Last, a.Bare = c.last, c.bare
	}
	switch {
	case versions.Reached(h.mark.past, a.Version):
		over()
		return
	case c == nil:
	case c.is(a.UID) && versions.Older(a.Version, c.Version):
		if a.Own {
			other := *c
			other.own = true
			h.mark.claim = &other
		}
		return
	case !c.is(a.UID) && versions.Older(a.Version, c.Version):
		over()
		return
	}
	switch {
	case h.now.is(a.UID) && versions.Reached(h.now.Version, a.Version):
		if c != nil && c.over(a.Version, began) {
			h.settle(false)
		}
		return
	case !versions.Numeric(a.Version):
		h.opaque(a, began, seq)
		return
	case h.now.Exists && versions.Older(a.Version, h.now.Version),
		!h.now.Exists && versions.Reached(h.lane.Heard, a.Version):
		over()
		return
	}
	if c != nil && !c.is(a.UID) {
		h.settle(true)
	}
	switch {
	case c != nil && c.is(a.UID) && !c.over(a.Version, began): // it may be from before the deletion
		h.claim(a.Object, a.Last, true, seq)
		return
	case a.Whole || a.Out:
		h.settle(false)
	}
	switch {
	case a.Out:
		h.drop()
		h.setPast(a.Version)
	case a.Whole:
		h.take()
		h.mark.past = ""
		h.out.OwnIs = h.out.OwnIs || a.Own
	default:
		h.claim(a.Object, a.Last, a.Own, seq)
		h.mark.claim.bare = a.Bare
	}
}

// opaque notes an answer whose order among the states that the watch shows is not known. The
// content takes the answer to a question. It holds until the watch shows another state.
func (h *hand) opaque(a Answer, began, seq uint64) {
	c := h.mark.claim
	switch {
	case a.Own:
		h.claim(a.Object, a.Last, true, seq)
		h.mark.claim.bare = a.Bare
	case c != nil && c.seq > began: // it may be from before the write
	case a.Out:
		h.settle(c != nil && !c.is(a.UID))
		h.drop()
	case a.Whole:
		h.settle(c != nil && !c.is(a.UID))
		h.take()
		h.claim(a.Object, a.Last, false, seq)
		h.mark.claim.shown = true
	}
}

// setPast notes that the selection has no object of the key at a version.
func (h *hand) setPast(version string) {
	if !versions.Numeric(version) || versions.Reached(h.lane.Heard, version) {
		return
	}
	if c := h.mark.claim; c != nil && versions.Reached(version, c.Version) {
		h.settle(true)
	}
	h.mark.past = versions.Later(h.mark.past, version)
}

// buries forgets the dead of a key after the server was asked about the key, and gave a version.
func (h *hand) buries(version string, began uint64) {
	over := func(d dead) bool {
		return d.seq <= began && versions.Numeric(version) && !versions.Older(version, d.floor)
	}
	h.mark.dead = slices.DeleteFunc(h.mark.dead, over)
}

func (h *hand) absent(version string, began uint64) {
	if c := h.mark.claim; c != nil && c.over(version, began) {
		h.settle(true)
	}
	if !versions.Older(version, h.now.Version) {
		h.drop()
		h.setPast(version)
	}
}

// over reports that an answer as of a version, to a question that was sent after began writes, has
// seen the write of the claim.
func (c *claim) over(version string, began uint64) bool {
	if versions.Numeric(version) && versions.Numeric(c.Version) && !c.Deleting {
		return versions.Reached(version, c.Version)
	}
	return c.seq <= began
}

// ends reports that the claim ends because the content, whose object is now, has everything up to a
// version. The end of an object that is being deleted is still to come.
func (c *claim) ends(version string, now Object) bool {
	return c != nil && versions.Numeric(c.Version) && versions.Reached(version, c.Version) &&
		(!c.Deleting || !now.is(c.UID))
}

// unsure notes that the content has or takes an object of which it is not known whether it is
// before or after one that this process has deleted.
func (h *hand) unsure() {
	for _, d := range h.mark.dead {
		if !d.known && d.seq > h.mark.doubt.seq {
			h.mark.doubt = doubt{d.seq, d.at}
		}
	}
}

func (h *hand) event(is Object, deleted, selects bool) {
	if h.mark.deadOf(is.UID) != nil {
		if deleted && !selects { // otherwise the object may have left the selection before
			h.mark.dead = slices.DeleteFunc(h.mark.dead, func(d dead) bool { return d.uid == is.UID })
		}
		return
	}
	if versions.Reached(h.mark.past, is.Version) {
		return
	}
	if c := h.mark.claim; c != nil {
		switch same := c.is(is.UID); {
		case deleted && same && !versions.Older(is.Version, c.Version):
			h.settle(true)
		case !deleted && same && c.Deleting && !is.Deleting:
		case !deleted && versions.Reached(is.Version, c.Version) && (same || versions.Numeric(is.Version)):
			h.settle(!same)
		case !same && versions.Older(is.Version, c.Version):
			return
		}
	}
	switch {
	case versions.Older(is.Version, h.now.Version):
	case deleted && h.now.is(is.UID):
		h.drop()
	case !deleted && (!h.now.is(is.UID) || h.now.Version != is.Version || is.Version == ""):
		h.take()
		h.mark.past = ""
	}
}

// caughtUp notes that the content has everything up to a version.
func (h *hand) caughtUp(version string) {
	if versions.Reached(version, h.mark.past) {
		h.mark.past = ""
	}
	if c := h.mark.claim; c.ends(version, h.now) {
		h.settle(!h.now.is(c.UID))
	}
}
