package certificate

import (
	"cmp"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/bubble"
	"github.com/pintle-go/pintle/internal/pki"
)

const day = 24 * time.Hour

var usual = terms{
	names:   []string{"farm", "farm.default.svc"},
	serving: 90 * day, authority: 365 * day, propagation: time.Hour,
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// first returns a state that was just made.
func first(t testing.TB) state { return after(t, usual, state{}, start, time.Time{}).state }

// after returns the step after a state.
func after(t testing.TB, terms terms, s state, now, published time.Time) step {
	t.Helper()
	n, err := terms.next(s, now, published)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// signers returns, for each authority, k if it has a key, s if it signed the serving
// certificate, and - if neither.
func (s state) signers() string {
	var text []string
	for _, a := range s.authorities {
		is := ""
		if a.Key != nil {
			is = "k"
		}
		if s.serving != nil && a.Signed(s.serving) {
			is += "s"
		}
		text = append(text, cmp.Or(is, "-"))
	}
	return strings.Join(text, " ")
}

// trusts reports whether a client with a bundle trusts a serving certificate.
func trusts(bundle []byte, s state, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := s.serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

func TestRules(t *testing.T) {
	s := first(t)
	due := pki.Renewal(s.authorities[0].Cert, usual.authority)
	rotating := after(t, usual, s, due, start).state
	rotated := after(t, usual, rotating, due.Add(time.Hour), due).state
	other := first(t)
	noKey := s
	noKey.authorities = []authority{{Cert: s.authorities[0].Cert}}
	renewed := pki.Renewal(s.serving.Leaf, usual.serving)
	lost := s
	lost.lost = true
	lostAgain := rotating
	lostAgain.lost = true
	more := usual
	more.names = append(slices.Clone(usual.names), "10.0.0.1")

	const (
		none    = "there is no certificate of these authorities"
		ends    = "the end of the certificate is near"
		expired = "the certificate has expired"
		known   = "all targets have the successor of the authority"
		lacks   = "the certificate lacks a name"
		keyless = "the key of the authority is missing"
		gone    = "the Secret was deleted or damaged"
	)
	for name, test := range map[string]struct {
		terms          terms // empty: usual
		state          state
		now, published time.Time
		why            string
		signers        string // see state.signers
	}{
		"empty":                       {state: state{}, now: start, why: none, signers: "ks"},
		"fresh":                       {state: s, now: start, published: start, signers: "ks"},
		"a clock that is behind":      {state: s, now: start.Add(-300 * day), signers: "ks"},
		"before the end of serving":   {state: s, now: renewed.Add(-time.Second), published: start, signers: "ks"},
		"end of serving":              {state: s, now: renewed, published: start, why: ends, signers: "ks"},
		"end of authority":            {state: s, now: due, published: start, why: expired, signers: "k ks"},
		"not published":               {state: rotating, now: due.Add(20 * day), signers: "k ks"},
		"published for a moment":      {state: rotating, now: due.Add(time.Hour - 1), published: due, signers: "k ks"},
		"published":                   {state: rotating, now: due.Add(time.Hour), published: due, why: known, signers: "ks -"},
		"after the switch":            {state: rotated, now: due.Add(2 * time.Hour), published: due, signers: "ks -"},
		"former expired":              {state: rotated, now: s.authorities[0].Cert.NotAfter, published: due, why: expired, signers: "ks"},
		"never published":             {state: rotating, now: s.authorities[0].Cert.NotAfter, why: none, signers: "ks"},
		"all expired":                 {state: s, now: start.Add(1000 * day), published: start, why: none, signers: "ks"},
		"a name more":                 {terms: more, state: s, now: start, published: start, why: lacks, signers: "ks"},
		"a name more before a switch": {terms: more, state: rotating, now: due.Add(time.Minute), published: due, why: lacks, signers: "k ks"},
		"key missing":                 {state: noKey, now: start, published: start, why: keyless, signers: "k s"},
		"certificate missing":         {state: state{authorities: s.authorities}, now: start, published: start, why: none, signers: "ks"},
		"certificate of another":      {state: state{authorities: s.authorities, serving: other.serving}, now: start, why: none, signers: "ks"},
		"lost":                        {state: lost, now: start, published: start, why: gone, signers: "k ks"},
		"lost while rotating":         {state: lostAgain, now: due, published: start.Add(-time.Hour), why: known, signers: "ks -"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.terms.names == nil {
				test.terms = usual
			}
			n := after(t, test.terms, test.state, test.now, test.published)
			if n.why != test.why || n.signers() != test.signers {
				t.Errorf("because %q: authorities %q, want because %q: %q", n.why, n.signers(), test.why, test.signers)
			}
			if !n.due.After(test.now) {
				t.Errorf("due %s, which is not after %s", n.due, test.now)
			}
			for _, name := range test.terms.names {
				// Clients have a clock that is right.
				if err := trusts(n.bundle(), n.state, name, later(test.now, start)); err != nil {
					t.Errorf("name %s: %v", name, err)
				}
			}
			again := after(t, test.terms, n.state, test.now, time.Time{})
			if again.why != "" {
				t.Errorf("the state after the step changes at once, because %s", again.why)
			}
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Releases that want different names agree after one step of each.
func TestNamesDoNotFight(t *testing.T) {
	a, b := usual, usual
	a.names, b.names = []string{"farm", "old"}, []string{"farm", "new", "10.0.0.1"}
	s := first(t)
	s = after(t, a, s, start, start).state
	s = after(t, b, s, start, start).state
	for _, terms := range []terms{a, b} {
		if n := after(t, terms, s, start, start); n.why != "" {
			t.Errorf("%q: %s", terms.names, n.why)
		}
	}
	s = after(t, b, s, pki.Renewal(s.serving.Leaf, b.serving), start).state
	if got := pki.Names(s.serving.Leaf); !slices.Equal(got, b.names) {
		t.Errorf("a renewed certificate has the names %q, want %q", got, b.names)
	}
}

// Over years, at every time of due, a client that has a bundle which was published up to
// an hour ago trusts the certificate. Each state goes through the Secret.
func TestYears(t *testing.T) {
	t.Parallel()
	bubble.Check(t, 5, func(rt *rapid.T, _ *testing.T) {
		terms := usual
		terms.serving = time.Duration(rapid.IntRange(30, 120).Draw(rt, "days")) * day
		var s state
		now, published := start, time.Time{}
		type edition struct {
			bundle []byte
			until  time.Time
		}
		var old []edition
		rotations := 0
		for now.Before(start.Add(5 * 365 * day)) {
			n, err := terms.next(s, now, published)
			if err != nil {
				rt.Fatal(err)
			}
			data, err := n.encode()
			if err != nil {
				rt.Fatal(err)
			}
			was := s
			if s, err = decode(data); err != nil {
				rt.Fatal(err)
			}
			if string(s.bundle()) != string(was.bundle()) {
				if was.serving != nil {
					old = append(old, edition{was.bundle(), now.Add(time.Hour)})
				}
				published = now
				if len(s.authorities) > 1 {
					rotations++
					// The targets can be out of reach, but not for months.
					late := time.Duration(rapid.IntRange(0, 100*24).Draw(rt, "hours")) * time.Hour
					if rapid.Bool().Draw(rt, "out of reach") {
						old[len(old)-1].until = now.Add(late + time.Hour)
						published = now.Add(late)
					}
				}
			}
			for _, e := range append(old, edition{s.bundle(), now.Add(1)}) {
				if now.Before(e.until) {
					if err := trusts(e.bundle, s, terms.names[0], now); err != nil {
						rt.Fatalf("%s: %v", now, err)
					}
				}
			}
			if !n.due.After(now) {
				rt.Fatalf("due %s at %s", n.due, now)
			}
			// A process may sleep for some time.
			now = now.Add(min(n.due.Sub(now)+time.Duration(rapid.IntRange(0, 3600).Draw(rt, "late"))*time.Second, 30*day))
		}
		if rotations < 5 {
			rt.Errorf("%d rotations in five years", rotations)
		}
	})
}

func FuzzDecode(f *testing.F) {
	s := first(f)
	data, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[servingCert], data[servingKey], data[bundleCerts], data[bundleKeys])
	f.Add(data[bundleCerts], data[bundleKeys], data[servingCert], data[servingKey])
	f.Add([]byte("x"), []byte(nil), []byte("-----BEGIN"), []byte("x"))
	f.Fuzz(func(t *testing.T, crt, key, bundle, keys []byte) {
		s, err := decode(map[string][]byte{servingCert: crt, servingKey: key, bundleCerts: bundle, bundleKeys: keys})
		if err != nil {
			return
		}
		// After any content, the next step is whole, and stays so.
		n := after(t, usual, s, start, time.Time{})
		data, err := n.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(data)
		if err != nil || !again.whole() {
			t.Fatalf("%q: %v", n.why, err)
		}
		if n := after(t, usual, again, start, time.Time{}); n.why != "" {
			t.Errorf("changed again, because %s", n.why)
		}
	})
}
