// Package place has the words by which the operator's parts tell each other where data is. A
// hook hears of a move first and records it in an annotation: the status of an object has one
// writer, its reconcile, which may be in another replica.
package place

import (
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

const (
	// ShardsAnnotation of a NeonProject has the Shards of which a hook was told. That of a
	// compute's configuration has the Text of those that it knows.
	ShardsAnnotation = "neon.pintle.dev/shards"
	// SafekeepersAnnotation of a NeonBranch has the Safekeepers of which a hook was told. That
	// of a compute's configuration has the Text of those that it knows.
	SafekeepersAnnotation = "neon.pintle.dev/safekeepers"
	// HashAnnotation of a compute's configuration is the hash of its meaning.
	HashAnnotation = "neon.pintle.dev/hash"
)

// Shards says which pageservers have a tenant's shards.
type Shards struct {
	At         metav1.MicroTime `json:"at"`
	Nodes      []int64          `json:"nodes"`
	StripeSize int32            `json:"stripeSize,omitempty"`
}

// Safekeepers says which safekeepers have a timeline.
type Safekeepers struct {
	// Timeline is the id of the timeline. A branch that is reset has another one.
	Timeline   string  `json:"timeline,omitempty"`
	Generation int64   `json:"generation"`
	IDs        []int64 `json:"ids"`
}

// ToldShards returns the shards of which a hook was told, or false if none was called.
func ToldShards(p *api.NeonProject) (s Shards, ok bool) {
	err := json.Unmarshal([]byte(p.Annotations[ShardsAnnotation]), &s)
	return s, err == nil
}

// ToldSafekeepers returns the safekeepers of which a hook was told, or false if none was called.
func ToldSafekeepers(b *api.NeonBranch) (s Safekeepers, ok bool) {
	err := json.Unmarshal([]byte(b.Annotations[SafekeepersAnnotation]), &s)
	return s, err == nil
}

// Text returns ids as a text.
func Text(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ",")
}

// ComputeName returns the name of an endpoint's StatefulSet and of its configuration.
func ComputeName(endpoint string) string { return endpoint + "-compute" }

// Applied reports whether the compute of an endpoint runs with the configuration that has
// these annotations.
func Applied(e *api.NeonEndpoint, annotations map[string]string) bool {
	hash, _, ok := strings.Cut(e.Status.Applied, "@")
	return ok && hash == annotations[HashAnnotation]
}
