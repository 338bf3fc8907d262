package optest

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/program"
)

// Lease is the lease of a program. At first another process holds it, so that the program
// must watch it.
type Lease struct {
	t       testing.TB
	leases  kube.Resource[coordinationv1.Lease]
	name    string
	watched func() bool
}

// HoldLease creates the lease. It is called before the program starts, which reaches the
// server through p.
func HoldLease(t testing.TB, client *kube.Client, name string, p *Proxy) *Lease {
	t.Helper()
	l := &Lease{t, kube.For[coordinationv1.Lease](client).In(p.Namespace), name, p.Seen(leaseWatch)}
	other, seconds := "another process", int32(3600)
	held := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds}}
	held.Name = name
	_, err := l.leases.Create(t.Context(), held)
	l.ok(err)
	return l
}

// leaseWatch matches the watch of a Lease.
const leaseWatch = "^GET /apis/coordination.k8s.io/v1/namespaces/[^/]+/leases$"

// Awaited reports whether the program watches the lease, and has logged that another process
// holds it.
func (l *Lease) Awaited(p *program.Program) bool {
	lines, _ := p.Lines()
	return l.watched() && strings.Contains(strings.Join(lines, "\n"), "another process holds the lease")
}

// Release lets go of the lease in the name of the other process.
func (l *Lease) Release() {
	l.t.Helper()
	_, err := l.leases.Patch(
		l.t.Context(), l.name, types.MergePatchType, []byte(`{"spec":{"holderIdentity":null}}`),
	)
	l.ok(err)
}

// Delete deletes the lease, which the program then creates again.
func (l *Lease) Delete() {
	l.t.Helper()
	l.ok(l.leases.Delete(l.t.Context(), l.name))
}

// Exists reports whether there is a lease.
func (l *Lease) Exists() bool {
	_, err := l.leases.Get(l.t.Context(), l.name)
	return err == nil
}

func (l *Lease) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}
