package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// account is a thing of the bank.
type account struct {
	Name   string `json:"name"`
	Limit  int    `json:"limit"`
	Secret string `json:"secret,omitempty"` // is shown once
}

// bank is an HTTP server outside the cluster. It opens a second account of a name if it is
// asked to. Some of its answers are lost.
type bank struct {
	*httptest.Server
	mu       sync.Mutex
	accounts map[string][]account
	opened   map[string]int
	requests int
	// loses reports that the answer to a request is lost, after it was executed.
	loses func(r *http.Request) bool
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{accounts: make(map[string][]account), opened: make(map[string]int)}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	name := r.URL.Path[1:]
	var show *account
	switch r.Method {
	case http.MethodPost:
		var a account
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.opened[name]++
		a.Secret = fmt.Sprintf("secret-%d", b.opened[name])
		b.accounts[name] = append(b.accounts[name], a)
		show = &a
	case http.MethodDelete:
		delete(b.accounts, name)
	case http.MethodGet:
		if all := b.accounts[name]; len(all) > 0 {
			show = &account{Name: name, Limit: all[0].Limit}
		}
	}
	if b.loses != nil && b.loses(r) {
		panic(http.ErrAbortHandler)
	}
	if show == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err := json.NewEncoder(w).Encode(show); err != nil {
		panic(err)
	}
}

func (b *bank) count() (requests, accounts int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.accounts {
		accounts += len(all)
	}
	return b.requests, accounts
}

// ask sends a request. It returns nil if there is no account.
func (b *bank) ask(ctx context.Context, method, name string, body *account) (*account, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, b.URL+"/"+name, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	resp, err := b.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	a := new(account)
	return a, json.NewDecoder(resp.Body).Decode(a)
}

// things returns the Things of one process.
func (b *bank) things(op operator) *plan.Things[account] {
	return &plan.Things[account]{
		Kind:   "Account",
		Target: &plan.Target{Name: "the bank", Rate: 50, Timeout: 2 * time.Second},
		Settle: time.Second,
		Name:   func(a *account) string { return a.Name },
		Observe: func(ctx context.Context, r plan.Ref) (*account, error) {
			a, err := b.ask(ctx, http.MethodGet, r.Name, nil)
			if a != nil {
				a.Secret = r.Outcome["secret"]
			}
			return a, err
		},
		Create: func(ctx context.Context, r plan.Ref, want *account) (*account, error) {
			return b.ask(ctx, http.MethodPost, r.Name, want)
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			_, err := b.ask(ctx, http.MethodDelete, r.Name, nil)
			return err
		},
		Outcome: func(a *account) map[string]string {
			if a.Secret == "" {
				return nil
			}
			return map[string]string{"secret": a.Secret}
		},
		Keep: plan.InSecret(op.secrets),
	}
}

// Things outside the cluster are opened once, although processes of the operator end and
// answers are lost. Their outcomes are in Secrets, a settled plan asks nobody, and nothing
// is left after the deletion.
func TestStepsOnServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	far := newBank(t)
	lost := make(map[string]int)
	far.loses = func(r *http.Request) bool {
		lost[r.Method]++
		return lost[r.Method]%4 == 1
	}
	var mu sync.Mutex
	known := make(map[*kube.Client]*plan.Things[account]) // one for each process
	children := func(op operator, s *Shop) *plan.Plan {
		mu.Lock()
		things := known[op.shops.Client()]
		if things == nil {
			things = far.things(op)
			known[op.shops.Client()] = things
		}
		mu.Unlock()
		p := plan.New(op.shops, s, &s.Status.Status)
		accounts := plan.EachStep(p, "account", []string{"rent", "tax", "wages"}, things,
			func(_ plan.Inputs, key string) (*account, error) {
				return &account{Name: s.Name + "-" + key, Limit: 5}, nil
			})
		plan.Object(p, "audit", op.jobs, func(in plan.Inputs) (*batchv1.Job, error) {
			arg := ""
			for _, a := range accounts.From(in) {
				if a.Secret == "" {
					return nil, fmt.Errorf("account %s shows no secret", a.Name)
				}
				arg += a.Secret + " "
			}
			about := metav1.ObjectMeta{Name: s.Name + "-audit"}
			return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{Template: pod(about, "any:1", corev1.RestartPolicyNever, arg)}}, nil
		}).Needs(accounts)
		return p
	}
	b.create("far")
	for range 3 {
		stop := b.start(children)
		time.Sleep(time.Second) // the process ends in the middle of its work
		stop()
	}
	stop := b.start(children)
	s := b.untilReady("far")
	for _, n := range s.Status.Nodes {
		if n.Thing == nil {
			continue
		}
		secret, err := b.op.secrets.Get(b.soon(), plan.OutcomeName("Account", n.ObjectName))
		b.ok(err)
		if len(secret.Data["secret"]) == 0 || len(n.Thing.Outcome) > 0 {
			t.Errorf("the secret of %s has %v, its status %v", n.ObjectName, secret.Data, n.Thing)
		}
	}
	if _, accounts := far.count(); accounts != 3 {
		t.Errorf("there are %d accounts: %v", accounts, far.accounts)
	}
	before, _ := far.count()
	b.settled("far")
	if after, _ := far.count(); after != before {
		t.Errorf("a settled plan sends %d requests to the bank", after-before)
	}
	b.ok(b.op.shops.Delete(b.soon(), "far"))
	for range 2 {
		time.Sleep(500 * time.Millisecond) // likewise
		stop()
		stop = b.start(children)
	}
	b.ok(b.op.shops.UntilGone(b.soon(), "far"))
	if _, accounts := far.count(); accounts > 0 {
		t.Errorf("accounts are left: %v", far.accounts)
	}
	for _, n := range s.Status.Nodes {
		if _, err := b.op.secrets.Get(b.soon(), plan.OutcomeName("Account", n.ObjectName)); !apierrors.IsNotFound(err) {
			t.Errorf("the outcome of %s: %v", n.ObjectName, err)
		}
	}
}
