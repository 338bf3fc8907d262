package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// The keys of the Secrets.
const (
	privatePEM = "private.pem"
	publicPEM  = "public.pem"
	tokenFile  = "token"
)

// HookScope is the scope of the token by which the storage controller calls the operator's
// hooks. Nobody else accepts it.
const HookScope token.Scope = "neon.pintle.dev/hooks"

// ParseKeys returns the cluster's key, which the Secret of [KeysName] holds.
func ParseKeys(s *corev1.Secret) (token.Key, error) {
	key, err := token.Parse(s.Data[privatePEM])
	if err != nil {
		return token.Key{}, fmt.Errorf("read Secret %s: %w", s.Name, err)
	}
	return key, nil
}

// newKeys returns the content of the Secret with the private key. Only the operator reads it.
func newKeys() map[string][]byte {
	key := token.New()
	return map[string][]byte{privatePEM: key.PEM(), publicPEM: key.Public().PEM()}
}
