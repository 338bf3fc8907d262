package certificate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// Target is an object by which the API server knows the authorities of a server. Make it
// with [APIService], [ValidatingWebhooks], [MutatingWebhooks] or [Conversion].
type Target struct {
	kind kube.Kind
	name string
}

// APIService is the field spec.caBundle of an APIService, such as "v1.farm.example.com".
func APIService(name string) Target {
	return target("apiregistration.k8s.io", "APIService", "apiservices", name)
}

// ValidatingWebhooks is the field clientConfig.caBundle of each webhook in a
// ValidatingWebhookConfiguration.
func ValidatingWebhooks(name string) Target {
	const kind, plural = "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
	return target("admissionregistration.k8s.io", kind, plural, name)
}

// MutatingWebhooks is the field clientConfig.caBundle of each webhook in a
// MutatingWebhookConfiguration. Its counterpart is the type Mutating of cert-controller's
// WebhookInfo.
func MutatingWebhooks(name string) Target {
	const kind, plural = "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"
	return target("admissionregistration.k8s.io", kind, plural, name)
}

// Conversion is the field spec.conversion.webhook.clientConfig.caBundle of a
// CustomResourceDefinition, such as "llamas.farm.example.com".
func Conversion(name string) Target {
	return target("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", name)
}

func target(group, kind, plural, name string) Target {
	gvk := kube.GVK{Group: group, Version: "v1", Kind: kind}
	return Target{kube.Kind{GVK: gvk, Plural: plural, Scope: kube.ClusterScoped}, name}
}

// Kind returns the kind of the object. Its counterpart is Type of cert-controller's
// WebhookInfo.
func (t Target) Kind() kube.Kind { return t.kind }

// Name returns the name of the object. Its counterpart is Name of cert-controller's
// WebhookInfo.
func (t Target) Name() string { return t.name }

func (t Target) String() string { return t.kind.Kind + " " + t.name }

// served has the fields of all kinds of targets that matter here.
type served struct {
	kube.Object
	Spec     spec      `json:"spec,omitzero"`
	Webhooks []webhook `json:"webhooks,omitempty"`
}

type spec struct {
	Service    *service    `json:"service,omitempty"`
	CABundle   []byte      `json:"caBundle,omitempty"`
	Conversion *conversion `json:"conversion,omitempty"`
}

type conversion struct {
	Webhook *webhook `json:"webhook,omitempty"`
}

type webhook struct {
	Name         string        `json:"name,omitempty"`
	ClientConfig *clientConfig `json:"clientConfig,omitempty"`
}

type clientConfig struct {
	URL      string   `json:"url,omitempty"`
	Service  *service `json:"service,omitempty"`
	CABundle []byte   `json:"caBundle,omitempty"`
}

type service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// with returns a patch of the fields of an object that have to hold a bundle, and
// reports whether they hold it already. They are the fields about the service mine, and about
// a server by its URL, if one of the names is its host. The fields about others are left out: a
// program on a developer's machine has an authority of its own.
func (o *served) with(bundle []byte, mine service, names []string) (wanted patch, holds bool) {
	holds = true
	put := func(is []byte) []byte {
		holds = holds && bytes.Equal(is, bundle)
		return bundle
	}
	client := func(c *clientConfig) *clientConfig {
		if c == nil || c.Service != nil && *c.Service != mine {
			return nil
		}
		if u, err := url.Parse(c.URL); c.Service == nil && (err != nil || !slices.Contains(names, u.Hostname())) {
			return nil
		}
		return &clientConfig{CABundle: put(c.CABundle)}
	}
	if s := o.Spec.Service; s != nil && *s == mine {
		wanted.Spec.CABundle = put(o.Spec.CABundle)
	}
	if c := o.Spec.Conversion; c != nil && c.Webhook != nil {
		if config := client(c.Webhook.ClientConfig); config != nil {
			wanted.Spec.Conversion = &conversion{&webhook{ClientConfig: config}}
		}
	}
	for _, w := range o.Webhooks {
		if config := client(w.ClientConfig); config != nil {
			wanted.Webhooks = append(wanted.Webhooks, webhook{w.Name, config})
		}
	}
	return wanted, holds
}

// patch is the body of a strategic merge patch. Its uid and its version keep it from
// undoing a change that this process has not seen.
//
// A server-side apply would also own the names in the list of webhooks. The list would
// keep a webhook that its own manager no longer applies, without the fields that a webhook
// needs, and the server would refuse that manager's apply.
type patch struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string    `json:"name"`
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Spec     spec      `json:"spec,omitzero"`
	Webhooks []webhook `json:"webhooks,omitempty"`
}

// watched is a target as its watch shows it. One goroutine uses it.
type watched struct {
	Target
	objects kube.View[served]
	mine    service
	names   []string // of the server
	log     *slog.Logger

	synced, known bool    // the watch has shown a state, and this is the present one
	object        *served // nil: there is none

	bundle []byte // the wanted one
	held   bool   // the target has held it
	pace   pace   // of putting it there
}

// see takes an event of the watch.
func (w *watched) see(ev kube.WatchEvent[served], err error) {
	switch {
	case err != nil:
		w.log.Warn("cannot watch a target of the CA bundle", "error", err)
		w.known = false
		return
	case ev.Type == kube.Synced:
		w.synced = true
	case ev.Type == kube.Deleted:
		w.object = nil
	case ev.Type.IsChange():
		w.object = ev.Object
	}
	w.known = w.synced
}

// holds reports whether the target is known to hold a bundle. A target that does not
// exist is not in the way: nobody can use it.
func (w *watched) holds(bundle []byte) bool {
	if !w.known || w.object == nil {
		return w.known
	}
	_, holds := w.object.with(bundle, w.mine, w.names)
	return holds
}

// publish puts a bundle in the target, unless it is there. It returns when to come back,
// or zero if the watch will tell.
func (w *watched) publish(ctx context.Context, bundle []byte) (again time.Duration, err error) {
	if !bytes.Equal(w.bundle, bundle) {
		w.bundle, w.held, w.pace = bundle, false, pace{}
	}
	switch {
	case w.holds(bundle):
		w.held = true
		return 0, nil
	case !w.known:
		return 0, nil
	case w.pace.left() > 0:
		return w.pace.left(), nil
	}
	w.pace.count()
	body, _ := w.object.with(bundle, w.mine, w.names)
	body.APIVersion, body.Kind = w.kind.GroupVersion().String(), w.kind.Kind
	body.Metadata.Name, body.Metadata.UID, body.Metadata.ResourceVersion = w.name, w.object.UID, w.object.ResourceVersion
	text, err := json.Marshal(body)
	if err != nil {
		return 0, fmt.Errorf("encode %s: %w", w.Target, err)
	}
	now, err := w.objects.Patch(ctx, w.name, types.StrategicMergePatchType, text)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return w.pace.left(), nil // the watch shows the present state soon
	case err != nil:
		return 0, fmt.Errorf("publish CA bundle: %w", err)
	}
	if w.held {
		w.log.Warn("somebody changed the CA bundle: it is restored")
	} else {
		w.log.Info("the CA bundle is published")
	}
	w.object, w.held = now, true
	return 0, nil
}

// pace slows down an action that others undo again and again.
type pace struct {
	last  time.Time
	delay time.Duration
}

const (
	fastest, slowest = time.Second, time.Minute
	calm             = 10 * time.Minute
)

// count notes an action.
func (p *pace) count() {
	if time.Since(p.last) > calm {
		p.delay = 0
	}
	p.last, p.delay = time.Now(), min(cmp.Or(2*p.delay, fastest), slowest)
}

// left returns how long the next action has to wait.
func (p *pace) left() time.Duration { return time.Until(p.last.Add(p.delay)) }
