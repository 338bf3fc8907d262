package certificate

import (
	"crypto/tls"
	"slices"
	"time"

	"github.com/pintle-go/pintle/internal/pki"
)

// state is the content of a Secret.
type state struct {
	// authorities are those of the bundle, the newest first. Of these, the issuer of the
	// serving certificate and all newer ones have keys.
	authorities []authority
	serving     *tls.Certificate // nil: there is none, or it does not fit its key
	// lost reports that the Secret was deleted or damaged, and that this is its content
	// from before.
	lost bool
}

// authority is a certificate authority.
type authority = pki.Authority

// terms are the properties that certificates shall have.
type terms struct {
	names                           []string
	serving, authority, propagation time.Duration
}

// maxAuthorities bounds the bundle of a Secret that is deleted again and again.
const maxAuthorities = 8

// step is a change of a Secret.
type step struct {
	state
	why string    // empty: nothing changes
	due time.Time // when to look for the next step
}

// next returns the step that follows a state. published is the time since which all
// targets have the bundle of this state. It is zero if they do not have it.
//
// A client with a bundle that was published within the propagation time trusts the serving
// certificate before and after each step:
//
//	bundle   serving certificate of
//	A        A
//	B A      A   B is added long before A ends, and signs nothing
//	B A      B   all targets have had B for the propagation time
//	B        B   A has expired, and with it all that it signed
func (t terms) next(s state, now, published time.Time) (step, error) {
	n := step{state: s}
	n.authorities = slices.Clone(s.authorities)

	// An authority that has expired leaves the bundle.
	n.authorities = slices.DeleteFunc(n.authorities, func(a authority) bool { return !now.Before(a.Cert.NotAfter) })
	if len(n.authorities) < len(s.authorities) {
		n.why = "an authority has expired"
	}

	// The newest authority gets a successor. It waits for its turn.
	if why := t.wantsSuccessor(n.state, now); why != "" {
		successor, err := pki.New(now, t.authority)
		if err != nil {
			return n, err
		}
		n.authorities = slices.Insert(n.authorities, 0, successor)
		n.why, published = why, time.Time{}
	}

	// The oldest authority that can sign is the one that all targets know. The newest one
	// takes its place when all targets know that as well.
	newest := n.authorities[0]
	known := !published.IsZero() && now.Sub(published) >= t.propagation
	signer := newest
	for _, a := range n.authorities {
		if a.Key != nil && !known {
			signer = a
		}
	}

	why, names := t.wantsServing(n.state, signer, now)
	if known && why == "" && !newest.Signed(n.serving) {
		why = "all targets have the successor of the authority"
	}
	if why != "" {
		serving, err := signer.Serving(names, now, t.serving)
		if err != nil {
			return n, err
		}
		n.serving, n.why = serving, why
	}

	// A key that signs no more is removed.
	for i := range n.authorities {
		if i > 0 && n.authorities[i].Key != nil && newest.Signed(n.serving) {
			n.authorities[i].Key = nil
			if n.why == "" {
				n.why = "an authority signs no more"
			}
		}
	}
	if s.lost && n.why == "" {
		n.why = "the Secret was deleted or damaged"
	}
	n.lost = false
	n.due = t.due(n.state, now, published)
	return n, nil
}

// wantsSuccessor returns the reason why an authority has to be made.
func (t terms) wantsSuccessor(s state, now time.Time) string {
	signing := 0
	for _, a := range s.authorities {
		if a.Key != nil {
			signing++
		}
	}
	switch {
	case len(s.authorities) == 0:
		return "there is no authority"
	case s.authorities[0].Key == nil:
		return "the key of the authority is missing"
	case !now.Before(pki.Renewal(s.authorities[0].Cert, t.authority)):
		return "the end of the authority is near"
	case s.lost && signing == 1 && len(s.authorities) < maxAuthorities:
		return "the Secret was deleted or damaged"
	}
	return ""
}

// wantsServing returns the reason why a serving certificate has to be made, and the names
// that it gets.
func (t terms) wantsServing(s state, signer authority, now time.Time) (why string, names []string) {
	if !s.whole() {
		return "there is no certificate of these authorities", t.names
	}
	is := s.serving.Leaf
	longer := signer.Cert.NotAfter.After(is.NotAfter)
	switch {
	case !now.Before(is.NotAfter):
		return "the certificate has expired", t.names
	case !now.Before(pki.Renewal(is, t.serving)) && longer:
		return "the end of the certificate is near", t.names
	}
	// Releases of a program that want different names run side by side for a while. The
	// certificate gets the names of all of them, so that none of them has to replace it.
	names = pki.Names(is)
	for _, name := range t.names {
		if !slices.Contains(names, name) {
			names, why = append(names, name), "the certificate lacks a name"
		}
	}
	return why, names
}

// due returns the first time after now at which a step may follow.
func (t terms) due(s state, now, published time.Time) time.Time {
	newest, serving := s.authorities[0].Cert, s.serving.Leaf
	times := []time.Time{pki.Renewal(newest, t.authority), pki.Renewal(serving, t.serving), serving.NotAfter}
	for _, a := range s.authorities {
		times = append(times, a.Cert.NotAfter)
	}
	if !published.IsZero() {
		times = append(times, published.Add(t.propagation))
	}
	due := newest.NotAfter
	for _, at := range times {
		if at.After(now) && at.Before(due) {
			due = at
		}
	}
	return due
}
