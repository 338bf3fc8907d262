package crd_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type Old struct {
	Kept    string `json:"kept,omitempty"`
	Removed string `json:"removed,omitempty"`
	Size    int32  `json:"size,omitempty" crd:"max=9"`
}

type Narrow struct {
	Kept string `json:"kept"`
	Size int32  `json:"size,omitempty" crd:"max=5"`
}

type Wide struct {
	Old   `json:",inline"`
	Size  int64  `json:"size,omitempty" crd:"max=99"`
	Added string `json:"added,omitempty" crd:"default=new"`
}

// caseOf returns a definition of kind Case with a spec.
func caseOf[S any](t *testing.T, s *server, o crd.Options) *crd.Definition {
	t.Helper()
	return of[Case[S]](t, s.group(), o)
}

func cases[S any](s *server) kube.Resource[Case[S]] {
	return kube.For[Case[S]](s.client,
		kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v1", Kind: "Case"}}).In(s.namespace)
}

// A definition grows. If stored objects may not fit a definition, Install refuses it with
// each reason and changes nothing.
func TestUpgrade(t *testing.T) {
	s := start(t)
	s.install(t, caseOf[Old](t, s, crd.Options{}))
	o := &Case[Old]{}
	o.Name, o.Spec = "a", Old{Removed: "x", Size: 9}
	if _, err := cases[Old](s).Create(soon(t), o); err != nil {
		t.Fatal(err)
	}
	definitions := kube.For[crd.Definition](s.client)
	name := "cases." + s.group()
	before, err := definitions.Get(soon(t), name)
	if err != nil {
		t.Fatal(err)
	}

	err = crd.Install(soon(t), s.client, caseOf[Narrow](t, s, crd.Options{}))
	var refused *crd.IncompatibleError
	if !errors.As(err, &refused) {
		t.Fatalf("a narrower definition: %v", err)
	}
	for _, want := range []string{
		"v1: .spec.kept: the field is required now and has no default",
		"v1: .spec.removed: the field is removed",
		"v1: .spec.size: the maximum falls from 9 to 5",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	if len(refused.Reasons) != 3 {
		t.Errorf("%d reasons: %v", len(refused.Reasons), err)
	}
	after, err := definitions.Get(soon(t), name)
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was changed: %v", err)
	}

	for range 2 { // the second time changes nothing
		if err := crd.Install(soon(t), s.client, caseOf[Wide](t, s, crd.Options{})); err != nil {
			t.Fatalf("a wider definition: %v", err)
		}
	}
	kubetest.Eventually(t, "the default is served", func() error {
		w, err := cases[Wide](s).Get(soon(t), "a")
		if err == nil && (w.Spec.Added != "new" || w.Spec.Removed != "x" || w.Spec.Size != 9) {
			err = fmt.Errorf("%+v", w.Spec)
		}
		return err
	})

	if err := crd.Replace(soon(t), s.client, caseOf[Narrow](t, s, crd.Options{})); err != nil {
		t.Fatalf("forced: %v", err)
	}
	kubetest.Eventually(t, "the forced definition is used", func() error {
		_, err := cases[Wide](s).Modify(soon(t), "a", func(c *Case[Wide]) error { c.Spec.Size = 6; return nil })
		if err == nil {
			return errors.New("it is not there yet")
		}
		if !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		return nil
	})
}

// A program that is rolled back leaves the definition of a later release unchanged, if
// that definition serves it.
func TestRollback(t *testing.T) {
	s := start(t)
	definitions := kube.For[crd.Definition](s.client)
	old, wide := caseOf[Old](t, s, crd.Options{}), caseOf[Wide](t, s, crd.Options{})
	s.install(t, old)
	if err := crd.Install(soon(t), s.client, wide); err != nil {
		t.Fatal(err)
	}
	same := func(what string, install func() error) {
		t.Helper()
		before, err := definitions.Get(soon(t), old.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := install(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if after, err := definitions.Get(soon(t), old.Name); err != nil || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: it was changed: %v", what, err)
		}
	}
	same("rolled back", func() error { return crd.Install(soon(t), s.client, old) })
	same("and forth", func() error { return crd.Install(soon(t), s.client, wide) })
	if old.Annotations != nil {
		t.Errorf("the caller's definition has got %v", old.Annotations)
	}

	// Install cannot know that a definition is later if it was installed in another way.
	annotated := func(value string) {
		t.Helper()
		patch := `{"metadata":{"annotations":{"crd.pintle.dev/history":` + value + `}}}`
		if _, err := definitions.Patch(soon(t), old.Name, types.MergePatchType, []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	live, err := definitions.Get(soon(t), old.Name)
	if err != nil {
		t.Fatal(err)
	}
	history := live.Annotations["crd.pintle.dev/history"]
	annotated("null")
	same("unknown", func() error {
		err := crd.Install(soon(t), s.client, old)
		if refused := (*crd.IncompatibleError)(nil); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), "the installed definition serves this program too") ||
			!strings.Contains(err.Error(), "run without installing") {
			t.Errorf("over one that is not known: %v", err)
		}
		return nil
	})

	// A program must not run with a later definition that does not serve it.
	if err := crd.Replace(soon(t), s.client, caseOf[Narrow](t, s, crd.Options{})); err != nil {
		t.Fatal(err)
	}
	annotated(fmt.Sprintf("%q", history+",0123456789abcdef"))
	if err := crd.Install(soon(t), s.client, old); err != nil {
		t.Errorf("over a narrower one: %v", err)
	}
	live, err = definitions.Get(soon(t), old.Name)
	if err != nil {
		t.Fatal(err)
	}
	if spec := live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; spec.Properties["removed"] == nil {
		t.Error("the older definition was not installed")
	}
}

// Versions are added and removed.
func TestVersions(t *testing.T) {
	s := start(t)
	version := func(name string, o crd.Options) *crd.Definition {
		o.Kind = kube.Kind{GVK: kube.GVK{Group: s.group(), Version: name, Kind: "Case"}}
		d := crd.Of[Case[Old]](o)
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	join := func(d *crd.Definition, others ...*crd.Definition) *crd.Definition {
		d = crd.Join(d, others...)
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	v1, v2 := version("v1", crd.Options{}), version("v2", crd.Options{})
	s.install(t, v1)
	o := &Case[Old]{}
	o.Name = "a"
	if _, err := cases[Old](s).Create(soon(t), o); err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(soon(t), s.client, join(v2, version("v1", crd.Options{Deprecated: "use v2"}))); err != nil {
		t.Fatal(err)
	}
	second := kube.For[Case[Old]](s.client,
		kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v2", Kind: "Case"}}).In(s.namespace)
	if _, err := second.Get(soon(t), "a"); err != nil {
		t.Fatal(err)
	}
	err := crd.Install(soon(t), s.client, v2)
	if err == nil || !strings.Contains(err.Error(), "v1: the version is removed, and objects may be stored in it:") {
		t.Errorf("removed: %v", err)
	}
	// This is a storage migration: objects are written again, then storedVersions
	// changes.
	if _, err := second.Modify(soon(t), "a", func(c *Case[Old]) error { c.Spec.Kept = "v2"; return nil }); err != nil {
		t.Fatal(err)
	}
	status := kube.Sub[crd.Definition](kube.For[crd.Definition](s.client), "status")
	if _, err := status.Patch(soon(t), v1.Name, types.MergePatchType,
		[]byte(`{"status":{"storedVersions":["v2"]}}`)); err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(soon(t), s.client, v2); err != nil {
		t.Errorf("removed after a migration: %v", err)
	}
}

// A name of another definition is an error at once. That also holds if a definition gives
// up taken names for other taken names. It is no error once the names are free.
func TestNamesTaken(t *testing.T) {
	s := start(t)
	first := of[Echo](t, s.group(), crd.Options{ShortNames: []string{"x", "y", "w"}})
	s.install(t, first)
	taken := func(short string) error {
		d := caseOf[Old](t, s, crd.Options{ShortNames: []string{short}})
		s.remove(t, d)
		begin := time.Now()
		err := crd.Install(soon(t), s.client, d)
		t.Logf("%s: %v (%v)", short, err, time.Since(begin).Round(time.Millisecond))
		return err
	}
	for _, short := range []string{"x", "y", "x"} {
		if err := taken(short); err == nil || !strings.Contains(err.Error(), "names are in use") ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q is already in use", short)) {
			t.Errorf("short name %s: %v", short, err)
		}
	}
	if err := taken("z"); err != nil {
		t.Errorf("free: %v", err)
	}
	if err := taken("y"); err != nil {
		t.Errorf("an older one beside an established one: %v", err)
	}
	if err := taken("w"); err == nil || !strings.Contains(err.Error(), "names are in use") {
		t.Errorf("taken after it was established: %v", err)
	}
	if err := taken("z"); err != nil {
		t.Errorf("back to the accepted definition: %v", err)
	}
}

// The server never establishes a definition that had a taken name from the first moment and then gives
// it up: Install says what to do, and that helps.
func TestTakenNameIsGivenUp(t *testing.T) {
	s := start(t)
	s.install(t, of[Echo](t, s.group(), crd.Options{ShortNames: []string{"u"}}))
	d, without := caseOf[Old](t, s, crd.Options{ShortNames: []string{"u"}}), caseOf[Old](t, s, crd.Options{})
	s.remove(t, d)
	if err := crd.Install(soon(t), s.client, d); err == nil || !strings.Contains(err.Error(), "names are in use") {
		t.Errorf("a taken name: %v", err)
	}
	const remedy = "delete it, it has no objects yet, and install it again"
	if err := crd.Install(soon(t), s.client, without); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("given up: %v", err)
	}
	definitions := kube.For[crd.Definition](s.client)
	if err := definitions.Delete(soon(t), d.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(soon(t), s.client, without); err != nil {
		t.Errorf("after the deletion: %v", err)
	}
}

// Install returns the reason if the server refuses a definition. It waits for a
// definition that is being deleted.
func TestInstallTroubles(t *testing.T) {
	s := start(t)
	bad := caseOf[struct {
		A string `json:"a" crd:"rule=self.size() > 'x'"`
	}](t, s, crd.Options{})
	s.remove(t, bad)
	if err := crd.Install(soon(t), s.client, bad); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "install cases."+s.group()) ||
		!strings.Contains(err.Error(), "found no matching overload") {
		t.Errorf("a wrong rule: %v", err)
	}

	d := caseOf[Old](t, s, crd.Options{})
	s.install(t, d)
	definitions := kube.For[crd.Definition](s.client)
	hold := func(finalizers string) {
		t.Helper()
		if _, err := definitions.Patch(soon(t), d.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`)); err != nil {
			t.Fatal(err)
		}
	}
	hold(`["pintle.test/hold"]`)
	first, err := definitions.Get(soon(t), d.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := definitions.Delete(soon(t), d.Name); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second) // it may not end by itself
	defer cancel()
	if err := crd.Install(short, s.client, d); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("installed while it is being deleted: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- crd.Install(soon(t), s.client, d) }()
	hold(`null`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	second, err := definitions.Get(soon(t), d.Name)
	if err != nil || second.UID == first.UID {
		t.Errorf("it is the same: %v", err)
	}
}

// When Install returns, any new client can create objects.
func TestInstalledIsServed(t *testing.T) {
	s := start(t)
	for i := range 5 {
		kind := kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v1", Kind: fmt.Sprintf("Case%d", i)}}
		d := crd.Of[Case[Old]](crd.Options{Kind: kind})
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		s.install(t, d)
		var code int
		s.request(t, http.MethodPost, "/apis/"+s.group()+"/v1/namespaces/"+s.namespace+"/"+d.Spec.Names.Plural,
			fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Case%d","metadata":{"name":"a"},"spec":{}}`, s.group(), i), &code)
		if code != http.StatusCreated {
			t.Errorf("create right after Install: %d", code)
		}
	}
}
