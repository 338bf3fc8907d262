package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// refused returns the error of Run, which must be that of Validate too: a wrong program
// starts nothing.
func refused(t *testing.T, o Options, controllers ...Any) error {
	t.Helper()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err, valid := Run(ended, o, controllers...), Validate(o, controllers...)
	if fmt.Sprint(err) != fmt.Sprint(valid) {
		t.Errorf("Run returns %v, and Validate %v", err, valid)
	}
	return err
}

// nameless is a type that does not name its kind.
type nameless struct{ kube.Object }

// Whatever is missing or wrong in a controller is an error at once, with the reason.
func TestWrongControllers(t *testing.T) {
	onStage(t, func(s *stage) {
		var (
			noHandle   *kube.Resource[gizmo]
			noOwned    *kube.Reader[corev1.Secret]
			noHandler  http.HandlerFunc
			ready      = kube.For[gizmo](nil)
			keys       = func(context.Context, *gizmo) []kube.Key { return nil }
			references = func(*gizmo) []kube.Key { return nil }
		)
		elsewhere, err := kube.Config{Rest: &rest.Config{Host: "https://elsewhere.example"}}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		good := func(change func(c *Controller[gizmo])) Any {
			c := Controller[gizmo]{Name: "named", For: s.gizmos, Reconcile: nothing[gizmo]}
			change(&c)
			return c
		}
		watches := func(w ...Source) Any { return good(func(c *Controller[gizmo]) { c.Watches = w }) }
		for name, test := range map[string]struct {
			c    Any
			want string
		}{
			"no controller":      {nil, "configure controller 0: it is nil"},
			"no such controller": {(*Controller[gizmo])(nil), "configure controller 0: it is nil"},
			"empty":              {Controller[gizmo]{}, "For is missing"},
			"nil handle":         {good(func(c *Controller[gizmo]) { c.For = noHandle }), "For is missing"},
			"zero handle":        {good(func(c *Controller[gizmo]) { c.For = kube.Resource[gizmo]{} }), "handle"},
			"zero view":          {good(func(c *Controller[gizmo]) { c.For = kube.View[gizmo]{} }), "handle"},
			"pointer to a zero handle": {
				good(func(c *Controller[gizmo]) { c.For = new(kube.Reader[gizmo]) }), "handle",
			},
			"nil client":         {good(func(c *Controller[gizmo]) { c.For = ready }), "the client is nil"},
			"nil client, a name": {Controller[gizmo]{For: ready, Reconcile: nothing[gizmo]}, `"gizmo": use Gizmo: the client is nil`},
			"nil client, Cleanup": {
				good(func(c *Controller[gizmo]) { c.For, c.Cleanup = ready, nothing[gizmo] }), "the client is nil",
			},
			"no kind": {
				Controller[nameless]{
					Name: "named", For: kube.For[nameless](s.gizmos.Client()), Reconcile: nothing[nameless],
					Cleanup: nothing[nameless],
				}, "does not name its kind",
			},
			"no namespace":    {good(func(c *Controller[gizmo]) { c.For = s.gizmos.In("") }), "wrong scope"},
			"no reconcile":    {good(func(c *Controller[gizmo]) { c.Reconcile = nil }), "Reconcile is missing"},
			"Owns nil":        {good(func(c *Controller[gizmo]) { c.Owns = []kube.AnyHandle{nil} }), "Owned has no handle"},
			"Owns nil handle": {good(func(c *Controller[gizmo]) { c.Owns = []kube.AnyHandle{noOwned} }), "Owned has no handle"},
			"Owns zero":       {good(func(c *Controller[gizmo]) { c.Owns = []kube.AnyHandle{kube.Reader[corev1.Secret]{}} }), "handle"},
			"Owns elsewhere": {
				good(func(c *Controller[gizmo]) { c.Owns = []kube.AnyHandle{kube.For[corev1.Secret](elsewhere)} }),
				"the children Secret are in another cluster than Gizmo",
			},
			"Reads nil":      {good(func(c *Controller[gizmo]) { c.Reads = []kube.AnyHandle{s.gizmos, nil} }), "handle 1 of Reads is nil"},
			"Reads zero":     {good(func(c *Controller[gizmo]) { c.Reads = []kube.AnyHandle{ready} }), "the client is nil"},
			"zero source":    {watches(Source{}), "a source is the zero value"},
			"Owned nil":      {watches(Owned(noOwned)), "Owned has no handle"},
			"Mapped nil":     {watches(Mapped(nil, keys)), "Mapped has no handle"},
			"Mapped by nil":  {watches(Mapped[gizmo](s.gizmos, nil)), "Mapped has no function"},
			"Mapped zero":    {watches(Mapped(ready, keys)), "the client is nil"},
			"Referenced nil": {watches(Referenced(nil, references)), "Referenced has no handle"},
			"Referenced by nil": {
				watches(Referenced[gizmo](s.gizmos, nil)), "Referenced has no function",
			},
			"Referenced, no For": {
				good(func(c *Controller[gizmo]) { c.For, c.Watches = nil, []Source{Referenced(s.gizmos, references)} }),
				"For is missing",
			},
			"Channel nil":     {watches(Channel("a", nil)), `the source "a" has no channel`},
			"Channel unnamed": {watches(Channel("", make(chan kube.Key))), "a Channel has no name"},
			"Every nil":       {watches(Every("a", time.Hour, nil)), `the source "a" has no function`},
			"Every 0":         {watches(Every("a", 0, func(context.Context) []kube.Key { return nil })), `"a" has no period`},
			"Hook nil":        {watches(Hook("POST /a", nil)), `the hook "POST /a" has no function`},
			"Hook nowhere":    {watches(Hook("", nil)), "a Hook has no pattern"},
			"Hook taken": {
				watches(Hook("GET /healthz", func(*http.Request) ([]kube.Key, error) { return nil, nil })), "serve hook",
			},
		} {
			err := refused(t, Options{}, test.c)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "configure controller") &&
				name != "Hook taken" {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
			if test.c != nil && name != "no such controller" {
				test.c.Handles() // manifests are made of them
			}
		}
		for name, test := range map[string]struct {
			change func(o *Options)
			want   string
		}{
			"grace":            {func(o *Options) { o.Grace = -1 }, "a number is negative"},
			"body":             {func(o *Options) { o.MaxBody = -1 }, "a number is negative"},
			"lease":            {func(o *Options) { o.Lease = lease.Lease{Name: "a", Duration: 1} }, "under a second"},
			"margin":           {func(o *Options) { o.Lease = lease.Lease{Name: "a", Margin: time.Minute} }, "is lost at once"},
			"route":            {func(o *Options) { o.Routes = []Route{{Pattern: "/a"}} }, "the handler is missing"},
			"route nil":        {func(o *Options) { o.Routes = []Route{{Pattern: "/a", Handler: noHandler}} }, "the handler is missing"},
			"route taken":      {func(o *Options) { o.Routes = []Route{{Pattern: "GET /metrics", Handler: http.NotFoundHandler()}} }, "serve route"},
			"runnable":         {func(o *Options) { o.Runnables = []Runnable{{Name: "a"}} }, "Run is missing"},
			"check":            {func(o *Options) { o.Checks = []Check{{Name: "a"}} }, "Healthy and Ready are missing"},
			"check and lease":  {func(o *Options) { o.Checks, o.Lease.Name, o.Lease.Renew = []Check{{}}, "a", -1 }, "is negative"},
			"TLS and no route": {func(o *Options) { o.TLS, o.Routes = new(tls.Config), []Route{{}} }, "the pattern is missing"},
		} {
			var o Options
			test.change(&o)
			if err := refused(t, o, good(func(*Controller[gizmo]) {})); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
		}
		twice := good(func(*Controller[gizmo]) {})
		if err := refused(t, Options{}, twice, twice); err == nil || !strings.Contains(err.Error(), "the same name") {
			t.Errorf("two of one name: %v", err)
		}
		other := good(func(c *Controller[gizmo]) { c.Name, c.Cleanup, c.Finalizer = "other", nothing[gizmo], "a/b" })
		same := good(func(c *Controller[gizmo]) { c.FormerFinalizers = []string{"a/b"} })
		if err := refused(t, Options{}, same, other); err == nil || !strings.Contains(err.Error(), "the same finalizer") {
			t.Errorf("two of one finalizer: %v", err)
		}
		if err := refused(t, Options{Lease: lease.Lease{Name: "a"}}, good(func(c *Controller[gizmo]) { c.For = ready })); err == nil {
			t.Error("a broken handle is not refused before the lease is looked at")
		}
		if n := s.count(""); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// A handle may be given as a pointer.
func TestPointersToHandles(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("a", func(*gizmo) {})
		c := &Controller[gizmo]{For: &s.gizmos, Reconcile: nothing[gizmo], Cleanup: nothing[gizmo]}
		if h := c.Handles(); !h.Writes || !h.Finalizes {
			t.Errorf("a pointer to a Resource: %+v", h)
		}
		if err := errors.Join(refused(t, Options{}, c)); err != nil {
			t.Error(err)
		}
	})
}
