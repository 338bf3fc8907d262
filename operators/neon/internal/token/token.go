// Package token makes the keys and the tokens by which the programs of Neon trust each
// other: an Ed25519 key, and JSON Web Tokens that are signed with it (RFC 7519, RFC 8037).
// Their claims are those of upstream's libs/utils/src/auth.rs and, for computes,
// libs/compute_api/src/requests.rs. The tokens do not expire, because the programs read
// theirs only at their start. Another key ends all of them.
package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/golang-jwt/jwt/v5"
)

// Scope names the calls that the bearer of a token may make.
type Scope string

const (
	// Tenant is the scope of computes: the data of one tenant.
	Tenant Scope = "tenant"
	// Pageserver allows the calls about tenants and timelines, of pageservers and of the
	// storage controller.
	Pageserver Scope = "pageserverapi"
	// Safekeeper allows all calls of safekeepers.
	Safekeeper Scope = "safekeeperdata"
	// Generations allows the calls by which pageservers ask the storage controller.
	Generations Scope = "generations_api"
	// Admin allows all calls of the storage controller, and none of the others.
	Admin Scope = "admin"
	// Infra allows the calls of the storage controller about nodes.
	Infra Scope = "infra"
	// Scrubber allows the calls by which the storage scrubber asks the storage controller.
	Scrubber Scope = "scrubber"
	// Peer allows a storage controller to take over from another.
	Peer Scope = "controller_peer"
	// Compute allows the calls of all computes. It needs the audience "compute".
	Compute Scope = "compute_ctl:admin"
)

// Claims are the content of a token.
type Claims struct {
	Scope Scope `json:"scope,omitempty"`
	// TenantID is that of a token of scope Tenant: 32 hexadecimal digits.
	TenantID string `json:"tenant_id,omitempty"`
	// ComputeID allows the calls of one compute, without a scope.
	ComputeID string `json:"compute_id,omitempty"`
	// Audience is "compute" for the scope Compute.
	Audience []string `json:"aud,omitempty"`
}

// Key signs tokens.
type Key struct {
	private ed25519.PrivateKey
	signed  *signed
}

// New returns a random key.
func New() Key {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(fmt.Sprintf("generate key: %v", err)) // crypto/rand never fails
	}
	return Key{private, new(signed)}
}

const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
)

// Parse returns the key of a PEM block with PKCS #8, as [Key.PEM] writes it.
func Parse(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateBlock {
		return Key{}, errors.New("parse key: no PEM block " + privateBlock)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("parse key: %w", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("parse key: is %T, not Ed25519", key)
	}
	return Key{private, new(signed)}, nil
}

// PEM returns the key as PKCS #8.
func (k Key) PEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		panic(fmt.Sprintf("encode key: %v", err)) // every Ed25519 key can be encoded
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der})
}

// Public returns the key by which others verify tokens.
func (k Key) Public() Public {
	return Public{key: k.private.Public().(ed25519.PublicKey)}
}

// Equal reports whether two keys are the same.
func (k Key) Equal(other Key) bool { return k.private.Equal(other.private) }

// Sign returns the token with these claims. The same claims give the same token.
func (k Key) Sign(c Claims) string {
	return k.signed.get(c, func() string {
		text, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims(c)).SignedString(k.private)
		if err != nil {
			panic(fmt.Sprintf("sign token: %v", err)) // strings can be encoded and signed
		}
		return text
	})
}

// signed are the tokens that a key has signed: each of them is asked for again and again.
type signed struct {
	mu     sync.Mutex
	tokens map[string]string // by the text of their claims
}

const mostSigned = 10_000

func (s *signed) get(c Claims, sign func() string) string {
	key := fmt.Sprintf("%q", []any{c.Scope, c.TenantID, c.ComputeID, c.Audience})
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, ok := s.tokens[key]; ok {
		return text
	}
	if s.tokens == nil || len(s.tokens) >= mostSigned {
		s.tokens = make(map[string]string) // those of former computes are among them
	}
	s.tokens[key] = sign()
	return s.tokens[key]
}

// Public verifies tokens.
type Public struct{ key ed25519.PublicKey }

// ParsePublic returns the key of a PEM block with PKIX, as [Public.PEM] writes it.
func ParsePublic(text []byte) (Public, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != publicBlock {
		return Public{}, errors.New("parse public key: no PEM block " + publicBlock)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Public{}, fmt.Errorf("parse public key: %w", err)
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return Public{}, fmt.Errorf("parse public key: is %T, not Ed25519", key)
	}
	return Public{key: public}, nil
}

// PEM returns the key as PKIX.
func (p Public) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		panic(fmt.Sprintf("encode public key: %v", err)) // every Ed25519 key can be encoded
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der})
}

// Verify returns the claims of a token. Tokens of other keys and of other algorithms are
// errors.
func (p Public) Verify(text string) (Claims, error) {
	var c claims
	_, err := jwt.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) { return p.key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}))
	if err != nil {
		return Claims{}, fmt.Errorf("verify token: %w", err)
	}
	return Claims(c), nil
}

// JWK is a public key in the form of RFC 8037, as computes take it.
type JWK struct {
	Use           string   `json:"use"`
	KeyOperations []string `json:"key_ops"`
	Algorithm     string   `json:"alg"`
	KeyID         string   `json:"kid"`
	KeyType       string   `json:"kty"`
	Curve         string   `json:"crv"`
	X             string   `json:"x"`
}

// JWK returns the key in the form that computes take.
func (p Public) JWK() JWK {
	id := sha256.Sum256(p.key)
	return JWK{
		Use: "sig", KeyOperations: []string{"verify"}, Algorithm: "EdDSA", KeyID: hex.EncodeToString(id[:]),
		KeyType: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(p.key),
	}
}

// Public returns the key that a JWK holds.
func (j JWK) Public() (Public, error) {
	key, err := base64.RawURLEncoding.DecodeString(j.X)
	if err != nil || j.KeyType != "OKP" || j.Curve != "Ed25519" || len(key) != ed25519.PublicKeySize {
		return Public{}, fmt.Errorf("parse JWK %q: not an Ed25519 key", j.KeyID)
	}
	return Public{key: slices.Clone(key)}, nil
}

// claims are Claims for package jwt, which asks for times and names that Neon does not use.
type claims Claims

func (claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (claims) GetIssuer() (string, error)                   { return "", nil }
func (claims) GetSubject() (string, error)                  { return "", nil }
func (c claims) GetAudience() (jwt.ClaimStrings, error)     { return c.Audience, nil }
