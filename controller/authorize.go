package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// authorizer lets a request through if the cluster knows its bearer token (a TokenReview)
// and allows the token's user to do the request's verb on its path (a
// SubjectAccessReview). kube-rbac-proxy and controller-runtime's
// filters.WithAuthenticationAndAuthorization do the same. Answers are kept for a moment,
// because scrapers ask often. Tokens that clients make up cost the cluster no more than
// the rate of reviews, and this program no more than the size of its maps.
type authorizer struct {
	log      *slog.Logger
	reviews  kube.Resource[tokenReview]
	accesses kube.Resource[accessReview]

	mu      sync.Mutex
	allowed map[question]time.Time // until when
	denied  map[question]answer
	asking  map[question]*inquiry
	rate    reviewRate
	failing bool // the last question to the cluster failed
}

// question is a hash of a token, a verb and a path. Tokens are not kept.
type question [sha256.Size]byte

func questionOf(token, verb, path string) question {
	return sha256.Sum256([]byte(token + "\x00" + verb + "\x00" + path))
}

type answer struct {
	code  int
	until time.Time
}

// inquiry is a question that the cluster is being asked. Its result is set when done is
// closed.
type inquiry struct {
	done chan struct{}
	code int
	err  error
}

const (
	// allowedFor and deniedFor are how long an answer is valid.
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	// trustedFor is how long, after it was allowed, a question is asked again with no
	// regard to the rate of others' questions.
	trustedFor = 10 * time.Minute
	answersMax = 1000 // of allowed ones, and of denied ones
	reviewTime = 10 * time.Second
)

func newAuthorizer(c *kube.Client, log *slog.Logger) *authorizer {
	return &authorizer{
		log: log,
		reviews: kube.For[tokenReview](c, kube.Kind{
			GVK:    kube.GVK{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
			Plural: "tokenreviews", Scope: kube.ClusterScoped,
		}),
		accesses: kube.For[accessReview](c, kube.Kind{
			GVK:    kube.GVK{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
			Plural: "subjectaccessreviews", Scope: kube.ClusterScoped,
		}),
		allowed: make(map[question]time.Time),
		denied:  make(map[question]answer),
		asking:  make(map[question]*inquiry),
	}
}

// guard returns a handler that asks before h answers. The end of serving ends the
// questions under way.
func (a *authorizer) guard(serving context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the request needs a bearer token of the cluster", http.StatusUnauthorized)
			return
		}
		code, err := a.ask(serving, r, token)
		switch {
		case err != nil:
			// The error is only for the log: it names the server, and the client is
			// unknown.
			later(w, "the API server cannot review the token", http.StatusServiceUnavailable)
		case code == http.StatusTooManyRequests:
			later(w, "too many tokens are being reviewed", code)
		case code != http.StatusOK:
			http.Error(w, http.StatusText(code), code)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// ask returns the status that a request deserves. If several requests have the same
// question, one of them asks the cluster, even if its client does not wait for the
// answer.
func (a *authorizer) ask(serving context.Context, r *http.Request, token string) (int, error) {
	verb, path := strings.ToLower(r.Method), r.URL.Path
	q := questionOf(token, verb, path)
	code, asked, mine := a.look(q, r.RemoteAddr, time.Now())
	switch {
	case asked == nil:
		return code, nil
	case mine:
		ctx, cancel := context.WithTimeoutCause(serving, reviewTime, errors.New("no answer in time"))
		defer cancel()
		err := errors.New("the token review panicked")
		defer func() { a.settle(q, asked, code, err) }()
		code, err = a.review(ctx, token, verb, path)
		return code, err
	}
	select {
	case <-asked.done:
		return asked.code, asked.err
	case <-r.Context().Done():
		return 0, context.Cause(r.Context())
	}
}

// look returns the answer to a question, if it is known or if the question may not be
// asked. Otherwise it returns an inquiry, and whether the caller must make it.
func (a *authorizer) look(q question, client string, now time.Time) (code int, asked *inquiry, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, trusted := a.allowed[q]
	if trusted && now.Before(until) {
		return http.StatusOK, nil, false
	}
	if known, ok := a.denied[q]; ok && now.Before(known.until) {
		return known.code, nil, false
	}
	if asked := a.asking[q]; asked != nil {
		return 0, asked, false
	}
	trusted = trusted && now.Before(until.Add(trustedFor))
	if !trusted && !a.rate.take(client, now) {
		return http.StatusTooManyRequests, nil, false
	}
	asked = &inquiry{done: make(chan struct{})}
	a.asking[q] = asked
	return 0, asked, true
}

// settle keeps the cluster's answer, and wakes the requests that wait for it.
func (a *authorizer) settle(q question, asked *inquiry, code int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	asked.code, asked.err = code, err
	close(asked.done)
	delete(a.asking, q)
	if a.failing != (err != nil) {
		a.sayFailing(err)
	}
	a.failing = err != nil
	if err != nil {
		return
	}
	delete(a.allowed, q)
	delete(a.denied, q)
	if code == http.StatusOK {
		if len(a.allowed) >= answersMax {
			forgotten := now.Add(-trustedFor)
			maps.DeleteFunc(a.allowed, func(_ question, until time.Time) bool { return until.Before(forgotten) })
		}
		if len(a.allowed) < answersMax {
			a.allowed[q] = now.Add(allowedFor)
		}
		return
	}
	if len(a.denied) >= answersMax {
		maps.DeleteFunc(a.denied, func(_ question, known answer) bool { return now.After(known.until) })
	}
	if len(a.denied) < answersMax {
		a.denied[q] = answer{code, now.Add(deniedFor)}
	}
}

// sayFailing logs that the cluster cannot be asked, or that it can be asked again.
func (a *authorizer) sayFailing(err error) {
	if err == nil {
		a.log.Info("token reviews succeed again")
		return
	}
	a.log.Error("cannot review tokens with the API server", "error", err)
}

// reviewRate limits how often the cluster is asked. It limits all clients together, and
// each address by itself, so that one client leaves some of the rate to others.
type reviewRate struct {
	all bucket
	of  map[string]*bucket
}

const (
	reviewBurst, reviewsASecond         = 50, 10
	addressBurst, addressReviewsASecond = 20, 2
	addressesMax                        = 1000
)

// take reports whether the cluster may be asked for a client, whose address has a
// port.
func (r *reviewRate) take(client string, now time.Time) bool {
	if host, _, err := net.SplitHostPort(client); err == nil {
		client = host
	}
	one := r.of[client]
	if one == nil {
		if len(r.of) >= addressesMax {
			maps.DeleteFunc(r.of, func(_ string, b *bucket) bool { return b.full(now, addressReviewsASecond) })
		}
		if len(r.of) >= addressesMax {
			return false
		}
		if r.of == nil {
			r.of = make(map[string]*bucket)
		}
		one = new(bucket)
		r.of[client] = one
	}
	return one.take(now, addressReviewsASecond, addressBurst) && r.all.take(now, reviewsASecond, reviewBurst)
}

// bucket lets a burst through at once, and after it a steady rate. Its zero value is
// full.
type bucket struct {
	taken float64
	at    time.Time
}

func (b *bucket) refill(now time.Time, rate float64) {
	b.taken = max(0, b.taken-now.Sub(b.at).Seconds()*rate)
	b.at = now
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	b.refill(now, rate)
	if b.taken > burst-1 {
		return false
	}
	b.taken++
	return true
}

func (b *bucket) full(now time.Time, rate float64) bool {
	b.refill(now, rate)
	return b.taken <= 0
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

// tokenReview and accessReview have the needed fields of the kinds of their names. The
// packages of the whole types would be a hundredth of a small program.
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
