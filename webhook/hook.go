package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/groups"
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/kube"
)

// A Hook is a function for the objects of a kind, or for a subresource. Make it with [Validate],
// [Default] or [Mutate]. A mistake in making it is the error of [Check] and of everything that takes it.
// Its counterparts are admission.Webhook of controller-runtime and its builder.
type Hook interface {
	// Path is the path of the hook's URL: /webhook/, the verb of the hook, group, version
	// and kind, and the subresource.
	Path() string
	// Kind is the kind of the objects, as far as it is known without a request.
	Kind() kube.Kind
	// Subresource is empty for a hook of the objects themselves.
	Subresource() string

	// All that serves and renders is reached by these methods alone: the linker leaves it out of a
	// program that makes no hook. They are about all hooks of a program.
	base() *hook
	check(all []Hook) error
	handler(Options, []Hook) (http.Handler, error)
	serve(*controller.Options, *certificate.Issuer, []Hook) error
	configurations(Registration, []Hook) ([]*Configuration, error)
	serving([]Hook) hooks.Serving
}

// Target names the objects of a hook. It is a [kube.Reader], [kube.View] or [kube.Resource], or the result of [Sub].
type Target[T any] interface {
	Kind() kube.Kind
	Namespaces() []string
	Err() error
	ReadOnly() kube.Reader[T]
}

// Checks are the functions of [Validate]. A missing function allows everything, and the API server does
// not ask. An error refuses the request; see [Invalid]. The counterpart is admission.Validator of
// controller-runtime.
type Checks[T any] struct {
	Create func(ctx context.Context, o *T) error
	// Update is called if anything but metadata and status changed. For a subresource, it is called if
	// anything but metadata changed.
	Update func(ctx context.Context, before, after *T) error
	// Delete gets the object that is to be deleted.
	Delete func(ctx context.Context, o *T) error
	// Connect gets the options of a connection. It is for subresources such as pods/exec, whose T is
	// corev1.PodExecOptions.
	Connect func(ctx context.Context, o *T) error
}

// Validate makes a hook that refuses objects. A handle that is narrowed to namespaces makes a rule for
// these namespaces. There may be one such hook for a kind or subresource.
//
// The hook of a kind is not called for changes by way of a subresource, such as scale.
func Validate[T any](of Target[T], checks Checks[T], settings ...Settings) Hook {
	h := newHook[T](validates, of, settings)
	one := func(check func(context.Context, *T) error) func(context.Context, any) error {
		if check == nil {
			return nil
		}
		return func(ctx context.Context, o any) error { return check(ctx, o.(*T)) }
	}
	h.create, h.delete, h.connect = one(checks.Create), one(checks.Delete), one(checks.Connect)
	if checks.Update != nil {
		h.update = func(ctx context.Context, before, after any) error {
			return checks.Update(ctx, before.(*T), after.(*T))
		}
	}
	return h.checked()
}

// Default makes a hook that completes objects of an own kind when they are created or updated, but not
// while they are being deleted. The group of the kind is not one of Kubernetes'. Its counterpart is
// admission.Defaulter of controller-runtime.
func Default[T any](of Target[T], complete func(ctx context.Context, o *T) error, settings ...Settings) Hook {
	return change(defaults, of, complete, settings)
}

// Mutate makes a hook that changes objects when they are created or updated, but not while they are
// being deleted. A view of a few fields is enough: all other fields stay. The function may be called
// twice for one request and has to return the same the second time.
func Mutate[T any](of Target[T], mutate func(ctx context.Context, o *T) error, settings ...Settings) Hook {
	return change(mutates, of, mutate, settings)
}

func change[T any](v verb, of Target[T], function func(context.Context, *T) error, settings []Settings) Hook {
	h := newHook[T](v, of, settings)
	if function != nil {
		h.change = func(ctx context.Context, o any) error { return function(ctx, o.(*T)) }
	}
	return h.checked()
}

// verb is the work of a hook.
type verb string

const (
	validates verb = "validate"
	defaults  verb = "default"
	mutates   verb = "mutate"
)

// hook is a [Hook] of any type.
type hook struct {
	verb        verb
	kind        kube.Kind
	namespaces  []string // of the handle; empty: all
	subresource string
	settings    Settings
	err         error

	create, delete, connect func(ctx context.Context, o any) error
	update                  func(ctx context.Context, before, after any) error
	change                  func(ctx context.Context, o any) error

	definition *crd.Definition // of a hook that converts

	newObject func() any
	read      json.Options
}

func newHook[T any](v verb, of Target[T], settings []Settings) *hook {
	h := &hook{verb: v, newObject: func() any { return new(T) }}
	if isNil(of) {
		h.err = errors.New("the handle is nil")
		return h
	}
	h.kind, h.namespaces, h.err = of.Kind(), of.Namespaces(), of.Err()
	if s, ok := of.(interface{ part() string }); ok {
		h.subresource = s.part()
	}
	h.set(reflect.TypeFor[T](), settings)
	return h
}

// isNil reports whether a target is nil, or a nil pointer to one.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// set takes the settings, and learns how to read the Go type.
func (h *hook) set(t reflect.Type, settings []Settings) {
	h.read = jsonfields.ReadOptions(t)
	if h.err == nil && len(settings) > 1 {
		h.err = fmt.Errorf("%d settings were given, and a hook has one", len(settings))
	}
	if len(settings) > 0 {
		h.settings = settings[0]
	}
	if _, loose := h.newObject().(runtime.Unstructured); h.err == nil && !loose {
		if err := jsonfields.Check(t); err != nil {
			h.err = fmt.Errorf("%s cannot be read and written back: %w", t, err)
		}
	}
}

// checked looks for a mistake in the hook, and keeps it.
func (h *hook) checked() *hook {
	if h.err == nil {
		h.err = h.mistake()
	}
	if h.err != nil {
		h.err = fmt.Errorf("make webhook to %s %s: %w", h.verb, h.object(), h.err)
	}
	return h
}

func (h *hook) mistake() error {
	switch {
	case len(h.operations()) == 0:
		return errors.New("it has no function")
	case h.verb == defaults && !groups.IsCustom(h.kind.Group):
		return errors.New("the kind is not the program's own: use Mutate")
	case h.verb != validates && slices.Equal(h.operations(), []string{opConnect}):
		return errors.New("the options of a connection cannot be changed: use Validate")
	case h.connect != nil && h.subresource == "":
		return errors.New("a subresource is missing, which Connect needs")
	case h.subresource != "" && !validSubresource(h.subresource):
		return fmt.Errorf("%q cannot be a subresource", h.subresource)
	case refused(h.kind.GVK):
		return errors.New("if the hook is away, the cluster cannot recover: write a policy instead")
	}
	return h.settings.check(h.isOwn(), h.kind)
}

// isOwn reports whether nothing else in the cluster depends on the kind.
func (h *hook) isOwn() bool { return groups.IsCustom(h.kind.Group) }

// object names the objects of the hook.
func (h *hook) object() string {
	name := h.kind.Kind
	if name == "" {
		name = "an unknown kind"
	}
	if h.subresource != "" {
		name += "/" + h.subresource
	}
	return name
}

// Path implements [Hook].
func (h *hook) Path() string {
	if h.definition != nil {
		return hooks.ConversionPath(h.definition)
	}
	path := prefix + strings.Join([]string{
		string(h.verb), groupOrCore(h.kind.Group), h.kind.Version, strings.ToLower(h.kind.Kind),
	}, "/")
	if h.subresource != "" {
		path += "/" + h.subresource
	}
	return path
}

// Kind implements [Hook].
func (h *hook) Kind() kube.Kind { return h.kind }

// Subresource implements [Hook].
func (h *hook) Subresource() string { return h.subresource }

// prefix is how the path of every hook begins.
const prefix = "/webhook/"

func groupOrCore(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

func (h *hook) base() *hook { return h }

// The operations of a request, as the API server names them.
const (
	opCreate  = "CREATE"
	opUpdate  = "UPDATE"
	opDelete  = "DELETE"
	opConnect = "CONNECT"
)

// operations returns the operations that the hook has functions for.
func (h *hook) operations() (all []string) {
	for _, o := range []struct {
		name string
		has  bool
	}{
		{opCreate, h.create != nil},
		{opUpdate, h.update != nil},
		{opDelete, h.delete != nil},
		{opConnect, h.connect != nil},
	} {
		if o.has {
			all = append(all, o.name)
		}
	}
	if h.change == nil {
		return all
	}
	switch h.subresource {
	case "":
		return []string{opCreate, opUpdate}
	case "binding", "eviction", "token":
		return []string{opCreate}
	case "attach", "exec", "portforward", "proxy":
		return []string{opConnect}
	}
	return []string{opUpdate}
}

// Check returns the mistakes in hooks: wrong settings, a handle with an error, two hooks of one path.
func Check(hooks ...Hook) error {
	if slices.Contains(hooks, nil) {
		return errors.New("a webhook is nil")
	}
	if len(hooks) == 0 {
		return nil
	}
	return hooks[0].check(hooks)
}

func (*hook) check(hooks []Hook) error {
	var all []error
	seen := make(map[string]bool)
	for _, h := range hooks {
		if err := h.base().err; err != nil {
			all = append(all, err)
			continue
		}
		if seen[h.Path()] {
			all = append(all, fmt.Errorf("two webhooks %s %s: make one function of both", h.base().verb, h.base().object()))
		}
		seen[h.Path()] = true
	}
	return errors.Join(all...)
}
