package kube

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/pintle-go/pintle/kubetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestBuiltinKinds compares the table of k8s.io/api with the discovery of a server. That
// server serves all kinds that it can.
func TestBuiltinKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true, APIServerArgs: []string{
		"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true",
	}})
	client, err := Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()

	types := make(map[GVK]reflect.Type)
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if strings.HasPrefix(typ.PkgPath(), "k8s.io/api/") {
			types[gvk] = typ
		}
	}
	served, compared := 0, 0
	found := make(map[GVK]bool)
	for _, gv := range servedVersions(t, ctx, client) {
		kinds, err := client.discovery.request(ctx, gv)
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range kinds {
			gvk := gv.WithKind(kind)
			typ, ok := types[gvk]
			if !ok {
				continue // kind of apiextensions or apiregistration
			}
			served++
			found[gvk] = true
			got, ok := builtinKind(typ)
			switch {
			case !ok:
				t.Errorf("%s is not known as %s", typ, gvk)
			case got.GVK != gvk || got.Plural != want.plural || got.Scope != want.scope:
				t.Errorf("%s is known as %s, %s, %s; the server has %s, %s, %s", typ, got.GVK, got.Plural, got.Scope, gvk,
					want.plural, want.scope)
			default:
				compared++
			}
		}
	}
	if served < 90 {
		t.Errorf("the server serves %d kinds of k8s.io/api; were there not more?", served)
	}
	t.Logf("%d of %d served kinds agree", compared, served)
	// Some kinds are served as subresources only, or are not served any more. The scheme
	// knows the group of these kinds.
	for gvk, typ := range types {
		if _, object := reflect.New(typ).Interface().(object); !object || found[gvk] {
			continue
		}
		if got, ok := builtinKind(typ); !ok || got.GVK != gvk {
			t.Errorf("%s is known as %s, the scheme says %s", typ, got.GVK, gvk)
		}
	}
}

func servedVersions(t *testing.T, ctx context.Context, client *Client) []schema.GroupVersion {
	t.Helper()
	body, _, err := client.roundTrip(ctx, &request{verb: "discover", method: http.MethodGet, path: "/apis",
		accept: typeJSON})
	if err != nil {
		t.Fatal(err)
	}
	var groups metav1.APIGroupList
	if err := json.Unmarshal(body, &groups); err != nil {
		t.Fatal(err)
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	return versions
}
