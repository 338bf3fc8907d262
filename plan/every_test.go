package plan

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// vault plays the Secrets of an API server beside a world.
type vault struct {
	*world
	secrets map[string]*corev1.Secret // by path
}

func (v *vault) RoundTrip(r *http.Request) (*http.Response, error) {
	path, is := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/secrets/")
	if !is {
		return v.world.RoundTrip(r)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if v.killed() {
		return nil, errKilled
	}
	v.story = append(v.story, r.Method+" secret "+path)
	o := v.secrets[path]
	code, answer := 200, any(o)
	switch {
	case r.Method != http.MethodPatch && o == nil:
		code, answer = 404, nil
	case r.Method == http.MethodDelete && len(o.Finalizers) > 0:
		now := metav1.Now()
		o.DeletionTimestamp = &now
		v.touch(o)
	case r.Method == http.MethodDelete:
		delete(v.secrets, path)
	case r.Header.Get("Content-Type") == string(types.MergePatchType):
		if code, answer = v.merge(path, r.Body); code != 200 {
			break
		}
		if o := v.secrets[path]; o.DeletionTimestamp != nil && len(o.Finalizers) == 0 {
			delete(v.secrets, path)
		}
	case r.Method == http.MethodPatch:
		raw, err := io.ReadAll(r.Body)
		sent := new(corev1.Secret)
		if err == nil {
			err = json.Unmarshal(raw, sent)
		}
		if err != nil {
			return nil, err
		}
		if sent.UID = types.UID(rand.Text()); o != nil {
			sent.UID, sent.Finalizers, sent.DeletionTimestamp = o.UID, o.Finalizers, o.DeletionTimestamp
			if string(sent.Data["value"]) != string(o.Data["value"]) {
				v.broken = append(v.broken, "a value that is made once was made again: "+path)
			}
		}
		v.touch(sent)
		v.secrets[path], answer = sent, sent
	}
	if code >= 400 {
		reason := map[int]string{404: "NotFound", 409: "Conflict"}[code]
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
	}
	if v.unanswered() {
		return nil, errKilled
	}
	return respond(code, answer)
}

// merge executes a merge patch of a Secret. Its uid and version must be those that it names.
func (v *vault) merge(path string, body io.Reader) (code int, answer any) {
	o := v.secrets[path]
	if o == nil {
		return 404, nil
	}
	raw, err := io.ReadAll(body)
	was, wrong := json.Marshal(o)
	var about struct{ Metadata metav1.ObjectMeta }
	var patch, all map[string]any
	if errors.Join(err, wrong, json.Unmarshal(raw, &about), json.Unmarshal(raw, &patch), json.Unmarshal(was, &all)) != nil {
		return 400, nil
	}
	if m := about.Metadata; m.UID != "" && m.UID != o.UID || m.ResourceVersion != "" && m.ResourceVersion != o.ResourceVersion {
		return 409, nil
	}
	is := new(corev1.Secret)
	if raw, err = json.Marshal(merged(all, patch)); err != nil || json.Unmarshal(raw, is) != nil {
		return 400, nil
	}
	v.touch(is)
	v.secrets[path] = is
	return 200, is
}

// merged returns an object after a merge patch, as RFC 7386 says.
func merged(is, patch map[string]any) map[string]any {
	if is == nil {
		is = make(map[string]any)
	}
	for key, value := range patch {
		inner, deep := value.(map[string]any)
		old, _ := is[key].(map[string]any)
		switch {
		case value == nil:
			delete(is, key)
		case deep:
			is[key] = merged(old, inner)
		default:
			is[key] = value
		}
	}
	return is
}

// estate is a plan of 20 nodes of every sort: objects, collections, a value that is made
// once, a lookup, and things of which some keep their outcome in a Secret.
func (v *vault) estate(p *Plan, plants kube.Resource[plant], secrets kube.Resource[corev1.Secret], tools, safes *Things[tool]) {
	about := func(name string, needs string) *plant {
		o := named(name)
		o.Annotations = map[string]string{"needs": needs}
		return o
	}
	made := func(o *plant) ready.State {
		if o.isReady() {
			return ready.State{Phase: ready.Ready}
		}
		return ready.State{Phase: ready.Waiting}
	}
	step := func(name string, things *Things[tool], needs string) *Node[tool] {
		return Step(p, name, things, func(Inputs) (*tool, error) { return &tool{Name: name, Color: "red", Needs: needs}, nil })
	}
	once := Once(p, "once", secrets, func(Inputs) (*corev1.Secret, error) {
		o := &corev1.Secret{StringData: map[string]string{"value": rand.Text()}}
		o.Name = "once"
		return o, nil
	})
	soil := Object(p, "soil", plants, func(Inputs) (*plant, error) { return about("soil", ""), nil }).ReadyWhen(made).UntilGone()
	safe := step("safe", safes, "soil").Needs(soil, once).UntilGone()
	late := step("late", safes, "safe").Needs(safe)
	bare := step("bare", tools, "")
	keys := []string{"1", "2", "3", "4"}
	beds := Each(p, "bed", keys, plants, func(in Inputs, key string) (*plant, error) {
		if safe.Outcome(in)["id"] == "" {
			return nil, fmt.Errorf("bed %s is built without the outcome", key)
		}
		return about("bed"+key, "soil,safe"), nil
	}).Needs(soil, safe).Do(func(_ string, n *Node[plant]) { n.ReadyWhen(made) })
	hoses := EachStep(p, "hose", keys, tools, func(_ Inputs, key string) (*tool, error) {
		return &tool{Name: "hose" + key, Color: "red", Needs: "bed" + key}, nil
	}).Do(func(key string, n *Node[tool]) { n.Needs(beds.Key(key)) })
	rows := Each(p, "row", keys, plants, func(_ Inputs, key string) (*plant, error) {
		return about("row"+key, "hose"+key), nil
	}).Do(func(key string, n *Node[plant]) { n.Needs(hoses.Key(key)).ReadyWhen(made) })
	read := Lookup(p, "read", plants, kube.Key{Name: "soil"}).Needs(soil).ReadyWhen(made)
	Object(p, "gate", plants, func(Inputs) (*plant, error) {
		return about("gate", "row1,row2,row3,row4,late,bare"), nil
	}).Needs(rows, late, bare, read).ReadyWhen(made)
	Object(p, "never", plants, func(Inputs) (*plant, error) { return about("never", ""), nil }).When(func(Inputs) bool { return false })
}

// A process of the operator is killed at a request or call of the life of a plan, which the
// server has executed or not. The next one brings it to its end.
func TestKilledAtRequests(t *testing.T) {
	const every = 5
	first := mathrand.N(every)
	t.Logf("from request %d on, every %d", first, every)
	killedAt(t, first, every)
}

// TestSoakKilledAtEachRequest kills it at each of them.
func TestSoakKilledAtEachRequest(t *testing.T) { killedAt(t, 0, 1) }

func killedAt(t *testing.T, first, every int) {
	const most = 1000
	for _, executed := range []bool{false, true} {
		ended := false
		for killAt := first; !ended; killAt += every {
			if killAt >= most {
				t.Fatal("the plan sends requests without end")
			}
			if executed && killAt == 0 {
				continue
			}
			synctest.Test(t, func(t *testing.T) { ended = killedOnce(t, killAt, executed) })
			if t.Failed() {
				t.Fatalf("killed at %d, executed %t", killAt, executed)
			}
			if ended && killAt < 100 {
				t.Errorf("the process sends %d requests, which are too few for the test", killAt)
			}
		}
	}
}

// killedOnce reports that the process was not killed, because it sends fewer requests.
func killedOnce(t *testing.T, killAt int, executed bool) (ended bool) {
	v := &vault{newWorld(), make(map[string]*corev1.Secret)}
	v.killAt, v.lost = killAt, executed
	var tools, safes *Things[tool]
	process := func() {
		tools, safes = v.shed.things(), v.shed.things()
		safes.Kind = "Safe"
		safes.Outcome = func(is *tool) map[string]string { return map[string]string{"id": is.ID} }
		safes.Keep = nil
	}
	process()
	killed := false
	turn := func(f func(ctx context.Context, p *Plan) (controller.Action, error)) (controller.Action, error) {
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		v.kill = func() {
			killed = true
			kill()
		}
		client, err := kube.Config{Rest: &rest.Config{Host: "http://world", Transport: v}, Namespace: "default"}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		g := v.read()
		secrets := kube.For[corev1.Secret](client)
		safes.Keep = InSecret(secrets)
		p := New(kube.For[garden](client), g, &g.Status.Status)
		p.Concurrency = 1
		v.estate(p, kube.For[plant](client), secrets, tools, safes)
		action, err := f(ctx, p)
		if killed && ctx.Err() != nil {
			v.killAt, v.lost = -2, false
			process()
		}
		return action, err
	}
	until := func(what string, done func(controller.Action) bool, f func(ctx context.Context, p *Plan) (controller.Action, error)) {
		t.Helper()
		var action controller.Action
		var err error
		for range 300 {
			if action, err = turn(f); err == nil && done(action) {
				return
			}
			time.Sleep(min(max(time.Duration(action), time.Second), 10*time.Second))
			v.grow(all)
		}
		t.Fatalf("%s: %v %v\nstatus %+v\n%s", what, action, err, v.garden().Status.Nodes, strings.Join(v.story, "\n"))
	}
	settled := func(controller.Action) bool {
		return !slices.ContainsFunc(v.garden().Status.Nodes, func(n NodeStatus) bool { return n.State != Ready && n.State != Absent })
	}
	run := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Run(ctx) }
	until("it does not settle", settled, run)
	if n := len(v.garden().Status.Nodes); n != 20 || len(v.plants()) != 10 || len(v.shed.tools) != 7 || len(v.secrets) != 3 {
		t.Errorf("%d nodes, plants %v, tools %v, %d secrets", n, v.plants(), v.shed.names(), len(v.secrets))
	}
	if calm := v.killAt < 0 && !v.lost; calm {
		before := v.snapshot()
		v.shed.calls = nil
		if _, err := turn(run); err != nil || v.snapshot() != before || len(v.shed.calls) > 0 {
			t.Errorf("a settled plan changes something: %v, calls %v", err, v.shed.calls)
		}
	}
	remove := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Delete(ctx) }
	until("the deletion does not end", func(a controller.Action) bool { return a == controller.Done }, remove)
	v.grow(all)
	time.Sleep(time.Hour)
	delete(v.secrets, "once") // has an owner reference
	if len(v.plants())+len(v.shed.names())+len(v.secrets) > 0 {
		t.Errorf("left are %v %v %v", v.plants(), v.shed.names(), v.secrets)
	}
	for _, broken := range v.broken {
		t.Error(broken)
	}
	return !killed
}
