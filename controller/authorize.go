package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/pintle-go/pintle/kube"
)

// authorizer lets requests through whose bearer token the cluster knows (a
// TokenReview) and allows to do what the request does to its path (a
// SubjectAccessReview), as kube-rbac-proxy does. What the cluster has said is
// kept for a moment, because scrapers ask often.
type authorizer struct {
	reviews  kube.Resource[authenticationv1.TokenReview]
	accesses kube.Resource[authorizationv1.SubjectAccessReview]

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
		reviews:  kube.For[authenticationv1.TokenReview](c),
		accesses: kube.For[authorizationv1.SubjectAccessReview](c),
		known:    make(map[asked]answer),
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
	who, err := a.reviews.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	if err != nil {
		return 0, err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := a.accesses.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}})
	switch {
	case err != nil:
		return 0, err
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
