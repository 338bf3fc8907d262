package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
)

// Operator is what is rendered and, by [Main], run. Name and Image are required;
// the zero value of the rest leaves things out or has defaults.
type Operator struct {
	// Name names the objects, in the namespace and in the cluster.
	Name string
	// Namespace is where it runs. Default: its name. A chart installs into
	// the release's instead, wherever this one is named.
	Namespace string
	// Image is run as user 65532 without any privilege or writable file.
	Image string
	Args  []string
	Env   []corev1.EnvVar
	// Replicas is how many run. Default: 1. Without a Lease a new one starts
	// only when the old one has ended.
	Replicas int32
	// Resources of its container. Default: requests of 10m CPU and 32Mi memory,
	// a limit of 128Mi memory. From a limit of memory follows GOMEMLIMIT.
	Resources corev1.ResourceRequirements
	// Port, if it is set, is where it answers /healthz, /readyz and /metrics,
	// and gets probes and a Service. Args must have it listen there.
	Port int32

	// Definitions are installed with it.
	Definitions []*crd.Definition
	// Lease, if it is set, is the name of the Lease that it holds in its
	// namespace, and adds the rights for it.
	Lease string
	// Needs are the rights that it gets, besides those that follow from Lease and
	// Options.
	Needs []Rules

	// Controllers are what Main runs, with Options: Options.Events adds the right
	// to write events, everywhere unless Needs says where, and Options.Authorize
	// the rights of [Authorizes]. Nothing else of them is rendered.
	Controllers []controller.Any
	Options     controller.Options

	// Version and Description are the chart's. Default: 0.1.0, and none.
	Version, Description string
}

// withDefaults checks an operator and fills in what was left out.
func (o Operator) withDefaults() (Operator, error) {
	o.Namespace = cmp.Or(o.Namespace, o.Name)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Version = cmp.Or(o.Version, "0.1.0")
	if o.Resources.Limits == nil && o.Resources.Requests == nil && o.Resources.Claims == nil {
		o.Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}
	}
	var wrong []error
	for what, name := range map[string]string{"name": o.Name, "namespace": o.Namespace} {
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
			wrong = append(wrong, fmt.Errorf("%s %q: %s", what, name, strings.Join(faults, ", ")))
		}
	}
	switch {
	case o.Image == "":
		wrong = append(wrong, errors.New("the image is missing"))
	case o.Replicas < 0:
		wrong = append(wrong, fmt.Errorf("%d replicas", o.Replicas))
	case o.Port < 0 || o.Port > 65535:
		wrong = append(wrong, fmt.Errorf("%d is no port", o.Port))
	case o.Replicas > 1 && o.Lease == "":
		wrong = append(wrong, fmt.Errorf("%d replicas without a lease would all act", o.Replicas))
	}
	for _, d := range o.Definitions {
		if d == nil {
			wrong = append(wrong, errors.New("a definition is nil"))
		}
	}
	return o, errors.Join(wrong...)
}

// needs returns all rights, those that follow from other fields with the others.
func (o Operator) needs() []Rules {
	all := slices.Clone(o.Needs)
	if o.Lease != "" {
		all = append(all, elects(o.Lease, o.Namespace))
	}
	said := slices.ContainsFunc(slices.Concat(o.Needs...), func(r Rule) bool { return r.Kind.GVK == eventKind.GVK })
	if o.Options.Events != nil && !said {
		all = append(all, Events())
	}
	if o.Options.Authorize {
		all = append(all, Authorizes())
	}
	return all
}

func (o Operator) wrap(err error) error {
	return fmt.Errorf("render manifests of %q: %w", o.Name, err)
}
