package token

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	key := New()
	for _, c := range []Claims{
		{Scope: Admin},
		{Scope: Tenant, TenantID: strings.Repeat("a", 32)},
		{ComputeID: "ep-1"},
		{Scope: Compute, Audience: []string{"compute"}},
	} {
		text := key.Sign(c)
		if again := (Key{key.private, new(signed)}).Sign(c); again != text {
			t.Errorf("the token of %+v differs from one signature to the next", c)
		}
		got, err := key.Public().Verify(text)
		if err != nil {
			t.Errorf("verify the token of %+v: %v", c, err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
		if _, err := New().Public().Verify(text); err == nil {
			t.Errorf("another key accepts the token of %+v", c)
		}
	}
}

// TestSigned sees that a token is signed once, and that no number of them is too many.
func TestSigned(t *testing.T) {
	t.Parallel()
	s, times := new(signed), 0
	get := func(c Claims) string {
		return s.get(c, func() string {
			times++
			return c.ComputeID + strings.Join(c.Audience, " ")
		})
	}
	for range 2 {
		for _, c := range []Claims{{ComputeID: "ab"}, {ComputeID: "a", Audience: []string{"b"}}, {Scope: "ab"}, {TenantID: "ab"}} {
			if text := get(c); text != c.ComputeID+strings.Join(c.Audience, " ") {
				t.Errorf("the token of %+v is that of others: %q", c, text)
			}
		}
	}
	if times != 4 {
		t.Errorf("4 tokens were signed %d times", times)
	}
	for i := range 2 * mostSigned {
		get(Claims{ComputeID: strconv.Itoa(i)})
	}
	if n := len(s.tokens); n > mostSigned {
		t.Errorf("%d tokens are kept", n)
	}
}

func TestTokensOfOtherAlgorithms(t *testing.T) {
	t.Parallel()
	key := New()
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims{Scope: Admin}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	byPublic, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Scope: Admin}).SignedString(key.Public().PEM())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{none, byPublic, "", "a.b.c"} {
		if c, err := key.Public().Verify(text); err == nil {
			t.Errorf("Verify(%q) = %+v, want an error", text, c)
		}
	}
}

func TestKeysKeepTheirForms(t *testing.T) {
	t.Parallel()
	key := New()
	again, err := Parse(key.PEM())
	if err != nil {
		t.Fatal(err)
	}
	public, err := ParsePublic(key.Public().PEM())
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := key.Public().JWK().Public()
	if err != nil {
		t.Fatal(err)
	}
	text := again.Sign(Claims{Scope: Infra})
	for name, p := range map[string]Public{"PKIX": public, "JWK": jwk} {
		if _, err := p.Verify(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\n", string(key.Public().PEM())} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%q): no error", text)
		}
	}
	if _, err := ParsePublic(key.PEM()); err == nil {
		t.Error("ParsePublic accepts a private key")
	}
}

// TestRecordedJWK holds the form of a JWK to the one that a real compute accepted.
func TestRecordedJWK(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/jwk.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded JWK
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	public, err := recorded.Public()
	if err != nil {
		t.Fatal(err)
	}
	want := recorded
	got := public.JWK()
	got.KeyID = want.KeyID // any id will do
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-recorded +got):\n%s", diff)
	}
}
