package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

// Registration says where the API server finds hooks.
type Registration struct {
	// Name is that of both configurations, and the end of the name of each hook.
	Name string
	// Namespace is that of the program. Hooks for kinds of Kubernetes leave it out, so that a program
	// that is away can start.
	Namespace string

	// Service is the name of the program's Service, and Port is its port, 443 by default.
	Service string
	Port    int32
	// URL takes the place of a Service, for a program outside of the cluster: "https://127.0.0.1:9443".
	URL string

	// CABundle has the authorities of the program's certificate. It is left out if it is empty: the
	// issuer of the certificate sets it, see certificate.ValidatingWebhooks.
	CABundle []byte

	// Kinds have plural and scope of kinds whose handle does not tell them, as a definition does.
	Kinds []kube.Kind

	// Development: the hooks have the failure policy Ignore and a timeout of at most 2 seconds. If the
	// program is killed, its configurations block nobody. See Options.Ignore.
	Development bool
}

// Configuration is a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration. Its counterparts are
// the types of k8s.io/api/admissionregistration/v1.
type Configuration struct {
	kube.Object
	Webhooks []ConfiguredHook `json:"webhooks"`
}

// ConfiguredHook is a hook of a [Configuration]. No field that the API server would set by default is left
// out, so that tools that compare see no difference.
type ConfiguredHook struct {
	Name                    string               `json:"name"`
	ClientConfig            ClientConfig         `json:"clientConfig"`
	Rules                   []Rule               `json:"rules"`
	FailurePolicy           FailurePolicy        `json:"failurePolicy"`
	MatchPolicy             string               `json:"matchPolicy"`
	NamespaceSelector       metav1.LabelSelector `json:"namespaceSelector"`
	ObjectSelector          metav1.LabelSelector `json:"objectSelector"`
	SideEffects             string               `json:"sideEffects"`
	TimeoutSeconds          int32                `json:"timeoutSeconds"`
	ReinvocationPolicy      string               `json:"reinvocationPolicy,omitempty"`
	AdmissionReviewVersions []string             `json:"admissionReviewVersions"`
	MatchConditions         []Condition          `json:"matchConditions,omitempty"`
}

// ClientConfig is where the API server finds a hook.
type ClientConfig struct {
	URL      string   `json:"url,omitempty"`
	Service  *Service `json:"service,omitempty"`
	CABundle []byte   `json:"caBundle,omitempty"`
}

// Service is a path of a Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	Port      int32  `json:"port"`
}

// Rule names the requests for which a hook is called.
type Rule struct {
	Operations  []string `json:"operations"`
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
	Scope       string   `json:"scope"`
}

// Condition is one of [Settings].When.
type Condition struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Kinds of configurations.
const (
	validatingKind = "ValidatingWebhookConfiguration"
	mutatingKind   = "MutatingWebhookConfiguration"
)

// Configurations returns the configurations of hooks: the validating one, the mutating one, or both. In
// controller-tools the markers +kubebuilder:webhook declare them.
func (r Registration) Configurations(hooks ...Hook) ([]*Configuration, error) {
	if err := Check(hooks...); err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return nil, nil
	}
	return hooks[0].configurations(r, hooks)
}

func (h *hook) configurations(r Registration, hooks []Hook) ([]*Configuration, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("render the webhooks: %w", err)
	}
	var all []*Configuration
	for _, kind := range []string{validatingKind, mutatingKind} {
		c := &Configuration{}
		c.APIVersion, c.Kind, c.Name = "admissionregistration.k8s.io/v1", kind, r.Name
		for _, each := range hooks {
			h := each.base()
			if h.verb == converts || (h.verb == validates) != (kind == validatingKind) {
				continue
			}
			configured, err := r.configure(h)
			if err != nil {
				return nil, fmt.Errorf("render the webhook to %s %s: %w", h.verb, h.object(), err)
			}
			c.Webhooks = append(c.Webhooks, configured)
		}
		if len(c.Webhooks) > 0 {
			all = append(all, c)
		}
	}
	return all, nil
}

func (r Registration) check() error {
	if why := validation.IsDNS1123Subdomain(r.Name); len(why) > 0 {
		return fmt.Errorf("the name %q: %s", r.Name, why[0])
	}
	if (r.Service == "") == (r.URL == "") {
		return errors.New("set either Service or URL")
	}
	if r.Service != "" && r.Namespace == "" {
		return errors.New("the namespace is missing")
	}
	if u, err := url.Parse(r.URL); r.URL != "" &&
		(err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("%q is not the URL of a server, as https://127.0.0.1:9443", r.URL)
	}
	if r.Port < 0 || r.Port > 65535 {
		return fmt.Errorf("%d is not a port", r.Port)
	}
	return nil
}

// configure renders one hook.
func (r Registration) configure(h *hook) (c ConfiguredHook, err error) {
	kind, err := r.complete(h.kind)
	if err != nil {
		return c, err
	}
	c = ConfiguredHook{
		Name:          r.hookName(h),
		FailurePolicy: h.policy(), MatchPolicy: "Equivalent", SideEffects: "None",
		TimeoutSeconds:          int32(h.timeout() / time.Second),
		AdmissionReviewVersions: []string{"v1"},
		Rules: []Rule{{
			Operations: h.operations(), APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version},
			Resources: []string{kind.Plural}, Scope: string(kind.Scope),
		}},
	}
	if h.subresource != "" {
		c.Rules[0].Resources[0] += "/" + h.subresource
	}
	if h.verb != validates {
		c.ReinvocationPolicy = "IfNeeded"
	}
	if h.settings.SideEffects {
		c.SideEffects = "NoneOnDryRun"
	}
	if r.Development {
		c.FailurePolicy, c.TimeoutSeconds = Ignore, min(c.TimeoutSeconds, int32(builtinTimeout/time.Second))
	}
	for _, name := range slices.Sorted(maps.Keys(h.settings.When)) {
		c.MatchConditions = append(c.MatchConditions, Condition{name, h.settings.When[name]})
	}
	c.ClientConfig = ClientConfig{CABundle: r.CABundle}
	if r.URL != "" {
		c.ClientConfig.URL = strings.TrimSuffix(r.URL, "/") + h.Path()
	} else {
		c.ClientConfig.Service = &Service{r.Namespace, r.Service, h.Path(), cmp.Or(r.Port, 443)}
	}
	c.ObjectSelector, c.NamespaceSelector, err = r.selectors(h)
	return c, err
}

// complete returns a kind with its plural and its scope.
func (r Registration) complete(kind kube.Kind) (kube.Kind, error) {
	for _, known := range r.Kinds {
		if known.GVK.GroupKind() == kind.GVK.GroupKind() {
			kind.Plural, kind.Scope = cmp.Or(kind.Plural, known.Plural), cmp.Or(kind.Scope, known.Scope)
		}
	}
	if kind.Plural == "" || kind.Scope == "" {
		return kind, fmt.Errorf("the plural or the scope of %s is not known: declare them in its kube.Kind", kind.Kind)
	}
	return kind, nil
}

// hookName returns the name of a hook. It is unique in its configuration, and has three parts or more.
func (r Registration) hookName(h *hook) string {
	object := strings.ToLower(h.kind.Kind)
	if h.subresource != "" {
		object += "-" + h.subresource
	}
	return strings.Join([]string{string(h.verb) + "-" + h.kind.Version, object, groupOrCore(h.kind.Group), r.Name}, ".")
}

// nameLabel is the label that every namespace has.
const nameLabel = "kubernetes.io/metadata.name"

// selectors returns the selectors of objects and of namespaces. A hook for a kind of Kubernetes leaves out
// the namespaces without which neither the cluster nor the program starts.
func (r Registration) selectors(h *hook) (objects, namespaces metav1.LabelSelector, err error) {
	parse := func(text string) metav1.LabelSelector {
		selector, e := metav1.ParseToLabelSelector(text)
		if e != nil {
			err = fmt.Errorf("parse label selector %q: %w", text, e)
			return metav1.LabelSelector{}
		}
		return *selector
	}
	objects, namespaces = parse(h.settings.Objects), parse(h.settings.Namespaces)
	also := func(operator metav1.LabelSelectorOperator, values []string) {
		namespaces.MatchExpressions = append(namespaces.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: nameLabel, Operator: operator, Values: values})
	}
	if len(h.namespaces) > 0 {
		also(metav1.LabelSelectorOpIn, h.namespaces)
	}
	if !h.isOwn() {
		left := []string{"kube-node-lease", "kube-public", "kube-system"}
		if r.Namespace != "" {
			left = append(left, r.Namespace)
		}
		slices.Sort(left)
		also(metav1.LabelSelectorOpNotIn, slices.Compact(left))
	}
	return objects, namespaces, err
}
