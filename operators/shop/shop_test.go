package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/plan"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/shop"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// since matches the time since when a node is in a state.
var since = regexp.MustCompile(` +(Ready|Absent) \d+[ms]\d*s?$`)

// tree is how a Shop that is ready is shown.
const tree = `✓ password Ready
✓ address Ready
└─ ✓ database Ready
   └─ ✓ migrate Ready
      └─ ✓ app Ready
         └─ ○ gifts Absent
✓ account Ready
✓ till/east Ready
└─ ✓ region/east Ready
✓ till/west Ready
└─ ✓ region/west Ready
✓ settings Ready
✓ front Ready`

// TestShop takes a Shop through its life.
func TestShop(t *testing.T) {
	b := newBench(t, kubetest.Start(t, kubetest.Options{Nodes: 2}))
	b.start()
	b.apply()
	var shown bytes.Buffer
	followed := make(chan error, 1)
	b.until("all but the settings is there", func(s *Shop) bool {
		return state(s, "settings") == "Waiting it does not exist" && state(s, "app") == "Blocked waits for settings"
	})
	go func() {
		of := func(s *Shop) *plan.Status { return &s.Status.Status }
		followed <- plan.Follow(t.Context(), &shown, b.shops, "corner", of)
	}()
	b.greet("")
	b.until("the settings have no greeting", func(s *Shop) bool { return state(s, "settings") == "Waiting it has no greeting" })
	b.greet("Come in!")
	s := b.untilReady()

	b.run("its tree is shown", func(t *testing.T) {
		lines := plan.Tree{}.Lines(&s.Status.Status, time.Now())
		for i, line := range lines {
			lines[i] = since.ReplaceAllString(line, " $1")
		}
		if got := strings.Join(lines, "\n"); got != tree {
			t.Errorf("the tree is\n%s\nwant\n%s", got, tree)
		}
	})
	b.run("the application starts after the migration", func(t *testing.T) {
		job, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		app, err := b.deployments.Get(b.soon(), "corner")
		b.ok(err)
		if job.Status.CompletionTime == nil || app.CreationTimestamp.Before(job.Status.CompletionTime) {
			t.Errorf("the application was created at %s, the migration ended at %s", app.CreationTimestamp, job.Status.CompletionTime)
		}
		if env(app, "GREETING") != "Come in!" || env(app, "REGIONS") != "corner-region-east,corner-region-west" {
			t.Errorf("the application is %+v", app.Spec.Template.Spec.Containers)
		}
	})
	b.run("it has an account and a till for each region", func(*testing.T) { b.hasAccounts("", "-east", "-west") })
	b.run("events and metrics tell of it", func(t *testing.T) {
		events := kube.For[eventsv1.Event](b.client).In(b.namespace)
		kubetest.Eventually(t, "there is an event", func() error {
			var reasons []string
			for e, err := range events.List(b.soon()) {
				b.ok(err)
				if e.Regarding.Kind == "Shop" && e.Reason == "Ready" {
					return nil
				}
				reasons = append(reasons, e.Regarding.Kind+" "+e.Reason)
			}
			return fmt.Errorf("there are only %q", reasons)
		})
		if n := optest.Metric(t, b.operator, `pintle_plan_nodes\{kind="Shop.shop.example.com",state="Ready"\}`); n != 12 {
			t.Errorf("the metrics show %d nodes that are ready", n)
		}
	})
	b.run("a settled shop takes no request", func(*testing.T) { b.settled() })
	b.run("its plan is shown to those who may see it", func(t *testing.T) { b.showsPlans(t) })
	b.run("settings reach the application", func(t *testing.T) {
		b.greet("Welcome!")
		_, err := b.deployments.Until(b.soon(), "corner", func(d *appsv1.Deployment) bool { return env(d, "GREETING") == "Welcome!" })
		b.ok(err)
		b.untilReady()
	})
	b.run("gifts come and go", func(t *testing.T) {
		if _, err := b.deployments.Get(b.soon(), "corner-gifts"); !apierrors.IsNotFound(err) {
			t.Errorf("gifts are wrapped already: %v", err)
		}
		b.change(func(s *Shop) { s.Spec.Gifts = true })
		b.until("gifts are wrapped", func(s *Shop) bool { return isReady(s) && state(s, "gifts") == "Ready" })
		b.change(func(s *Shop) { s.Spec.Gifts = false })
		b.ok(b.deployments.UntilGone(b.soon(), "corner-gifts"))
		b.until("gifts are absent", func(s *Shop) bool { return isReady(s) && state(s, "gifts") == "Absent" })
	})
	b.run("a region leaves and another comes, and the limit is changed", func(t *testing.T) {
		b.change(func(s *Shop) { s.Spec.Regions, s.Spec.Limit = []string{"east", "north"}, 500 })
		b.ok(b.configMaps.UntilGone(b.soon(), "corner-region-west"))
		b.until("the region has left", func(s *Shop) bool { return isReady(s) && state(s, "till/west") == "" && state(s, "region/west") == "" })
		b.hasAccounts("", "-east", "-north")
		for name, all := range b.service.Accounts() {
			if len(all) > 0 && all[0].Limit != 500 {
				t.Errorf("the limit of %s is %d", name, all[0].Limit)
			}
		}
	})
	b.run("another image migrates the database again before it serves", func(t *testing.T) {
		was, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		b.change(func(s *Shop) { s.Spec.Image = "shop:v2" })
		app, err := b.deployments.Until(b.soon(), "corner", func(d *appsv1.Deployment) bool {
			return d.Spec.Template.Spec.Containers[0].Image == "shop:v2"
		})
		b.ok(err)
		is, err := b.jobs.Get(b.soon(), "corner-migrate")
		b.ok(err)
		if is.UID == was.UID || is.Status.CompletionTime == nil || is.Spec.Template.Spec.Containers[0].Image != "shop:v2" {
			t.Errorf("the application %s was changed, and the migration is %+v", app.Name, is.Status)
		}
		b.untilReady()
	})
	b.run("storage grows, and the database runs on", func(t *testing.T) {
		pods, claims := kube.For[corev1.Pod](b.client).In(b.namespace), kube.For[corev1.PersistentVolumeClaim](b.client).In(b.namespace)
		was, err := pods.Get(b.soon(), "corner-db-0")
		b.ok(err)
		set, err := b.statefulSets.Get(b.soon(), "corner-db")
		b.ok(err)
		b.change(func(s *Shop) { s.Spec.Storage = resource.MustParse("2Gi") })
		_, err = b.statefulSets.Until(b.soon(), "corner-db", func(s *appsv1.StatefulSet) bool { return s.UID != set.UID })
		b.ok(err)
		b.untilReady()
		is, err := pods.Get(b.soon(), "corner-db-0")
		b.ok(err)
		claim, err := claims.Get(b.soon(), "data-corner-db-0")
		b.ok(err)
		if size := claim.Spec.Resources.Requests.Storage().String(); is.UID != was.UID || size != "2Gi" {
			t.Errorf("the pod was %s and is %s, and its volume has %s", was.UID, is.UID, size)
		}
	})

	secret, err := b.secrets.Get(b.soon(), "corner-db")
	b.ok(err)
	b.ok(b.shops.Delete(b.soon(), "corner"))
	b.ok(b.shops.UntilGone(b.soon(), "corner"))
	b.ok(<-followed)
	b.run("the password alone is left", func(*testing.T) { b.onlyPassword() })
	for _, want := range []string{"settings: Waiting: it has no greeting", "app: Ready", "till/west: gone", "corner is gone"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("Follow does not show %q:\n%s", want, shown.String())
		}
	}
	b.run("a shop of the same name has the same password", func(t *testing.T) {
		b.apply()
		b.untilReady()
		again, err := b.secrets.Get(b.soon(), "corner-db")
		b.ok(err)
		if again.UID != secret.UID || !bytes.Equal(again.Data["password"], secret.Data["password"]) || len(secret.Data["password"]) < 20 {
			t.Error("the password was changed")
		}
	})
}

// TestProgramIsShort holds the promise that the operator has about 200 lines of code below
// its imports, with the description of the accounts.
func TestProgramIsShort(t *testing.T) {
	optest.IsShort(t, "main.go", 165)
	optest.IsShort(t, "account.go", 70)
}

// TestBadInput has the server refuse invalid Shops with helpful messages.
func TestBadInput(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, op.Definitions...); err != nil {
		t.Fatal(err)
	}
	shops := kube.For[Shop](client).In(cluster.Namespace(t))
	for name, test := range map[string]struct{ spec, want string }{
		"x":                     {`{}`, "spec.image: Required value"},
		"y":                     {`{"image":"a","regions":["east","east"]}`, "duplicate entries"},
		"z":                     {`{"image":"a","regions":["The East"]}`, "should match"},
		"a":                     {`{"image":"a","storage":"much"}`, "spec.storage"},
		"b":                     {`{"image":"a","limit":0}`, "greater than or equal to 1"},
		strings.Repeat("b", 31): {`{"image":"a"}`, "too long, or not a name"},
		"b.c":                   {`{"image":"a"}`, "too long, or not a name"},
	} {
		text := `{"apiVersion":"shop.example.com/v1","kind":"Shop","metadata":{"name":"` + name + `"},"spec":` + test.spec + `}`
		_, err := shops.Patch(t.Context(), name, types.ApplyYAMLPatchType, []byte(text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", text, err, test.want)
		}
	}
}
