package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Error names the operation and the object for which Err happened. For an answer of the
// API server, Err is an [apierrors.StatusError]: apierrors.IsNotFound and its like see
// through an Error. Its counterpart is kube-rs's Error.
type Error struct {
	Verb      string // get, list, watch, create, update, patch, apply, delete …
	Kind      string
	Namespace string
	Name      string
	Err       error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Verb)
	b.WriteByte(' ')
	b.WriteString(e.Kind)
	switch {
	case e.Name != "":
		b.WriteByte(' ')
		b.WriteString(Key{e.Namespace, e.Name}.String())
	case e.Namespace != "":
		b.WriteString(" in ")
		b.WriteString(e.Namespace)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrNotServed is wrapped when the server does not know the kind: its
	// CustomResourceDefinition is not installed, or serves other versions. Its
	// counterpart is apimachinery's meta.NoKindMatchError.
	ErrNotServed = errors.New("kind is not served")
	// ErrScope is wrapped when a namespace is given for a cluster-scoped kind
	// or is missing for a namespaced one.
	ErrScope = errors.New("wrong scope")
	// ErrUnreachable is wrapped when no connection to the API server could be made.
	ErrUnreachable = errors.New("cannot reach the API server")
)

// statusError turns an answer with a status of 400 or more into an error. It
// reads and closes the body.
func statusError(resp *http.Response, r *request) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		body = nil // the status code alone still tells most of the error
	}
	if status, ok := wire.DecodeStatus(body); ok {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		if s := retryAfterSeconds(resp); s > 0 && (status.Details == nil || status.Details.RetryAfterSeconds == 0) {
			// If a proxy has answered, the header alone has the delay.
			if status.Details == nil {
				status.Details = new(metav1.StatusDetails)
			}
			status.Details.RetryAfterSeconds = int32(s)
		}
		if !namesNothing(status) || !servesNot(resp, r) {
			return hint(wire.StatusError(status))
		}
	}
	// If an object is missing, the answer is a Status that names the object. If a path is
	// not served, the answer is plain text. In a group that is served, the answer for
	// such a path is a Status that names nothing.
	switch {
	case !servesNot(resp, r):
	case r.subresource != "":
		return fmt.Errorf("%w: the server has no %s/%s in %s",
			ErrNotServed, r.resource.Plural, r.subresource, r.resource.GroupVersion())
	default:
		return notServed(r.resource.GVK, r.resource.Plural)
	}
	serr := apierrors.NewGenericServerResponse(resp.StatusCode, r.verb, r.resource.groupResource(), r.name,
		strings.TrimSpace(string(body)), retryAfterSeconds(resp), true)
	return hint(serr)
}

// namesNothing reports that s is the Status of a path that is not served. Other Statuses
// may lack details too, so the message decides.
func namesNothing(s *metav1.Status) bool {
	return (s.Details == nil || s.Details.Name == "" && s.Details.Kind == "") && strings.HasPrefix(s.Message,
		"the server could not find the requested resource")
}

// servesNot reports that resp is a 404 for the path of a resource.
func servesNot(resp *http.Response, r *request) bool {
	return resp.StatusCode == http.StatusNotFound && r.resource.Plural != ""
}

func notServed(gvk GVK, plural string) error {
	what := gvk.Kind
	if plural != "" {
		what = plural
	}
	return fmt.Errorf("%w: the server has no %s in %s: install its CustomResourceDefinition, or check group "+
		"and version", ErrNotServed, what, gvk.GroupVersion())
}

// hint adds advice to errors that concern credentials.
func hint(err *apierrors.StatusError) error {
	switch err.ErrStatus.Code {
	case http.StatusUnauthorized:
		return fmt.Errorf("the server does not accept the credentials (expired, or of another cluster? see "+
			"the kubeconfig's user): %w", err)
	case http.StatusForbidden:
		message := err.ErrStatus.Message
		switch {
		case err.ErrStatus.Reason != metav1.StatusReasonForbidden:
		case strings.Contains(message, "cannot find RESTMapping"): // of OwnerReferencesPermissionEnforcement
			return fmt.Errorf("the admission plugin for owner references does not know the owner's kind (it reads "+
				"the kinds every 30 s): %w", err)
		case strings.Contains(message, "cannot"):
			return fmt.Errorf("not allowed (a Role or ClusterRole must grant it): %w", err)
		}
	}
	return err
}

// unreachable names the server and the likely reason of a failed connection.
func unreachable(err error, base *url.URL) error {
	var op *net.OpError
	var dns *net.DNSError
	var host x509.HostnameError
	var cert *tls.CertificateVerificationError
	if uerr := new(url.Error); errors.As(err, &uerr) {
		err = uerr.Err // the URL repeats the fields of Error
	}
	switch {
	case errors.As(err, &host):
		return fmt.Errorf("%w at %s: its certificate is for another name (does the kubeconfig lack "+
			"tls-server-name?): %w", ErrUnreachable, base.Host, err)
	case errors.As(err, &cert):
		return fmt.Errorf("%w at %s: its certificate is not trusted (is certificate-authority in the "+
			"kubeconfig of this cluster?): %w", ErrUnreachable, base.Host, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%w at %s: it does not speak HTTPS (see server in the kubeconfig): %w",
			ErrUnreachable, base.Host, err)
	case errors.As(err, &op) && (op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks")):
		return fmt.Errorf("%w at %s through the proxy (see proxy-url in the kubeconfig, and HTTPS_PROXY): %w",
			ErrUnreachable, base.Host, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s (is it running? is this the right kubeconfig context?): %w",
			ErrUnreachable, base.Host, err)
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, base.Host, err)
	}
	return err
}

// isExpired reports that a resource version or continue token is too old: the
// server no longer has the history after it.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isTooLarge reports that this server has not yet seen the requested resourceVersion.
// That may happen after a restart or on another replica. It is right to ask again later,
// and wrong to list again.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
