package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// Operator is a program with controllers. Name and Image are required. The zero value of
// another field leaves something out or has a default. Its counterpart is a manager.Manager
// of controller-runtime, with the markers and the directory config of a kubebuilder project.
type Operator struct {
	// Name is the name of the Deployment, of its namespace, and of the other objects that
	// the manifests have. A program of package program has it as its field manager too.
	Name string
	// Image runs as user 65532, without privileges and without writable files.
	Image string
	// Controllers are run with the Options. What [controller.Validate] says against the two
	// is an error of the manifests. These rights follow from Controllers:
	//
	//   - to list and watch the objects of For, Owns, Watches and Reads, in the namespaces
	//     of the handles;
	//   - to patch the objects of For, with a Cleanup or FormerFinalizers;
	//   - to apply the status of For, if Definitions has a status of the kind, and For is
	//     not read-only;
	//   - the right that [kube.SetController] needs, with Owns. Clusters with the
	//     admission plugin OwnerReferencesPermissionEnforcement require it.
	Controllers []controller.Any
	// Definitions are installed with the operator.
	Definitions []*crd.Definition
	// Webhooks are the functions that the API server calls. Every replica answers, with or
	// without the lease. With webhooks the port speaks HTTPS. These follow from them:
	//
	//   - a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, which lack the
	//     authority of the certificate until the program adds it, and rights for no others;
	//   - the certificate and its authority, in a Secret that the program keeps, unless
	//     TLSSecret of Install or Options has a certificate;
	//   - two replicas, which an update and the drain of a node replace one at a time;
	//   - a NetworkPolicy that keeps the ports open.
	Webhooks []webhook.Hook
	// Options are the options with which the controllers run. The manifests follow them:
	//
	//   - Lease: the rights for the Lease of that name, in the operator's namespace
	//     unless Options names another;
	//   - Address: the port and a Service;
	//   - ProbeAddress: the port of the probes, which are at the other port without it;
	//   - TLS and CertDir, and TLSSecret of Install: the scheme of the port, HTTPS;
	//   - Events: the right to write events, in all namespaces unless Needs names some;
	//   - Authorize, also of Routes: the rights to create TokenReviews and
	//     SubjectAccessReviews.
	Options controller.Options
	// Needs are the rights that follow neither from Controllers nor from Options. They
	// are the rights for the requests of the controllers' functions and of Runnables, except
	// for cached reads of the kinds that a controller watches or reads.
	Needs []Rules
	// Install has the contents of the manifests that do not follow from other fields.
	Install Install
}

// Install has the settings of an operator that only manifests and charts contain.
type Install struct {
	// Namespace is the namespace in which the operator runs. Default: its name. A chart
	// installs into the release's namespace instead, in every place that has this one.
	Namespace string
	Args      []string
	Env       []corev1.EnvVar
	// Replicas is the number of pods. Default: 1, and 2 with a lease and webhooks. Without a
	// lease a new pod starts only when the old one has ended.
	Replicas int32
	// Resources are the container's. Default: requests of 10m CPU and 32Mi memory, a
	// limit of 128Mi memory. GOMEMLIMIT is set from the memory limit.
	Resources corev1.ResourceRequirements
	// TLSSecret, if it is set, names a Secret of type kubernetes.io/tls in the namespace,
	// such as one made by cert-manager. It is mounted at the CertDir of the Options, by
	// default /etc/tls. A program of package program reads it there.
	TLSSecret string
	// Volumes are mounted where Mounts say. If one has a claim that is not among Objects
	// with the access mode ReadWriteMany, an update ends the old pod before it makes the
	// new one.
	Volumes []corev1.Volume
	Mounts  []corev1.VolumeMount
	// Objects, if it is set, returns further objects of the operator, such as a
	// PersistentVolumeClaim. Their apiVersion and kind must be set, and those that live in
	// a namespace should be in that of Install. The operator that it gets has all its
	// defaults.
	Objects func(Operator) ([]any, error)
	// Version and Description are the chart's. Defaults: 0.1.0, and no description.
	Version, Description string
}

// port returns the port at which the operator listens, or 0 if it has no address.
func (o Operator) port() (int32, error) { return portOf(o.Options.Address) }

// probePort returns the port of the operator's probes alone, or 0 if it has none.
func (o Operator) probePort() (int32, error) {
	port, err := portOf(o.Options.ProbeAddress)
	if other, _ := o.port(); err == nil && port != 0 && port == other {
		return 0, fmt.Errorf("port %d: the address of probes needs a port of its own, or must be empty", port)
	}
	return port, err
}

// portOf returns the port of an address, or 0 if there is no address.
func portOf(address string) (int32, error) {
	if address == "" {
		return 0, nil
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("address: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("address %q: %q is not a valid port for a Service", address, text)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return 0, fmt.Errorf("address %q: probes cannot reach it in a pod: remove the host", address)
	}
	return int32(port), nil
}

// scheme returns the scheme of the port.
func (o Operator) scheme() corev1.URIScheme {
	if o.called() || o.certified() {
		return corev1.URISchemeHTTPS
	}
	return corev1.URISchemeHTTP
}

// certified reports whether somebody else gives the port a certificate.
func (o Operator) certified() bool {
	return o.Options.TLS != nil || o.Options.CertDir != "" || o.Install.TLSSecret != ""
}

// withDefaults checks a bundle and sets the defaults of empty fields. An operator that would
// not run has no manifests.
func (o Operator) withDefaults() (Operator, error) {
	o.Install.Namespace = cmp.Or(o.Install.Namespace, o.Name)
	if o.called() && o.Options.Lease.Name != "" {
		o.Install.Replicas = cmp.Or(o.Install.Replicas, 2)
	}
	o.Install.Replicas = cmp.Or(o.Install.Replicas, 1)
	o.Install.Version = cmp.Or(o.Install.Version, "0.1.0")
	if o.Install.Resources.Limits == nil && o.Install.Resources.Requests == nil && o.Install.Resources.Claims == nil {
		o.Install.Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}
	}
	var wrong []error
	for what, name := range map[string]string{"name": o.Name, "namespace": o.Install.Namespace} {
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
			wrong = append(wrong, fmt.Errorf("%s %q: %s", what, name, strings.Join(faults, ", ")))
		}
	}
	switch {
	case o.Image == "":
		wrong = append(wrong, errors.New("the image is missing"))
	case strings.ContainsAny(o.Image, " \t\r\n"):
		wrong = append(wrong, fmt.Errorf("image %q: it must not have spaces", o.Image))
	case o.Install.Replicas < 0:
		wrong = append(wrong, fmt.Errorf("%d replicas", o.Install.Replicas))
	case o.Install.Replicas > 1 && o.Options.Lease.Name == "":
		wrong = append(wrong, fmt.Errorf("%d replicas without a lease would all reconcile", o.Install.Replicas))
	}
	for _, port := range []func() (int32, error){o.port, o.probePort} {
		if _, err := port(); err != nil {
			wrong = append(wrong, err)
		}
	}
	for _, d := range o.Definitions {
		if d == nil {
			wrong = append(wrong, errors.New("a definition is nil"))
		} else if err := d.Err(); err != nil {
			wrong = append(wrong, err)
		}
	}
	if s, err := webhook.Serving(o.Webhooks...); err != nil {
		wrong = append(wrong, err)
	} else if err := s.Check(o.Definitions); err != nil {
		wrong = append(wrong, err)
	}
	return o, errors.Join(append(wrong, controller.Validate(o.Options, o.Controllers...))...)
}

// needs returns all rights: the declared ones, and those that follow from Options and Webhooks.
func (o Operator) needs() []Rules {
	all := o.declared()
	if issuer, err := o.serving().Issuer(o.place()); err == nil && issuer != nil && !o.certified() {
		issuer.Namespace = o.Install.Namespace
		all = append(all, Issues(issuer)) // parts returns the error
	}
	if l := o.Options.Lease; l.Name != "" {
		all = append(all, elects(l.Name, cmp.Or(l.Namespace, o.Install.Namespace)))
	}
	said := slices.ContainsFunc(slices.Concat(o.Needs...), func(r rule) bool { return r.kind.GVK == eventKind.GVK })
	if o.Options.Events != nil && !said {
		all = append(all, Events())
	}
	asks := func(r controller.Route) bool { return r.Authorize }
	if o.Options.Authorize || slices.ContainsFunc(o.Options.Routes, asks) {
		all = append(all, authorizes())
	}
	return all
}

// declared returns the rights of Needs, and those that follow from Controllers.
func (o Operator) declared() []Rules {
	all := slices.Clone(o.Needs)
	for i, rules := range all {
		all[i] = slices.Clone(rules)
		for j := range rules {
			if rules[j].own {
				all[i][j].namespaces = []string{o.Install.Namespace}
			}
		}
	}
	for _, c := range o.Controllers {
		all = append(all, o.controls(c.Handles()))
	}
	return all
}

// controls returns the rights that a controller needs by itself, and the right to apply
// the status of the operator's own kind.
func (o Operator) controls(c controller.Handles) Rules {
	rules := slices.Concat(Watches(c.Owns...), Watches(c.Reads...))
	if c.For == nil {
		return rules // withDefaults returns the error
	}
	rules = append(rules, Watches(c.For)...)
	if c.Finalizes {
		rules = append(rules, Patches(c.For)...)
	}
	if c.Writes && o.hasStatus(c.For.Kind()) {
		rules = append(rules, AppliesStatus(c.For)...)
	}
	if len(c.Owns) > 0 {
		rules = append(rules, blocks(c.For)...)
	}
	return rules
}

// hasStatus reports whether a definition of the operator has a kind with a status.
func (o Operator) hasStatus(kind kube.Kind) bool {
	has := func(v crd.Version) bool {
		return v.Name == kind.Version && v.Subresources != nil && v.Subresources.Status != nil
	}
	return slices.ContainsFunc(o.Definitions, func(d *crd.Definition) bool {
		return d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind && slices.ContainsFunc(d.Spec.Versions, has)
	})
}

func (o Operator) wrap(err error) error {
	return fmt.Errorf("render manifests of %q: %w", o.Name, err)
}
