package database

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// taken matches names that could be those of another NeonDatabase's Services: the endpoint's
// Service bears the base name, and others have the base name and one of these words. The eight
// digits are those that baseName itself adds.
var taken = regexp.MustCompile(
	`-(broker|compute|controller|database|hooks|proxy|store|(safekeeper|pageserver)(-[0-9]+)?|[0-9a-f]{8})$`)

// baseName returns the name that those of all children of a NeonDatabase begin with. It is the
// NeonDatabase's own name, unless that ends as the name of a child does: then it gets
// eight digits of its own. So no two NeonDatabases of a namespace ever have a child of one kind and name.
func baseName(d *api.NeonDatabase) string {
	if !taken.MatchString(d.Name) {
		return d.Name
	}
	sum := sha256.Sum256([]byte(d.Name))
	// A NeonCluster's name has at most 30 characters.
	return d.Name[:min(len(d.Name), 21)] + "-" + hex.EncodeToString(sum[:4])
}
