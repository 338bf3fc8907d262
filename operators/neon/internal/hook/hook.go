// Package hook serves the calls by which storage controllers tell the operator that data has
// moved: notify-attach and notify-safekeepers. Upstream's storage_controller/src/compute_hook.rs
// makes them.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
)

// Hooks serves the hooks of all clusters. Every replica of the operator serves them.
//
// A hook answers 200 once the computes that run know the change, also if there are none, and
// 423 if that takes longer than the caller waits: it calls again. It asks no storage
// controller, which may wait for the hook.
type Hooks struct {
	Projects  kube.Resource[api.NeonProject]
	Branches  kube.Resource[api.NeonBranch]
	Endpoints kube.Resource[api.NeonEndpoint]
	Secrets   kube.Resource[corev1.Secret]
	Clients   *cluster.Clients
	// Limit is the time after which a hook answers 423. Default: 8 s, less than the 10 s that a
	// storage controller waits.
	Limit time.Duration
}

// Attachment is the body of notify-attach.
type Attachment struct {
	TenantID string `json:"tenant_id"`
	// StripeSize is nil for a tenant that was made without shards.
	StripeSize *int32 `json:"stripe_size"`
	Shards     []struct {
		Node   int64 `json:"node_id"`
		Number int   `json:"shard_number"`
	} `json:"shards"`
}

// Membership is the body of notify-safekeepers.
type Membership struct {
	TenantID    string `json:"tenant_id"`
	TimelineID  string `json:"timeline_id"`
	Generation  int64  `json:"generation"`
	Safekeepers []struct {
		ID int64 `json:"id"`
	} `json:"safekeepers"`
}

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (a Attachment) check() error {
	if !idForm.MatchString(a.TenantID) {
		return fmt.Errorf("%q is not the id of a tenant", a.TenantID)
	}
	if len(a.Shards) == 0 {
		return errors.New("there are no shards")
	}
	seen := make([]bool, len(a.Shards))
	for _, s := range a.Shards {
		switch {
		case s.Number < 0 || s.Number >= len(seen) || seen[s.Number]:
			return fmt.Errorf("shard %d of %d is unknown or occurs twice", s.Number, len(seen))
		case s.Node <= 0:
			return fmt.Errorf("shard %d is on pageserver %d", s.Number, s.Node)
		}
		seen[s.Number] = true
	}
	return nil
}

func (m Membership) check() error {
	switch {
	case !idForm.MatchString(m.TenantID):
		return fmt.Errorf("%q is not the id of a tenant", m.TenantID)
	case !idForm.MatchString(m.TimelineID):
		return fmt.Errorf("%q is not the id of a timeline", m.TimelineID)
	case m.Generation <= 0:
		return fmt.Errorf("generation %d", m.Generation)
	case len(m.Safekeepers) == 0:
		return errors.New("there are no safekeepers")
	}
	seen := map[int64]bool{}
	for _, s := range m.Safekeepers {
		if s.ID <= 0 || seen[s.ID] {
			return fmt.Errorf("safekeeper %d is unknown or occurs twice", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// errBusy is wrapped by the error of a hook that the computes do not know of yet.
var errBusy = errors.New("the computes do not know yet")

const (
	defaultLimit = 8 * time.Second
	// largestBody is far more than a tenant with the most shards needs.
	largestBody = 1 << 20
)

// body is the request of a hook. Fields that it does not have are ignored.
type body interface {
	// check returns an error for a request that no storage controller makes. Such a request
	// must have no effect: an empty set would leave computes without their data.
	check() error
}

// Routes returns the handlers of all clusters' hooks.
func (h *Hooks) Routes() []controller.Route {
	return []controller.Route{
		{Pattern: "PUT /clusters/{namespace}/{name}/notify-attach", Handler: serve(h, h.attached)},
		{Pattern: "PUT /clusters/{namespace}/{name}/notify-safekeepers", Handler: serve(h, h.moved)},
	}
}

// serve returns the handler of a hook.
func serve[T body](h *Hooks, act func(context.Context, kube.Key, T) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := kube.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
		ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(h.Limit, defaultLimit))
		defer cancel()
		if status, err := h.admit(ctx, caller, r); err != nil {
			answer(w, status, err)
			return
		}
		var asked T
		if status, err := decode(w, r, &asked); err != nil {
			answer(w, status, err)
			return
		}
		if err := asked.check(); err != nil {
			answer(w, http.StatusBadRequest, err)
			return
		}
		switch err := act(ctx, caller, asked); {
		case err == nil:
			w.WriteHeader(http.StatusOK)
		case errors.Is(err, errBusy):
			answer(w, http.StatusLocked, err)
		default:
			answer(w, http.StatusServiceUnavailable, err)
		}
	})
}

// decode reads the body of a request.
func decode(w http.ResponseWriter, r *http.Request, into any) (status int, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Errorf("read body: longer than %d bytes", large.Limit)
	case err != nil:
		return http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return http.StatusBadRequest, fmt.Errorf("decode body: %w", err)
	}
	return 0, nil
}

// admit checks the token of a request.
func (h *Hooks) admit(ctx context.Context, caller kube.Key, r *http.Request) (status int, err error) {
	key, err := h.Clients.Key(ctx, caller)
	switch {
	case apierrors.IsNotFound(err):
		return http.StatusUnauthorized, errors.New("there is no such cluster")
	case err != nil:
		return http.StatusServiceUnavailable, err
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return http.StatusUnauthorized, errors.New("the request has no token")
	}
	claims, err := key.Public().Verify(text)
	if err != nil {
		return http.StatusUnauthorized, errors.New("the token is not of this cluster")
	}
	if claims.Scope != cluster.HookScope {
		return http.StatusForbidden, fmt.Errorf("the token's scope is %q, not %q", claims.Scope, cluster.HookScope)
	}
	return 0, nil
}

func answer(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"msg": err.Error()}) // the caller may be gone
}
