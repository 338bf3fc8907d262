package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// authorizer lets requests through whose bearer token the cluster knows (a
// TokenReview) and allows to do what the request does to its path (a
// SubjectAccessReview), as kube-rbac-proxy does. What the cluster has said is
// kept for a moment, because scrapers ask often.
type authorizer struct {
	reviews  kube.Resource[tokenReview]
	accesses kube.Resource[accessReview]

	mu    sync.Mutex
	known map[asked]answer
}

// asked is a question: who wants what. Tokens are not kept.
type asked struct {
	token      [sha256.Size]byte
	verb, path string
}

type answer struct {
	code  int
	until time.Time
}

const (
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	answersMax = 1000
	reviewTime = 10 * time.Second
)

func newAuthorizer(c *kube.Client) *authorizer {
	return &authorizer{
		reviews: kube.For[tokenReview](c, kube.Kind{
			GVK:    kube.GVK{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
			Plural: "tokenreviews", Scope: kube.ClusterScoped,
		}),
		accesses: kube.For[accessReview](c, kube.Kind{
			GVK:    kube.GVK{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
			Plural: "subjectaccessreviews", Scope: kube.ClusterScoped,
		}),
		known: make(map[asked]answer),
	}
}

// guard returns a handler that asks before h answers.
func (a *authorizer) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of the cluster is needed", http.StatusUnauthorized)
			return
		}
		switch code, err := a.ask(r.Context(), token, strings.ToLower(r.Method), r.URL.Path); {
		case err != nil:
			http.Error(w, "the cluster cannot be asked: "+err.Error(), http.StatusServiceUnavailable)
		case code != http.StatusOK:
			http.Error(w, http.StatusText(code), code)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// ask returns the status that a request deserves.
func (a *authorizer) ask(ctx context.Context, token, verb, path string) (int, error) {
	q := asked{sha256.Sum256([]byte(token)), verb, path}
	a.mu.Lock()
	known, ok := a.known[q]
	a.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.code, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reviewTime, errors.New("no answer in time"))
	defer cancel()
	code, err := a.review(ctx, token, verb, path)
	if err != nil {
		return 0, err
	}
	keep := deniedFor
	if code == http.StatusOK {
		keep = allowedFor
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= answersMax {
		clear(a.known)
	}
	a.known[q] = answer{code, time.Now().Add(keep)}
	return code, nil
}

func (a *authorizer) review(ctx context.Context, token, verb, path string) (int, error) {
	var who tokenReview
	who.Spec.Token = token
	identified, err := a.reviews.Create(ctx, &who)
	if err != nil {
		return 0, err
	}
	if !identified.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := identified.Status.User
	var may accessReview
	may.Spec.User, may.Spec.UID, may.Spec.Groups, may.Spec.Extra = user.Username, user.UID, user.Groups, user.Extra
	may.Spec.NonResource.Path, may.Spec.NonResource.Verb = path, verb
	decided, err := a.accesses.Create(ctx, &may)
	switch {
	case err != nil:
		return 0, err
	case !decided.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// tokenReview and accessReview are what is needed of the kinds of their names:
// the packages of the whole types would be a hundredth of a small program.
type tokenReview struct {
	kube.Object
	Spec struct {
		Token string `json:"token"`
	} `json:"spec"`
	Status struct {
		Authenticated bool `json:"authenticated,omitempty"`
		User          struct {
			Username string              `json:"username,omitempty"`
			UID      string              `json:"uid,omitempty"`
			Groups   []string            `json:"groups,omitempty"`
			Extra    map[string][]string `json:"extra,omitempty"`
		} `json:"user,omitzero"`
	} `json:"status,omitzero"`
}

type accessReview struct {
	kube.Object
	Spec struct {
		User        string              `json:"user,omitempty"`
		UID         string              `json:"uid,omitempty"`
		Groups      []string            `json:"groups,omitempty"`
		Extra       map[string][]string `json:"extra,omitempty"`
		NonResource struct {
			Path string `json:"path"`
			Verb string `json:"verb"`
		} `json:"nonResourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status,omitzero"`
}
