package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestRights runs the program with a token of its service account, under exactly the
// roles that it prints, and under those roles without one verb at a time, for some verbs.
func TestRights(t *testing.T) {
	t.Parallel()
	underRights(t, func(all []optest.Right) []optest.Right { return optest.Sample(all)[:2] })
}

// TestSoakRights leaves out one right after the other, a few of all in each run.
func TestSoakRights(t *testing.T) {
	underRights(t, func(all []optest.Right) []optest.Right { return optest.Sample(all)[:3] })
}

func underRights(t *testing.T, choose func([]optest.Right) []optest.Right) {
	all := binary.Rights(t)
	op, err := describe(optest.Client(t, &rest.Config{Host: "none.invalid"}))
	if err != nil {
		t.Fatal(err)
	}
	optest.UnderRights(t, all, choose, op, func(t *testing.T, without ...optest.Right) *optest.Proxy {
		s := newScene(t, all, without...)
		s.play()
		return s.proxied
	})
}

// scene is a land whose operator has the rights of its service account.
type scene struct {
	*land
	proxied *optest.Proxy
	lease   *optest.Lease
}

func newScene(t *testing.T, all []optest.Right, without ...optest.Right) *scene {
	t.Helper()
	s := &scene{land: newLand(t)}
	s.proxied = optest.StartProxy(t, s.config, s.namespace)
	s.lease = optest.HoldLease(t, s.client, name, s.proxied)
	a := optest.NewAccount(t, s.client, s.config, s.namespace, name, all, without...)
	s.run(a.Kubeconfig(s.proxied), "-install=false", "-lease")
	return s
}

// play has the program do everything that it can, until a request is refused.
func (s *scene) play() {
	s.Helper()
	for _, step := range []func(){
		s.acquire, s.create, s.starve, s.renew, s.lose, s.spoil, s.move, s.wake, s.open, s.fail, s.grow, s.late, s.remove,
	} {
		if step(); len(s.proxied.Used.Refused()) > 0 {
			return
		}
	}
	// The recorder writes the last repetitions of events at the end.
	s.ok(s.operator.Signal(syscall.SIGTERM))
	if code := optest.ExpectEnd(s, s.operator); code != 0 {
		s.Errorf("status %d", code)
	}
}

// wait waits until something succeeds, or for a refused request.
func (s *scene) wait(what string, try func() error) {
	s.Helper()
	kubetest.Eventually(s, what, func() error {
		if len(s.proxied.Used.Refused()) > 0 {
			return nil
		}
		return try()
	})
}

var errNot = fmt.Errorf("it is not")

func holds(is bool) error {
	if is {
		return nil
	}
	return errNot
}

// acquire gives the lease to the program while the program watches it.
func (s *scene) acquire() {
	s.Helper()
	s.wait("the program waits for the lease", func() error { return holds(s.lease.Awaited(s.operator)) })
	s.lease.Release()
}

func (s *scene) create() {
	s.Helper()
	s.order("orders")
	s.ready()
}

func (s *scene) ready() {
	s.Helper()
	s.wait("the NeonDatabase is ready", func() error {
		d, err := s.databases.Get(s.Context(), "orders")
		if err != nil {
			return err
		}
		return holds(isReady(d, d.Status.Conditions))
	})
}

// starve makes an endpoint that no node has room for.
func (s *scene) starve() {
	s.Helper()
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = "huge", "orders-main", api.ReadOnly
	e.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10000")}
	_, err := s.endpoints.Create(s.Context(), e)
	s.ok(err)
}

// late waits until the operator has looked for the reason why that endpoint has no pod.
func (s *scene) late() {
	s.Helper()
	s.wait("the endpoint says why it does not run", func() error {
		e, err := s.endpoints.Get(s.Context(), "huge")
		if err != nil {
			return err
		}
		for _, n := range e.Status.Nodes {
			if strings.Contains(n.Message, "huge-compute-0") {
				return nil
			}
		}
		return errNot
	})
	s.ok(s.endpoints.Delete(s.Context(), "huge"))
}

// renew deletes the lease, which the program then creates again.
func (s *scene) renew() {
	s.Helper()
	s.lease.Delete()
	s.wait("there is a lease again", func() error { return holds(s.lease.Exists()) })
}

// lose gives the right to write to the timeline to an endpoint that does not exist. The program
// takes it back.
func (s *scene) lose() {
	s.Helper()
	leases := kube.For[coordinationv1.Lease](s.client).In(s.namespace)
	for l, err := range leases.Labeled("neon.pintle.dev/endpoint=orders").List(s.Context()) {
		s.ok(err)
		patch := []byte(`{"spec":{"holderIdentity":"nobody/none"}}`)
		_, err := leases.Patch(s.Context(), l.Name, types.MergePatchType, patch)
		s.ok(err)
		s.wait("the endpoint has its timeline again", func() error {
			is, err := leases.Get(s.Context(), l.Name)
			if err != nil {
				return err
			}
			return holds(is.Spec.HolderIdentity != nil && *is.Spec.HolderIdentity == *l.Spec.HolderIdentity)
		})
		return
	}
	s.Fatal("no Lease is of the endpoint")
}

// spoil damages the certificate of the proxy. The program makes another one.
func (s *scene) spoil() {
	s.Helper()
	const secret = name + "-proxy-tls"
	patch := []byte(`{"data":{"tls.crt":"eA=="}}`)
	_, err := s.secrets.Patch(s.Context(), secret, types.MergePatchType, patch)
	s.ok(err)
	s.wait("the proxy has a certificate again", func() error {
		is, err := s.secrets.Get(s.Context(), secret)
		if err != nil {
			return err
		}
		return holds(len(is.Data["tls.crt"]) > 1)
	})
}

// move calls the program as the storage controller does when data moves.
func (s *scene) move() {
	s.Helper()
	tokens, err := s.secrets.Get(s.Context(), "orders-controller")
	s.ok(err)
	b, err := s.branches.Get(s.Context(), "orders-main")
	s.ok(err)
	var members []map[string]int64
	for _, id := range b.Status.Safekeepers {
		members = append(members, map[string]int64{"id": id})
	}
	for hook, body := range map[string]any{
		"notify-attach": map[string]any{
			"tenant_id": b.Status.TenantID, "stripe_size": nil, "shards": []map[string]int{{"node_id": 1, "shard_number": 0}},
		},
		"notify-safekeepers": map[string]any{
			"tenant_id": b.Status.TenantID, "timeline_id": b.Status.TimelineID,
			"generation": b.Status.SafekeepersGeneration, "safekeepers": members,
		},
	} {
		text, err := json.Marshal(body)
		s.ok(err)
		s.wait(hook+" is answered", func() error {
			r, err := http.NewRequestWithContext(s.Context(), http.MethodPut,
				"http://"+s.bench.hooks+"/clusters/"+s.namespace+"/orders/"+hook, bytes.NewReader(text))
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+string(tokens.Data["CONTROL_PLANE_JWT_TOKEN"]))
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer http.DefaultClient.CloseIdleConnections()
			defer answer.Body.Close()
			return holds(answer.StatusCode == http.StatusOK)
		})
	}
}

// wake connects to the endpoint while it is suspended because it was idle.
func (s *scene) wake() {
	s.Helper()
	s.change(func(d *api.NeonDatabase) { d.Spec.SuspendAfterSeconds = 3 })
	s.wait("the endpoint is suspended", func() error {
		e, err := s.endpoints.Get(s.Context(), "orders")
		if err != nil {
			return err
		}
		return holds(e.Status.Phase == "Suspended")
	})
	s.wait("the proxy wakes the endpoint", func() error {
		login, err := s.secrets.Get(s.Context(), "orders-connection")
		if err != nil {
			return err
		}
		uri, err := url.Parse(string(login.Data["uri"]))
		if err != nil {
			return err
		}
		uri.Host = s.proxy
		c, err := pgx.Connect(s.Context(), uri.String())
		if err != nil {
			return err
		}
		return c.Close(context.Background())
	})
	s.change(func(d *api.NeonDatabase) { d.Spec.SuspendAfterSeconds = 0 })
}

// open takes the policies away, and puts them back.
func (s *scene) open() {
	s.Helper()
	for _, to := range []api.Switch{api.Off, api.On} {
		s.change(func(d *api.NeonDatabase) { d.Spec.NetworkPolicies = to })
		s.wait("the policies are "+string(to), func() error {
			n := 0
			for _, err := range s.policies.List(s.Context()) {
				if err != nil {
					return err
				}
				n++
			}
			return holds(n > 0 == (to == api.On))
		})
	}
}

// fail gives PostgreSQL a setting that it does not start with. The program restarts the compute
// when the setting is right again.
func (s *scene) fail() {
	s.Helper()
	set := func(connections string) {
		_, err := s.endpoints.Modify(s.Context(), "orders", func(e *api.NeonEndpoint) error {
			e.Spec.Settings = map[string]string{"max_connections": connections}
			return nil
		})
		s.ok(err)
	}
	set("0")
	s.wait("the compute has failed", func() error {
		e, err := s.endpoints.Get(s.Context(), "orders")
		if err != nil {
			return err
		}
		for _, n := range e.Status.Nodes {
			if strings.Contains(n.Message, "it is failed") {
				return nil
			}
		}
		return errNot
	})
	set("50")
	s.ready()
}

// grow lets a volume of another cluster grow.
func (s *scene) grow() {
	s.Helper()
	c := new(api.NeonCluster)
	c.Name, c.Spec.Image, c.Spec.ComputeImages = "other", "neon:test", map[string]string{"17": "compute:test"}
	volume := api.Volume{Storage: resource.MustParse("1Gi"), StorageClassName: &s.namespace}
	c.Spec.ObjectStore.Managed, c.Spec.ControllerDatabase.Managed = &api.Managed{Volume: volume}, &volume
	c.Spec.Safekeepers = api.Safekeepers{Count: 3, Volume: volume}
	c.Spec.Pageservers = api.Pageservers{Count: 1, Volume: volume}
	c.Spec.DeletionPolicy = api.Delete
	_, err := s.clusters.Create(s.Context(), c)
	s.ok(err)
	claims := kube.For[corev1.PersistentVolumeClaim](s.client).In(s.namespace)
	const claim = "data-other-database-0"
	s.wait("the claim is bound", func() error {
		v, err := claims.Get(s.Context(), claim)
		if err != nil {
			return err
		}
		return holds(v.Status.Phase == corev1.ClaimBound)
	})
	_, err = s.clusters.Modify(s.Context(), "other", func(c *api.NeonCluster) error {
		c.Spec.ControllerDatabase.Managed.Storage = resource.MustParse("2Gi")
		return nil
	})
	s.ok(err)
	s.wait("the claim has grown", func() error {
		v, err := claims.Get(s.Context(), claim)
		if err != nil {
			return err
		}
		return holds(v.Spec.Resources.Requests.Storage().String() == "2Gi")
	})
	s.ok(s.clusters.Delete(s.Context(), "other"))
	s.wait("the other cluster is gone", func() error {
		_, err := s.clusters.Get(s.Context(), "other")
		return holds(apierrors.IsNotFound(err))
	})
}

func (s *scene) remove() {
	s.Helper()
	s.ok(s.databases.Delete(s.Context(), "orders"))
	s.wait("the NeonDatabase is gone", func() error {
		_, err := s.databases.Get(s.Context(), "orders")
		return holds(apierrors.IsNotFound(err))
	})
}

func (s *scene) change(by func(*api.NeonDatabase)) {
	s.Helper()
	_, err := s.databases.Modify(s.Context(), "orders", func(d *api.NeonDatabase) error {
		by(d)
		return nil
	})
	s.ok(err)
}
