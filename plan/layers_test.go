package plan_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// layers is a plan of 20 nodes in 4 layers, which are Deployments, Jobs, Secrets and accounts.
// A node needs two of the layer before. It notes in which order they are made and deleted.
type layers struct {
	*bench
	bank *bank

	mu      sync.Mutex
	known   map[*kube.Client]*plan.Things[account] // one for each process
	writes  int
	made    []string
	deleted []string
	early   []string // nodes that were made too early, and why
}

const layered = 5 // nodes of a layer

func layerName(layer, i int) string { return fmt.Sprintf("layers-%d-%d", layer, i%layered) }

// place returns the layer of a node and its place there. ok is false for other names.
func place(name string) (layer, i int, ok bool) {
	n, err := fmt.Sscanf(name, "layers-%d-%d", &layer, &i)
	return layer, i, n == 2 && err == nil && name == layerName(layer, i)
}

func layerNeeds(name string) []string {
	layer, i, ok := place(name)
	if !ok || layer == 0 {
		return nil
	}
	return []string{layerName(layer-1, i), layerName(layer-1, i+1)}
}

func (l *layers) children(op operator, s *Shop) *plan.Plan {
	l.mu.Lock()
	things := l.known[op.shops.Client()]
	if things == nil {
		things = l.things(op)
		l.known[op.shops.Client()] = things
	}
	l.mu.Unlock()
	p := plan.New(op.shops, s, &s.Status.Status)
	all := make(map[string]plan.Need)
	for n := range 4 * layered {
		layer, i := n/layered, n%layered
		name := layerName(layer, i)
		var needs []plan.Need
		for _, need := range layerNeeds(name) {
			needs = append(needs, all[need])
		}
		about := metav1.ObjectMeta{Name: name, Labels: map[string]string{"node": name}}
		switch (layer + i) % 4 {
		case 0:
			all[name] = plan.Object(p, name, op.deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
				return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: about.Labels},
					Template: pod(about, "any:1", corev1.RestartPolicyAlways, ""),
				}}, nil
			}).Needs(needs...)
		case 1:
			all[name] = plan.Object(p, name, op.jobs, func(plan.Inputs) (*batchv1.Job, error) {
				return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{Template: pod(about, "any:1", corev1.RestartPolicyNever, "")}}, nil
			}).Needs(needs...).UntilGone()
		case 2:
			all[name] = plan.Object(p, name, op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
				return &corev1.Secret{ObjectMeta: about}, nil
			}).Needs(needs...)
		default:
			all[name] = plan.Step(p, name, things, func(plan.Inputs) (*account, error) {
				return &account{Name: name}, nil
			}).Needs(needs...)
		}
	}
	return p
}

// things returns the accounts of a process, which notes its creations and deletions.
func (l *layers) things(op operator) *plan.Things[account] {
	things := l.bank.things(op)
	create, remove := things.Create, things.Delete
	things.Create = func(ctx context.Context, r plan.Ref, want *account) (*account, error) {
		l.begins(ctx, r.Name)
		return create(ctx, r, want)
	}
	things.Delete = func(ctx context.Context, r plan.Ref) error {
		l.ends(r.Name)
		return remove(ctx, r)
	}
	return things
}

// begins notes that a node is about to be made, and looks whether all that it needs are ready.
func (l *layers) begins(ctx context.Context, name string) {
	l.mu.Lock()
	again := slices.Contains(l.made, name)
	if !again {
		l.made = append(l.made, name)
	}
	l.mu.Unlock()
	if again {
		return
	}
	for _, need := range layerNeeds(name) {
		if err := l.isReady(ctx, need); err != nil {
			l.mu.Lock()
			l.early = append(l.early, fmt.Sprintf("%s was made before %s was ready: %v", name, need, err))
			l.mu.Unlock()
		}
	}
}

func (l *layers) ends(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.deleted, name) {
		l.deleted = append(l.deleted, name)
	}
}

func (l *layers) isReady(ctx context.Context, name string) error {
	layer, i, _ := place(name)
	var err error
	var state ready.State
	switch (layer + i) % 4 {
	case 0:
		var o *appsv1.Deployment
		o, err = l.op.deployments.Get(ctx, name)
		state = ready.Of(o)
	case 1:
		var o *batchv1.Job
		o, err = l.op.jobs.Get(ctx, name)
		state = ready.Of(o)
	case 2:
		var o *corev1.Secret
		o, err = l.op.secrets.Get(ctx, name)
		state = ready.Of(o)
	default:
		var o *corev1.Secret
		o, err = l.op.secrets.Get(ctx, plan.OutcomeName("Account", name))
		state = ready.Of(o)
	}
	if err == nil && state.Phase != ready.Ready {
		err = errors.New(state.Message)
	}
	return err
}

// troubled is a transport of the operator. It refuses some writes, and drops some before and
// some after the server has executed them.
type troubled struct {
	*layers
	next http.RoundTripper
}

var errDropped = errors.New("the connection was dropped")

func (t troubled) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") {
		return t.next.RoundTrip(r)
	}
	name := path.Base(r.URL.Path)
	if _, _, is := place(name); is && r.Method == http.MethodPatch {
		t.begins(r.Context(), name)
	}
	trouble := 0
	t.mu.Lock()
	if t.writes++; t.writes%6 == 5 {
		trouble = t.writes/6%3 + 1
	}
	t.mu.Unlock()
	if trouble == 1 {
		return nil, errDropped
	}
	if trouble == 2 {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/plain"}}, Body: http.NoBody, Request: r,
		}, nil
	}
	answer, err := t.next.RoundTrip(r)
	if _, _, is := place(name); is && r.Method == http.MethodDelete && err == nil && answer.StatusCode < 300 {
		t.ends(name)
	}
	if trouble == 3 && err == nil {
		_ = answer.Body.Close()
		return nil, errDropped
	}
	return answer, err
}

// Processes of the operator end while a plan of 20 nodes comes up and goes down, some of their
// writes are refused or dropped, and some answers of the bank are lost. Each node is made when
// all that it needs are ready, and deleted after all that need it. No account is opened twice.
func TestLayersOnServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := &layers{bench: b, bank: newBank(t), known: make(map[*kube.Client]*plan.Things[account])}
	b.wrap = func(next http.RoundTripper) http.RoundTripper { return troubled{l, next} }
	calls := 0
	l.bank.loses = func(r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		calls++
		return calls%4 == 2
	}
	b.create("layers")
	for range 4 {
		stop := b.start(l.children)
		time.Sleep(1500 * time.Millisecond) // the process ends in the middle of its work
		stop()
	}
	stop := b.start(l.children)
	s := b.untilReady("layers")
	if _, accounts := l.bank.count(); len(s.Status.Nodes) != 4*layered || accounts != layered {
		t.Errorf("%d accounts are open, the status is %+v", accounts, s.Status)
	}
	b.settled("layers")
	l.mu.Lock()
	l.deleted = nil // accounts whose outcome was lost were opened again
	l.mu.Unlock()
	b.ok(b.op.shops.Delete(b.soon(), "layers"))
	for range 3 {
		time.Sleep(500 * time.Millisecond) // likewise
		stop()
		stop = b.start(l.children)
	}
	b.ok(b.op.shops.UntilGone(b.soon(), "layers"))
	l.empty()

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, early := range l.early {
		t.Error(early)
	}
	if len(l.made) != 4*layered || len(l.deleted) != 4*layered {
		t.Errorf("made were %v, deleted %v", l.made, l.deleted)
	}
	for _, name := range l.made {
		for _, need := range layerNeeds(name) {
			if slices.Index(l.made, need) > slices.Index(l.made, name) {
				t.Errorf("%s was made before %s: %v", name, need, l.made)
			}
			if slices.Index(l.deleted, need) < slices.Index(l.deleted, name) {
				t.Errorf("%s was deleted before %s: %v", need, name, l.deleted)
			}
		}
	}
	if l.writes < 60 {
		t.Errorf("only %d writes were sent", l.writes)
	}
}

// empty checks that nothing is left of the plan.
func (l *layers) empty() {
	l.Helper()
	for d, err := range l.op.deployments.List(l.soon()) {
		l.ok(err)
		l.Errorf("the Deployment %s is left", d.Name)
	}
	for j, err := range l.op.jobs.List(l.soon()) {
		l.ok(err)
		l.Errorf("the Job %s is left", j.Name)
	}
	for o, err := range l.op.secrets.List(l.soon()) {
		l.ok(err)
		if o.Type == corev1.SecretTypeOpaque {
			l.Errorf("the Secret %s is left", o.Name)
		}
	}
	if _, accounts := l.bank.count(); accounts > 0 {
		l.Errorf("accounts are left: %v", l.bank.accounts)
	}
}
