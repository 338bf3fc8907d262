package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/pintle-go/pintle/cluster/internal/pki"
)

// A new API server makes its roles and priority classes a second after it has started. So
// the first cluster keeps these objects in a file beside the binary, and new clusters get
// them from there before their API server starts. It finds them and need not be waited for.

// bootstrapKinds are the kinds of these objects, in etcd.
var bootstrapKinds = []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings", "priorityclasses"}

// A pair is a key of etcd with its value.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// bootstrapFile is the file with the objects that the API server of a binary makes.
func bootstrapFile(binary string) string {
	return filepath.Join(filepath.Dir(binary), "bootstrap.json")
}

// plain reports whether the API server has our flags only. Others might change the
// objects, or their form in etcd.
func (s *supervisor) plain() bool { return len(s.Settings.APIServerArgs) == 0 }

// A birth tells how the objects of the first start come into being.
type birth int

const (
	old   birth = iota // they may be there
	known              // they were written
	made               // the API server makes them
)

// writeBootstrap gives a new etcd the objects, if they are known.
func (s *supervisor) writeBootstrap(ctx context.Context) (birth, error) {
	if !s.plain() {
		return old, nil
	}
	found, err := s.probe.pairs(ctx, "/registry/")
	if err != nil {
		return old, fmt.Errorf("look for objects of an earlier start: %w", err)
	}
	if len(found) > 0 {
		return old, nil
	}
	data, err := os.ReadFile(bootstrapFile(s.Binary))
	if errors.Is(err, fs.ErrNotExist) {
		return made, nil
	}
	var pairs []pair
	if err == nil {
		err = json.Unmarshal(data, &pairs)
	}
	if err != nil {
		return old, fmt.Errorf("read the objects of a new cluster: %w", err)
	}
	for chunk := range slices.Chunk(pairs, maxOperations) {
		var puts []any
		for _, p := range chunk {
			puts = append(puts, map[string]any{"request_put": p})
		}
		if err := s.probe.transact(ctx, puts); err != nil {
			return old, fmt.Errorf("write the objects of a new cluster: %w", err)
		}
	}
	return known, nil
}

// keepBootstrap keeps the objects that the API server has made, for other clusters.
func (s *supervisor) keepBootstrap(ctx context.Context) error {
	var all []pair
	for _, kind := range bootstrapKinds {
		pairs, err := s.probe.pairs(ctx, "/registry/"+kind+"/")
		if err != nil {
			return fmt.Errorf("read the objects of a new cluster: %w", err)
		}
		all = append(all, pairs...)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the objects of a new cluster: %w", err)
	}
	return pki.WriteFile(bootstrapFile(s.Binary), data, 0o600)
}

// pairs returns the pairs whose key has a prefix, which ends with a slash.
func (p *prober) pairs(ctx context.Context, prefix string) ([]pair, error) {
	var answer struct {
		Pairs []pair `json:"kvs"`
	}
	data, err := p.send(ctx, p.health, http.MethodPost, p.plane.EtcdURL()+"/v3/kv/range", map[string]any{
		"key": []byte(prefix), "range_end": []byte(prefix[:len(prefix)-1] + "0"),
	})
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return answer.Pairs, err
}

// transact performs operations on etcd, at most [maxOperations].
func (p *prober) transact(ctx context.Context, operations []any) error {
	_, err := p.send(ctx, p.health, http.MethodPost, p.plane.EtcdURL()+"/v3/kv/txn", map[string]any{"success": operations})
	return err
}
