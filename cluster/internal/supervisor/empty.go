package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// empty deletes the objects that were created after a revision of etcd, so that the
// cluster has the objects of a new one. They are deleted in etcd, so neither finalizers nor
// a missing controller-manager keep them. The watches of the API server see it.
//
// Objects in the namespaces of Kubernetes stay, because its programs make them when they
// need them. Changes of older objects stay too.
func (p *prober) empty(ctx context.Context, after int64) error {
	for pass := 0; ; pass++ {
		keys, err := p.keysAfter(ctx, after)
		if err != nil {
			return fmt.Errorf("list the objects of the former owner: %w", err)
		}
		// Controllers may react to the first deletions, and write for a moment.
		if !slices.ContainsFunc(keys, isOfOwner) {
			return nil
		}
		if pass == maxPasses {
			return fmt.Errorf("%w, such as %s", errRefilled, keys[0])
		}
		for chunk := range slices.Chunk(keys, maxOperations) {
			if err := p.deleteKeys(ctx, chunk); err != nil {
				return fmt.Errorf("delete the objects of the former owner: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

const (
	maxPasses     = 40
	maxOperations = 100 // of a transaction; etcd allows 128
)

var errRefilled = errors.New("a program creates objects again")

// isOfSystem reports whether Kubernetes itself makes the object with this key of etcd.
func isOfSystem(key string) bool {
	for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease"} {
		if strings.Contains(key, "/"+namespace+"/") {
			return true
		}
	}
	return key == "/registry/configmaps/default/kube-root-ca.crt"
}

// isOfOwner reports whether a program of the owner made the object. Kubernetes writes events
// about the objects that it misses.
func isOfOwner(key string) bool { return !strings.HasPrefix(key, "/registry/events/") }

// keysAfter returns the keys in etcd that were created after a revision, without those of
// the system.
func (p *prober) keysAfter(ctx context.Context, after int64) ([]string, error) {
	var answer struct {
		KVs []struct {
			Key []byte `json:"key"`
		} `json:"kvs"`
	}
	data, err := p.send(ctx, p.health, http.MethodPost, p.plane.EtcdURL()+"/v3/kv/range", map[string]any{
		"key": []byte("/registry/"), "range_end": []byte("/registry0"),
		"keys_only": true, "min_create_revision": strconv.FormatInt(after+1, 10),
	})
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, kv := range answer.KVs {
		if key := string(kv.Key); !isOfSystem(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (p *prober) deleteKeys(ctx context.Context, keys []string) error {
	var operations []any
	for _, key := range keys {
		operations = append(operations, map[string]any{
			"request_delete_range": map[string]any{"key": []byte(key)},
		})
	}
	return p.transact(ctx, operations)
}
