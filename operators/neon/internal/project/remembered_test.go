package project

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
)

// played plays an API server with lists by the ends of paths. It is no more exact than its tests need.
type played struct {
	mu    sync.Mutex
	lists map[string]string // plural: JSON items
	one   map[string]string // plural/name: JSON
	sent  []string          // writes
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	q := r.URL.Query()
	if r.Method != http.MethodGet {
		body := ""
		if r.Body != nil {
			b, _ := io.ReadAll(r.Body)
			body = string(b)
		}
		p.sent = append(p.sent, r.Method+" "+r.URL.Path+" "+body)
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	if q.Get("watch") == "true" {
		if q.Get("sendInitialEvents") == "true" {
			return answer(422, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":422,"reason":"Invalid",
				"message":"sendInitialEvents is forbidden"}`)
		}
		watch, end := io.Pipe()
		context.AfterFunc(r.Context(), func() { end.CloseWithError(r.Context().Err()) })
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: watch, Request: r,
		}, nil
	}
	if last == "v1alpha1" {
		res := ""
		for _, k := range []string{"NeonProject", "NeonBranch", "NeonCluster"} {
			plural := strings.ToLower(k) + "s"
			if k == "NeonBranch" {
				plural = "neonbranches"
			}
			res += `,{"name":"` + plural + `","singularName":"","namespaced":true,"kind":"` + k +
				`","verbs":["get","list","watch","patch"]}`
		}
		return answer(200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"neon.pintle.dev/v1alpha1","resources":[`+res[1:]+`]}`)
	}
	if items, ok := p.lists[last]; ok && r.Method == http.MethodGet {
		of := map[string]string{"statefulsets": `"apps/v1","kind":"StatefulSetList"`, "pods": `"v1","kind":"PodList"`,
			"secrets": `"v1","kind":"SecretList"`, "neonprojects": `"neon.pintle.dev/v1alpha1","kind":"NeonProjectList"`,
			"neonbranches": `"neon.pintle.dev/v1alpha1","kind":"NeonBranchList"`, "neonclusters": `"neon.pintle.dev/v1alpha1","kind":"NeonClusterList"`}[last]
		return answer(200, `{"apiVersion":`+of+`,"metadata":{"resourceVersion":"9"},"items":[`+items+`]}`)
	}
	if len(parts) > 1 {
		if one, ok := p.one[parts[len(parts)-2]+"/"+last]; ok {
			return answer(200, one)
		}
	}
	return answer(404, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{"name":"x"}}`)
}

const keysOfMain = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":"main-keys","uid":"k","resourceVersion":"5",
 "annotations":{"tenant.neon.pintle.dev/app":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}}`

// operatorOf returns an operator of a cluster whose keys remember the tenant of the name app.
func operatorOf(t *testing.T) (*Operator, *played) {
	t.Helper()
	p := &played{lists: map[string]string{"secrets": keysOfMain, "neonprojects": "", "neonbranches": "", "neonclusters": ""},
		one: map[string]string{"secrets/main-keys": keysOfMain}}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: p}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	secrets := kube.For[corev1.Secret](client)
	op := &Operator{Projects: kube.For[api.NeonProject](client), Branches: kube.For[api.NeonBranch](client),
		Clusters: kube.For[api.NeonCluster](client), Clients: &cluster.Clients{Secrets: secrets}}
	op.Start()
	secrets.Open(ctx)
	op.Projects.Open(ctx)
	op.Branches.Open(ctx)
	op.Clusters.Open(ctx)
	return op, p
}

// What the cluster remembers of a name stays until an object of the name had other data, or had it deleted.
func TestRememberedTenantStays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *api.NeonProject)
		want   string // part of the write to the Secret, "" for none
	}{
		"deleted before it had the tenant":    {func(o *api.NeonProject) { o.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, ""},
		"the tenant of its spec is not there": {func(o *api.NeonProject) { o.Spec.TenantID = strings.Repeat("b", 32) }, ""},
		"the tenant of its spec is its own": {func(o *api.NeonProject) {
			o.Spec.TenantID = strings.Repeat("b", 32)
			o.Status.TenantID, o.Status.Shards = o.Spec.TenantID, []api.Shard{{}}
		}, `"tenant.neon.pintle.dev/app":"bbbb`},
	} {
		t.Run(name, func(t *testing.T) {
			op, server := operatorOf(t)
			o := new(api.NeonProject)
			o.Namespace, o.Name, o.UID = "ns", "app", "11111111-1111-1111-1111-111111111111"
			o.Spec.Cluster, o.Spec.DeletionPolicy = "main", api.Delete
			c.change(o)
			var err error
			if o.DeletionTimestamp != nil {
				_, err = op.cleanup(t.Context(), o)
			} else {
				_, err = op.identify(t.Context(), o)
			}
			if err != nil {
				t.Fatal(err)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			var wrote string
			for _, w := range server.sent {
				if strings.Contains(w, "/secrets/") {
					wrote += w
				}
			}
			if (wrote == "") != (c.want == "") || !strings.Contains(wrote, c.want) {
				t.Errorf("wrote %q, want %q", wrote, c.want)
			}
		})
	}
}
