package main

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

const account = "letter-operator"

// TestRights runs the program with a token of its service account, under exactly the
// roles that it prints, and under those roles without one verb at a time, for some verbs.
func TestRights(t *testing.T) { underRights(t, optest.Sample) }

// TestSoakRights leaves out each right.
func TestSoakRights(t *testing.T) { underRights(t, optest.Each) }

func underRights(t *testing.T, choose func([]optest.Right) []optest.Right) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, op.Definitions...); err != nil {
		t.Fatal(err)
	}
	all := binary.Rights(t)
	optest.UnderRights(t, all, choose, op, func(t *testing.T, without ...optest.Right) *optest.Proxy {
		t.Parallel()
		s := newScene(t, cluster, client, all, without...)
		s.play()
		return s.proxy
	})
}

// scene is a desk whose program has the rights of its service account.
type scene struct {
	*desk
	namespace string
	lease     *optest.Lease
}

func newScene(
	t *testing.T, cluster *kubetest.Cluster, client *kube.Client, all []optest.Right, without ...optest.Right,
) *scene {
	t.Helper()
	namespace := cluster.Namespace(t)
	s := &scene{desk: newDesk(t, client, namespace), namespace: namespace}
	s.proxy = optest.StartProxy(t, cluster.Config(), namespace)
	s.lease = optest.HoldLease(t, client, account, s.proxy)
	a := optest.NewAccount(t, client, cluster.Config(), namespace, account, all, without...)
	s.operator = binary.Run(t, a.Kubeconfig(s.proxy), "-addr=127.0.0.1:0", "-install=false", "-lease")
	return s
}

// play makes the program do all that it can, until a request is refused.
func (s *scene) play() {
	s.Helper()
	for _, step := range []func(){s.acquire, s.create, s.renew, s.vanish} {
		if step(); len(s.proxy.Used.Refused()) > 0 {
			return
		}
	}
}

// acquire lets the program acquire the lease, while the program watches it.
func (s *scene) acquire() {
	s.Helper()
	s.until("the program waits for the lease", func() bool { return s.lease.Awaited(s.operator) })
	s.lease.Release()
}

func (s *scene) create() {
	s.Helper()
	s.template("invitation", "Dear NAME")
	s.write("one", "invitation", "Ahab")
	s.reads("one", "Dear Ahab")
	s.template("invitation", "Come, NAME")
	s.reads("one", "Come, Ahab")
}

// renew deletes the lease, so that the program creates it again.
func (s *scene) renew() {
	s.Helper()
	s.lease.Delete()
	s.until("there is a lease again", s.lease.Exists)
}

// vanish deletes a letter while the program writes it. The program then asks whether the
// deletion is why it has failed.
func (s *scene) vanish() {
	s.Helper()
	deleted := make(chan error, 1)
	s.proxy.Before("^PATCH .*/namespaces/"+s.namespace+"/letters/two/status$", func() {
		deleted <- s.letters.Delete(s.Context(), "two")
	})
	s.write("two", "invitation", "Starbuck")
	select {
	case err := <-deleted:
		s.ok(err)
	case <-time.After(patience):
		s.Fatal("the letter is not written")
	}
	s.until("it is gone", func() bool {
		_, err := s.letters.Get(s.Context(), "two")
		return apierrors.IsNotFound(err)
	})
	s.write("three", "invitation", "Stubb")
	s.reads("three", "Come, Stubb")
}
