package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
)

// Issuer keeps a serving certificate and its authority in a Secret, and the bundle of the
// authorities in Targets. Client and Service are required. Every other field has a
// default. The counterparts are the certificate rotator of
// github.com/open-policy-agent/cert-controller and, for the targets, the CA injector of
// cert-manager.
//
// The program needs the rights of manifest.Issues.
type Issuer struct {
	Client *kube.Client
	// Namespace is that of the Service and of the Secret. Default: the client's
	// namespace, which in a pod is the pod's own.
	Namespace string
	// Service is the name of the Service by which clients reach the server. The
	// certificate has the names SERVICE, SERVICE.NAMESPACE and SERVICE.NAMESPACE.svc.
	Service string
	// Names are further DNS names and IP addresses of the server.
	Names []string
	// Secret is the name of the Secret. Default: the Service's name followed by "-tls".
	Secret string
	// Targets are the objects that get the bundle, in each address that is the Service, or a URL
	// whose host is one of the certificate's names. Other addresses are those of other processes.
	Targets []Target

	// Lifetime is that of a serving certificate. It is replaced after two thirds of it.
	// Default: 90 days. Its counterpart is ServerCertDuration of cert-controller.
	Lifetime time.Duration
	// AuthorityLifetime is that of an authority. Its successor is made after two thirds
	// of it. It must be three times Lifetime at least. Default: a year. Its counterpart is
	// CaCertDuration of cert-controller.
	AuthorityLifetime time.Duration
	// Propagation is the time after which every client uses a bundle that the targets
	// have. Until then, a successor signs nothing. It also is the time for which the
	// process must run without a stop to get to that point. Default: an hour.
	Propagation time.Duration

	// FieldManager owns the bundle in the targets. It must own nothing else there, and
	// stay the same from release to release. Default: the client's field manager followed
	// by "-certificate". Its counterpart is FieldOwner of cert-controller.
	FieldManager string
	// Logger gets the changes of the certificate, and failures. Default: slog.Default(). Its
	// counterpart is Logger of controller-runtime's manager.Options.
	Logger *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	trouble error // of the last look
}

// GetCertificate is for [tls.Config]. It returns the latest certificate that was stored
// in the Secret, and an error until there is one. Any goroutine may call it.
func (i *Issuer) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == nil {
		return nil, i.none()
	}
	return i.current, nil
}

// Ready returns an error if there is no certificate to serve, or if it has expired. It is
// for the check of a program's readiness.
func (i *Issuer) Ready(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.current == nil:
		return i.none()
	case time.Now().After(i.current.Leaf.NotAfter):
		until := i.current.Leaf.NotAfter.Format(time.RFC3339)
		return errors.Join(fmt.Errorf("the certificate expired at %s", until), i.trouble)
	}
	return nil
}

func (i *Issuer) none() error {
	if i.trouble == nil {
		return errors.New("there is no certificate yet")
	}
	return fmt.Errorf("there is no certificate yet: %w", i.trouble)
}

// Run keeps the Secret and the targets right until ctx ends, and then returns nil. It
// returns an error at once if a field is wrong. Other failures are logged, and tried
// again. Run waits for the request that is under way.
//
// Every replica of a program calls Run, and without a lease: all of them serve the
// certificate, and any of them may renew it.
func (i *Issuer) Run(ctx context.Context) error {
	r, err := i.running()
	if err != nil {
		return fmt.Errorf("run certificate issuer: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	seen := make(chan func())
	watching.Go(func() { follow(ctx, r.secrets.Fielded("metadata.name="+r.secret), seen, r.seeSecret) })
	for _, w := range r.targets {
		see := func(ev kube.WatchEvent[served], err error) { r.seeTarget(w, ev, err) }
		watching.Go(func() { follow(ctx, w.objects.Fielded("metadata.name="+w.name), seen, see) })
	}

	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case note := <-seen:
			note()
			// Changes that come together cost one look.
			if soon := time.Now().Add(settle); soon.Before(next) {
				next = soon
				timer.Reset(settle)
			}
		case <-timer.C:
			wait := r.turn(ctx)
			next = time.Now().Add(wait)
			timer.Reset(wait)
		}
	}
}

const (
	// settle is how long a change waits for others.
	settle = 10 * time.Millisecond
	// answerWithin bounds a look at the Secret and the writes that follow from it.
	answerWithin = 30 * time.Second
	// lookEvery is the longest time between two looks. Timers do not run while the
	// machine is suspended.
	lookEvery = time.Hour
)

// follow tells of the events of a watch until ctx ends.
func follow[T any](
	ctx context.Context, objects kube.Handle[T], seen chan<- func(), see func(kube.WatchEvent[T], error),
) {
	for ev, err := range objects.ReadOnly().Watch(ctx) {
		select {
		case seen <- func() { see(ev, err) }:
		case <-ctx.Done():
			return
		}
	}
}

// running is one run of an issuer, with all defaults filled in. One goroutine uses it.
type running struct {
	*Issuer
	secret  string
	secrets kube.Resource[corev1.Secret]
	terms   terms
	targets []*watched
	log     *slog.Logger

	last state // the latest whole state of the Secret
	// published is the time since which all targets hold the bundle. It is zero if they
	// do not.
	bundle    []byte
	published time.Time
	// failures is the number of looks that failed in a row. The last of them was told at
	// told.
	failures int
	told     time.Time
}

// manager returns the field manager of the writes to the targets.
func (i *Issuer) manager() (string, error) {
	if i.FieldManager != "" {
		return i.FieldManager, nil
	}
	client, err := i.Client.FieldManager()
	if err != nil {
		return "", fmt.Errorf("find the issuer's field manager: %w", err)
	}
	return client + "-certificate", nil
}

func (i *Issuer) running() (*running, error) {
	switch {
	case i.Client == nil:
		return nil, errors.New("the issuer has no client")
	case i.Service == "":
		return nil, errors.New("the issuer has no service")
	}
	mine := service{cmp.Or(i.Namespace, i.Client.Namespace()), i.Service}
	r := &running{Issuer: i, secret: pki.SecretName(i.Secret, i.Service), terms: terms{
		names:   []string{mine.Name, mine.Name + "." + mine.Namespace, mine.Name + "." + mine.Namespace + ".svc"},
		serving: cmp.Or(i.Lifetime, 90*24*time.Hour), authority: cmp.Or(i.AuthorityLifetime, 365*24*time.Hour),
		propagation: cmp.Or(i.Propagation, time.Hour),
	}}
	for _, name := range i.Names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		r.terms.names = append(r.terms.names, name)
	}
	if err := r.terms.validate(); err != nil {
		return nil, err
	}
	r.log = cmp.Or(i.Logger, slog.Default()).With("secret", kube.Key{Namespace: mine.Namespace, Name: r.secret}.String())
	r.secrets = kube.For[corev1.Secret](i.Client).In(mine.Namespace)
	manager, err := i.manager()
	if err != nil {
		return nil, err
	}
	for _, t := range i.Targets {
		if t.name == "" {
			return nil, errors.New("a target has no name")
		}
		objects := kube.ViewOf[served](i.Client, t.kind).With(kube.WriteOptions{FieldManager: manager})
		log := r.log.With("target", t.String())
		r.targets = append(r.targets, &watched{Target: t, objects: objects, mine: mine, names: r.terms.names, log: log})
	}
	return r, nil
}

// validate returns the first mistake.
func (t terms) validate() error {
	for _, name := range t.names {
		host := strings.TrimPrefix(name, "*.")
		if faults := validation.IsDNS1123Subdomain(host); len(faults) > 0 && net.ParseIP(name) == nil {
			return fmt.Errorf("name %q: %s", name, strings.Join(faults, ", "))
		}
	}
	switch {
	case t.serving < time.Second || t.propagation < 0:
		return fmt.Errorf("lifetime %s is under a second, or propagation time %s is negative", t.serving, t.propagation)
	case t.authority < 3*t.serving:
		return fmt.Errorf("the lifetime of an authority, %s, is less than three times that of a certificate, %s",
			t.authority, t.serving)
	case t.authority < 6*t.propagation:
		return fmt.Errorf("the lifetime of an authority, %s, is less than six times the propagation time, %s",
			t.authority, t.propagation)
	}
	return nil
}

// seeSecret takes an event of the watch of the Secret. It only tells when to look.
func (r *running) seeSecret(_ kube.WatchEvent[corev1.Secret], err error) {
	if err != nil {
		r.log.Warn("cannot watch the Secret of the certificate", "error", err)
	}
}

// seeTarget takes an event of the watch of a target. A target that has not held the
// bundle for a moment delays the successor of an authority.
func (r *running) seeTarget(w *watched, ev kube.WatchEvent[served], err error) {
	w.see(ev, err)
	if !w.holds(r.bundle) {
		r.published = time.Time{}
	}
}

// turn looks at the Secret and the targets, makes the next step, and returns the time until
// the next look.
func (r *running) turn(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %s", answerWithin))
	defer cancel()
	wait, err := r.look(bounded)
	if ctx.Err() != nil {
		return lookEvery
	}
	r.mu.Lock()
	r.trouble = err
	r.mu.Unlock()
	if err == nil {
		if r.failures > 0 {
			r.log.Info("the certificate is kept up to date again")
		}
		r.failures = 0
		return min(max(wait, 0), lookEvery)
	}
	if r.failures == 0 || time.Since(r.told) > calm {
		r.log.Error("cannot keep the certificate up to date; retrying", "error", err)
		r.told = time.Now()
	}
	r.failures++
	slow := min(fastest<<min(r.failures-1, 10), slowest)
	return slow/2 + rand.N(slow/2)
}

// look is one turn.
func (r *running) look(ctx context.Context) (wait time.Duration, err error) {
	secret, err := r.secrets.Get(ctx, r.secret)
	if apierrors.IsNotFound(err) {
		secret, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	s, err := r.read(secret)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	n, err := r.terms.next(s, now, r.since(s.bundle(), now))
	if err != nil {
		return 0, err
	}
	if n.why != "" {
		err := r.write(ctx, secret, n.state)
		deleted := secret != nil && apierrors.IsNotFound(err)
		switch {
		case deleted, apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			return settle, nil // another replica was quicker
		case err != nil:
			return 0, err
		}
		r.log.Info("the Secret of the certificate is changed", "because", n.why, "authorities", len(n.authorities))
	}
	r.use(n.state)
	wait = time.Until(n.due)
	bundle := n.bundle()
	for _, w := range r.targets {
		again, perr := w.publish(ctx, bundle)
		err = errors.Join(err, perr)
		if again > 0 {
			wait = min(wait, again)
		}
	}
	return wait, err
}

// read returns the state of the Secret. If the Secret is gone or damaged, this is its
// latest whole state.
func (r *running) read(secret *corev1.Secret) (state, error) {
	var s state
	if secret != nil {
		var err error
		if s, err = decode(secret.Data); err != nil {
			return s, err
		}
	}
	if !s.whole() && r.last.serving != nil {
		s = r.last
		s.lost = true
	}
	return s, nil
}

// since returns the time since which all targets hold a bundle, or zero.
func (r *running) since(bundle []byte, now time.Time) time.Time {
	lacks := func(w *watched) bool { return !w.holds(bundle) }
	switch {
	case slices.ContainsFunc(r.targets, lacks):
		r.published = time.Time{}
	case r.published.IsZero(), !bytes.Equal(bundle, r.bundle):
		r.published = now
	}
	r.bundle = bundle
	return r.published
}

// write stores a state, if the Secret has not changed since it was read.
func (r *running) write(ctx context.Context, was *corev1.Secret, s state) error {
	data, err := s.encode()
	if err != nil {
		return err
	}
	if was == nil {
		secret := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: data}
		secret.Name = r.secret
		_, err = r.secrets.Create(ctx, secret)
		return err
	}
	secret := *was
	secret.Data = make(map[string][]byte)
	maps.Copy(secret.Data, was.Data)
	maps.Copy(secret.Data, data)
	_, err = r.secrets.Update(ctx, &secret)
	return err
}

// use serves the certificate of a stored state.
func (r *running) use(s state) {
	r.last = s
	r.mu.Lock()
	was := r.current
	r.current = s.serving
	r.mu.Unlock()
	if was == nil || !was.Leaf.Equal(s.serving.Leaf) {
		r.log.Info("another certificate is served", "until", s.serving.Leaf.NotAfter)
	}
}
