package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/operators/neon/internal/trust/trusttest"
)

var names = []string{"main-broker.data.svc"}

// verify returns why a client that trusts a bundle refuses a server.
func verify(t *testing.T, server map[string][]byte, bundle []byte, now time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(server[Cert], server[Key])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: names[0], CurrentTime: now})
	return err
}

// TestYears rotates for many years. Clients that were started with any bundle of the time, up to the
// restart that the newest one causes, trust the server at each moment. Nothing changes without need.
func TestYears(t *testing.T) {
	t.Parallel()
	var terms Terms
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	var all Authorities
	var server map[string][]byte
	started, restarts, certificates, authorities := "", 0, 0, 0
	var client []byte
	for range 20 * 365 {
		known := started == all.Newest()
		next, err := terms.Next(all, now, known)
		if err != nil {
			t.Fatal(err)
		}
		if next.Newest() != all.Newest() {
			authorities++
		}
		all = next
		data, err := all.Data()
		if err != nil {
			t.Fatal(err)
		}
		all = Read(data)
		made, err := terms.Server(all, server, names, now, known)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made[Cert], server[Cert]) {
			certificates++
		}
		server = made
		if client == nil {
			client, started = all.bundle(), all.Newest()
		}
		if err := verify(t, server, client, now); err != nil {
			t.Fatalf("at %s, with %d authorities: %v", now, len(all), err)
		}
		if err := Check(server, names, now); err != nil {
			t.Fatal(err)
		}
		// The programs are restarted some days after there is a newer authority.
		if started != all.Newest() {
			if restarts++; restarts%5 == 0 {
				client, started = all.bundle(), all.Newest()
			}
		}
		now = now.Add(24 * time.Hour)
	}
	if authorities < 5 || authorities > 8 || certificates < 100 || certificates > 150 {
		t.Errorf("%d authorities and %d certificates in 20 years", authorities, certificates)
	}
}

func (a Authorities) bundle() []byte { return pki.Bundle(a) }

// TestLost makes lost certificates again, and keeps to the names.
func TestLost(t *testing.T) {
	t.Parallel()
	terms, now := Terms{}, time.Now()
	all, err := terms.Next(nil, now, false)
	if err != nil {
		t.Fatal(err)
	}
	server, err := terms.Server(all, nil, names, now, true)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(map[string][]byte){
		"no key":        func(m map[string][]byte) { delete(m, Key) },
		"a damaged one": func(m map[string][]byte) { m[Cert] = m[Cert][:100] },
		"an unreadable key": func(m map[string][]byte) {
			pair, _ := tls.X509KeyPair(m[Cert], m[Key])
			m[Key], _ = pki.Key(pair.PrivateKey)
		},
		"one more":          func(m map[string][]byte) { m[Cert] = append(bytes.Clone(m[Cert]), all.bundle()...) },
		"of another server": func(m map[string][]byte) { other, _ := terms.Server(all, nil, names, now, true); m[Key] = other[Key] },
	} {
		damaged := maps.Clone(server)
		change(damaged)
		again, err := terms.Server(all, damaged, names, now, true)
		if err != nil || bytes.Equal(again[Cert], server[Cert]) || verify(t, again, all.bundle(), now) != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if same, err := terms.Server(all, server, names, now, true); err != nil || !bytes.Equal(same[Cert], server[Cert]) {
		t.Errorf("a good one was replaced: %v", err)
	}
	if other, err := terms.Server(all, server, []string{"b.data.svc"}, now, true); err != nil || bytes.Equal(other[Cert], server[Cert]) {
		t.Errorf("other names: %v", err)
	}
	// Without its key an authority signs no more, and is trusted until its successor is known. So its
	// certificates stay as long.
	all[0].Key = nil
	next, err := terms.Next(all, now, true)
	if err != nil || len(next) != 2 || next[0].Key == nil {
		t.Errorf("after the loss of the key there are %d authorities: %v", len(next), err)
	}
	for _, known := range []bool{false, true} {
		data, err := terms.Server(next, server, names, now, known)
		if err != nil || bytes.Equal(data[Cert], server[Cert]) == known || !bytes.Equal(data[Bundle], next.bundle()) {
			t.Errorf("the successor is known: %t, and the certificate is another one: %t, %v", known,
				!bytes.Equal(data[Cert], server[Cert]), err)
		}
	}
	if data, err := terms.Server(next, nil, names, now, false); err != nil || verify(t, data, next[:1].bundle(), now) != nil {
		t.Errorf("a first certificate: %v", err)
	}
}

// TestRecall has what is left of the Secret of the authorities.
func TestRecall(t *testing.T) {
	t.Parallel()
	terms, now := Terms{}, time.Now()
	all, err := terms.Next(nil, now, false)
	if err != nil {
		t.Fatal(err)
	}
	data, err := all.Data()
	if err != nil {
		t.Fatal(err)
	}
	server, err := terms.Server(all, nil, names, now, true)
	if err != nil {
		t.Fatal(err)
	}
	foreign := trusttest.Foreign(t)
	for name, c := range map[string]struct {
		data    map[string][]byte
		servers []map[string][]byte
		want    int
		signs   bool
	}{
		"all":                      {data, []map[string][]byte{server}, 1, true},
		"nothing":                  {nil, nil, 0, false},
		"it is deleted":            {nil, []map[string][]byte{nil, server, server}, 1, false},
		"it has the key only":      {map[string][]byte{bundleKeys: data[bundleKeys]}, []map[string][]byte{server}, 1, true},
		"the key is gone":          {map[string][]byte{Bundle: data[Bundle]}, []map[string][]byte{server}, 1, false},
		"it has another authority": {map[string][]byte{Bundle: foreign}, []map[string][]byte{server}, 1, false},
		"it has one more": {
			map[string][]byte{Bundle: append(bytes.Clone(foreign), data[Bundle]...), bundleKeys: data[bundleKeys]}, nil, 1, true,
		},
		"a server's has another one": {nil, []map[string][]byte{{Bundle: foreign}, server}, 1, false},
	} {
		got := Recall(c.data, c.servers...)
		if _, err := got.signer(); len(got) != c.want || (err == nil) != c.signs || c.want > 0 && got.Newest() != all.Newest() {
			t.Errorf("%s: %d authorities, %v", name, len(got), err)
		}
	}
}

// TestCheck refuses the certificates that a program of Neon could not use.
func TestCheck(t *testing.T) {
	t.Parallel()
	terms, now := Terms{}, time.Now()
	all, err := terms.Next(nil, now, false)
	if err != nil {
		t.Fatal(err)
	}
	good, err := terms.Server(all, nil, names, now, true)
	if err != nil {
		t.Fatal(err)
	}
	strange, err := terms.Next(nil, now, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(good, names, now); err != nil {
		t.Errorf("a good one: %v", err)
	}
	pkcs8 := maps.Clone(good)
	pair, err := tls.X509KeyPair(good[Cert], good[Key])
	if err != nil {
		t.Fatal(err)
	}
	if pkcs8[Key], err = pki.Key(pair.PrivateKey); err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for says, data := range map[string]map[string][]byte{
		"ca.crt is missing":    {Cert: good[Cert], Key: good[Key]},
		"EC PRIVATE KEY":       pkcs8,
		"not of the authority": {Cert: good[Cert], Key: good[Key], Bundle: strange.bundle()},
		"computes need ECDSA":  signed(t, all[0], &rsaKey.PublicKey, rsaKey),
		"P-384":                signed(t, all[0], &p384.PublicKey, p384),
	} {
		if err := Check(data, names, now); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	if err := Check(good, []string{"other.data.svc"}, now); err == nil || !strings.Contains(err.Error(), "other.data.svc") {
		t.Errorf("another name: %v", err)
	}
}

// signed returns a server's Secret with another key.
func signed(t *testing.T, by pki.Authority, public, private any) map[string][]byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, public, by.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.Key(private)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		Cert: pem.EncodeToMemory(&pem.Block{Type: pki.CertBlock, Bytes: der}), Key: key,
		Bundle: pki.Bundle([]pki.Authority{by}),
	}
}

// TestCopy takes over certificates that somebody else has issued, once the programs trust them.
func TestCopy(t *testing.T) {
	t.Parallel()
	terms, now := Terms{}, time.Now()
	issuer := func() (Authorities, map[string][]byte) {
		a, err := terms.Next(nil, now, false)
		if err != nil {
			t.Fatal(err)
		}
		issued, err := terms.Server(a, nil, names, now, true)
		if err != nil {
			t.Fatal(err)
		}
		return a, issued
	}
	a, first := issuer()
	b, second := issuer()
	all := Join(Join(nil, a.bundle(), now), b.bundle(), now)
	broken := map[string][]byte{Cert: second[Cert], Bundle: second[Bundle]}
	for name, c := range map[string]struct {
		trusted     Authorities
		was, issued map[string][]byte
		known       bool
		want        map[string][]byte // nil: an error
	}{
		"the first":                  {all[1:], nil, first, false, first},
		"a renewed one":              {all[1:], first, renewed(t, a), false, nil},
		"of the next authority":      {all, first, second, false, first},
		"that all programs trust":    {all, first, second, true, second},
		"of one that is not trusted": {all[1:], first, second, true, first},
		"the first of such a one":    {all[1:], nil, second, true, nil},
		"a broken one":               {all, first, broken, true, first},
		"the first is broken":        {all, nil, broken, true, nil},
	} {
		if name == "a renewed one" {
			c.want = c.issued
		}
		got, err := Copy(c.trusted, c.was, c.issued, names, now, c.known)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want != nil && (!bytes.Equal(got[Cert], c.want[Cert]) || !bytes.Equal(got[Bundle], c.trusted.bundle())) {
			t.Errorf("%s: it is another certificate or bundle", name)
		}
	}
}

// renewed returns another certificate of an authority.
func renewed(t *testing.T, a Authorities) map[string][]byte {
	t.Helper()
	issued, err := Terms{}.Server(a, nil, names, time.Now(), true)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// TestJoin adds the authorities of others.
func TestJoin(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, err := pki.New(now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pki.New(now, 3*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	all := Join(nil, pki.Bundle([]pki.Authority{a}), now)
	both := Join(all, pki.Bundle([]pki.Authority{b, a}), now)
	if len(both) != 2 || both.Newest() == all.Newest() {
		t.Errorf("%d authorities", len(both))
	}
	if left := Join(both, nil, now.Add(2*time.Hour)); len(left) != 1 || left.Newest() != both.Newest() {
		t.Errorf("%d authorities are left", len(left))
	}
}
