package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// TestNeonDatabase takes a NeonDatabase through its life on a real node. The times that it logs
// are for people, unless NEON_E2E_LIMITS is 1.
func TestNeonDatabase(t *testing.T) {
	w := newWorld(t)
	seen := record(w)
	d := new(api.NeonDatabase)
	d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = "orders", w.set.Compute, w.set.Storage
	d.Spec.PostgresVersion, d.Spec.DeletionPolicy = w.set.PostgresVersion, api.Delete
	begun := time.Now()
	_, err := w.databases.Create(w.soon(), d)
	w.ok(err)
	login, err := w.secrets.Until(w.soon(), "orders-connection", func(s *corev1.Secret) bool { return len(s.Data["uri"]) > 0 })
	w.ok(err)
	w.eventually("psql logs in", func(ctx context.Context) error {
		_, err := w.psql(ctx, login, w.address(login), "select 1")
		return err
	})
	w.within("from applied to the first select 1", time.Since(begun), time.Minute)
	w.allReady()
	seen.check(w)

	w.ask(login, "create table written (n bigint primary key); insert into written values (-1)")
	w.past(login)
	through := w.resume(login)
	w.suspend(through)
	w.disturb(through)
	w.nodes(through)
	w.retained(through)
}

// allReady waits until all nodes of all plans are ready.
func (w *world) allReady() {
	w.Helper()
	d, err := w.databases.Until(w.soon(), "orders", func(d *api.NeonDatabase) bool { return holds(d, d.Status.Conditions) })
	w.ok(err)
	c, err := w.clusters.Get(w.soon(), "orders")
	w.ok(err)
	p, err := w.projects.Get(w.soon(), "orders")
	w.ok(err)
	b, err := w.branches.Get(w.soon(), "orders-main")
	w.ok(err)
	e, err := w.endpoints.Get(w.soon(), "orders")
	w.ok(err)
	for name, s := range map[string]plan.Status{
		"NeonDatabase": d.Status.Status, "NeonCluster": c.Status.Status, "NeonProject": p.Status.Status,
		"NeonBranch": b.Status.Status, "NeonEndpoint": e.Status.Status,
	} {
		for _, n := range s.Nodes {
			// Nothing has to be restarted, and TLS does not change.
			idle := n.State == plan.Absent && slices.Contains([]string{"safekeeper-turn", "pageserver-roll", "tls"}, n.Name)
			if n.State != plan.Ready && !idle {
				w.Errorf("%s: node %s is %s: %s", name, n.Name, n.State, n.Message)
			}
		}
	}
}

// past makes a branch at a moment, and reads there the rows of that moment.
func (w *world) past(login *corev1.Secret) {
	w.Helper()
	time.Sleep(2 * time.Second) // a branch point is a whole second
	moment := metav1.Now()
	time.Sleep(2 * time.Second) // likewise
	w.ask(login, "insert into written values (-2)")

	b := new(api.NeonBranch)
	b.Name, b.Spec.Project, b.Spec.DeletionPolicy = "past", "orders", api.Delete
	b.Spec.From = &api.BranchPoint{Branch: "orders-main", Time: &moment}
	_, err := w.branches.Create(w.soon(), b)
	w.ok(err)
	then := w.serve("past", "past")
	if rows := w.ask(then, "select string_agg(n::text, ',') from written"); rows != "-1" {
		w.Errorf("the branch at %s has the rows %s", moment.UTC().Format(time.RFC3339), rows)
	}
	w.ask(then, "delete from written")
	if rows := w.ask(login, "select count(*) from written"); rows != "2" {
		w.Errorf("after a deletion in the branch its parent has %s rows", rows)
	}
	w.withdraw("past", "past")
	w.ok(w.branches.UntilGone(w.soon(), "past"))
}

// serve makes an endpoint of a branch with the role and the database app. It returns the Secret of their
// connection.
func (w *world) serve(branch, endpoint string) *corev1.Secret {
	w.Helper()
	r := new(api.NeonRole)
	r.Name, r.Spec.Branch, r.Spec.Name = endpoint+"-app", branch, "app"
	_, err := w.roles.Create(w.soon(), r)
	w.ok(err)
	content := new(api.NeonBranchDatabase)
	content.Name, content.Spec.Branch, content.Spec.Name, content.Spec.Owner = r.Name, branch, "app", r.Name
	_, err = w.contents.Create(w.soon(), content)
	w.ok(err)
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = endpoint, branch, api.ReadWrite
	_, err = w.endpoints.Create(w.soon(), e)
	w.ok(err)
	_, err = w.endpoints.Until(w.soon(), endpoint, func(e *api.NeonEndpoint) bool { return holds(e, e.Status.Conditions) })
	w.ok(err)
	login, err := w.secrets.Until(w.soon(), endpoint+"-"+r.Name, func(s *corev1.Secret) bool {
		return string(s.Data["dbname"]) == "app"
	})
	w.ok(err)
	w.eventually("the Service leads to the compute", func(ctx context.Context) error {
		_, err := w.psql(ctx, login, w.address(login), "select 1")
		return err
	})
	return login
}

// withdraw deletes a branch and all that serve has made.
func (w *world) withdraw(branch, endpoint string) {
	w.Helper()
	w.ok(w.endpoints.Delete(w.soon(), endpoint))
	w.ok(w.contents.Delete(w.soon(), endpoint+"-app"))
	w.ok(w.roles.Delete(w.soon(), endpoint+"-app"))
	w.ok(w.branches.Delete(w.soon(), branch))
}

// resume suspends the endpoint because it is idle, and connects by the Secret. It returns that, which
// leads through the proxy: the endpoint may be suspended later too.
func (w *world) resume(direct *corev1.Secret) *corev1.Secret {
	w.Helper()
	w.suspendAfter(5)
	login, err := w.secrets.Until(w.soon(), direct.Name, func(s *corev1.Secret) bool {
		return string(s.Data["host"]) != string(direct.Data["host"])
	})
	w.ok(err)
	_, err = w.endpoints.Until(w.soon(), "orders", func(e *api.NeonEndpoint) bool { return e.Status.Phase == "Suspended" })
	w.ok(err)
	w.ok(w.pods.UntilGone(w.soon(), "orders-compute-0"))
	begun := time.Now()
	rows := w.ask(login, "select count(*) from written")
	w.within("from the connection of a client to its answer, on a suspended endpoint", time.Since(begun), 5*time.Second)
	if rows != "2" {
		w.Errorf("there are %s rows", rows)
	}
	w.suspendAfter(3600)
	w.allReady()
	return login
}

// suspend stops the compute by the field, and starts it again.
func (w *world) suspend(login *corev1.Secret) {
	w.Helper()
	set := func(on bool, phase string) {
		_, err := w.databases.Modify(w.soon(), "orders", func(d *api.NeonDatabase) error {
			d.Spec.Suspended = on
			return nil
		})
		w.ok(err)
		_, err = w.endpoints.Until(w.soon(), "orders", func(e *api.NeonEndpoint) bool {
			return e.Spec.Suspended == on && e.Status.Phase == phase
		})
		w.ok(err)
	}
	set(true, "Suspended")
	w.ok(w.pods.UntilGone(w.soon(), "orders-compute-0"))
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	if rows, err := w.psql(ctx, login, w.address(login), "select 1"); err == nil {
		w.Errorf("an endpoint that its spec suspends answers %s", rows)
	}
	set(false, "Running")
	w.allReady()
	if rows := w.ask(login, "select count(*) from written"); rows != "2" {
		w.Errorf("there are %s rows", rows)
	}
}

func (w *world) suspendAfter(seconds int32) {
	w.Helper()
	_, err := w.databases.Modify(w.soon(), "orders", func(d *api.NeonDatabase) error {
		d.Spec.SuspendAfterSeconds = seconds
		return nil
	})
	w.ok(err)
	_, err = w.endpoints.Until(w.soon(), "orders", func(e *api.NeonEndpoint) bool { return e.Spec.SuspendAfterSeconds == seconds })
	w.ok(err)
}

// disturb kills each component, deletes its pod, and restarts the kubelet, under a client that
// writes.
func (w *world) disturb(login *corev1.Secret) {
	w.Helper()
	client := w.write(login)
	client.goesOn(w)
	components := []string{
		"broker", "controller", "store-0", "database-0", "safekeeper-1-0", "safekeeper-2-0", "safekeeper-3-0",
		"pageserver-1-0", "compute-0",
	}
	for _, component := range components {
		w.kill(w.podOf(component))
		killed := client.goesOn(w)
		w.replace(w.podOf(component))
		w.Logf("%s: the longest pause of the client was %s when it was killed, %s when its pod was deleted", component,
			killed.Round(100*time.Millisecond), client.goesOn(w).Round(100*time.Millisecond))
	}
	w.node.RestartKubelet(w.T)
	w.Logf("kubelet: the longest pause was %s when it was restarted", client.goesOn(w).Round(100*time.Millisecond))
	client.check(w, login)
	w.allReady()
}

// podOf returns the name of a component's pod.
func (w *world) podOf(component string) string {
	w.Helper()
	prefix, found := "orders-"+component, ""
	w.eventually("the pod of "+component+" is there", func(ctx context.Context) error {
		for p, err := range w.pods.List(ctx) {
			if err == nil && strings.HasPrefix(p.Name, prefix) && isReady(p) {
				found = p.Name
				return nil
			}
		}
		return errors.New("it is not")
	})
	return found
}

// left returns the objects of all kinds that the operator makes.
func (w *world) left(ctx context.Context) []string {
	return slices.Concat(
		names(ctx, w.databases.Reader), names(ctx, w.clusters.Reader), names(ctx, w.projects.Reader),
		names(ctx, w.branches.Reader), names(ctx, w.roles.Reader), names(ctx, w.contents.Reader),
		names(ctx, w.endpoints.Reader), names(ctx, w.secrets.Reader), names(ctx, w.services.Reader),
		names(ctx, w.sets.Reader), names(ctx, w.deployments.Reader), names(ctx, w.pods.Reader),
		names(ctx, w.claims.Reader),
	)
}

// names returns the kinds and names of objects, except the Service that each cluster has. An error
// is in their place.
func names[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, objects kube.Reader[T]) (all []string) {
	for o, err := range objects.List(ctx) {
		if err != nil {
			return append(all, err.Error())
		}
		if name := P(o).GetName(); name != "kubernetes" {
			all = append(all, strings.TrimPrefix(fmt.Sprintf("%T %s", o, name), "*"))
		}
	}
	return all
}
