package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
)

// peer is a pod that connects to another one.
type peer struct {
	namespace string
	labels    map[string]string
}

// lets reports whether a policy lets a peer in at a port.
func lets(t *testing.T, p *networkingv1.NetworkPolicy, from peer, port int32) bool {
	t.Helper()
	selects := func(s *metav1.LabelSelector, of map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(labels.Set(of))
	}
	for _, rule := range p.Spec.Ingress {
		if !slices.ContainsFunc(rule.Ports, func(n networkingv1.NetworkPolicyPort) bool { return n.Port.IntVal == port }) {
			continue
		}
		if len(rule.From) == 0 {
			return true
		}
		for _, f := range rule.From {
			there := from.namespace == p.Namespace
			if f.NamespaceSelector != nil {
				there = selects(f.NamespaceSelector, map[string]string{corev1.LabelMetadataName: from.namespace})
			}
			if there && (f.PodSelector == nil || selects(f.PodSelector, from.labels)) {
				return true
			}
		}
	}
	return false
}

// TestDoors lists all connections to the programs of a cluster that are let in.
func TestDoors(t *testing.T) {
	t.Parallel()
	c := sample()
	operator := map[string]string{"app.kubernetes.io/name": "neon-operator"}
	all := policies(c, policy.Peers{Namespace: "operators", Labels: operator, Scrapers: []string{"monitoring"}})
	compute := func(of string) map[string]string {
		return map[string]string{nameLabel: "neon", instanceLabel: "shop", componentLabel: "compute", policy.ClusterLabel: of}
	}
	other := sample()
	other.Name = "other"
	peers := map[string]peer{
		"operator": {"operators", operator}, "impostor": {"data", operator}, "neighbour": {"operators", nil},
		"prometheus": {"monitoring", nil}, "stranger": {"data", nil},
		"compute": {"data", compute("main")}, "compute elsewhere": {"prod", compute("main")}, "compute of other": {"data", compute("other")},
		"safekeeper of other": {"data", about(other, "safekeeper").Labels},
	}
	for _, part := range []string{"broker", "controller", "safekeeper", "pageserver", "store", "database"} {
		peers[part] = peer{"data", about(c, part).Labels}
	}
	// The programs' own ports, whether a policy has them or not.
	ports := map[string][]int32{}
	for name, p := range map[string]part{
		"store": store(c), "database": database(c), "broker": broker(c), "safekeeper": safekeeper(c, 1),
		"pageserver": pageserver(c, 1, nil), "controller": storageController(c, "", databaseURL(c)),
	} {
		for _, port := range p.ports {
			ports[name] = append(ports[name], port.ContainerPort)
		}
		if all[name] == nil {
			t.Errorf("%s has no policy", name)
		} else if !labels.SelectorFromSet(all[name].Spec.PodSelector.MatchLabels).Matches(labels.Set(p.template().Labels)) {
			t.Errorf("the policy of %s is for other pods", name)
		}
	}
	got := map[string][]string{}
	for _, to := range slices.Sorted(maps.Keys(ports)) {
		for _, port := range ports[to] {
			at := fmt.Sprintf("%s:%d", to, port)
			for _, from := range slices.Sorted(maps.Keys(peers)) {
				if lets(t, all[to], peers[from], port) {
					got[at] = append(got[at], from)
				}
			}
		}
	}
	want := map[string][]string{
		"broker:50051":    {"pageserver", "prometheus", "safekeeper"},
		"controller:1234": {"controller", "operator", "pageserver", "prometheus"},
		"safekeeper:5454": {"compute", "pageserver", "safekeeper"},
		"safekeeper:7676": {"controller", "operator", "prometheus", "safekeeper"},
		"pageserver:6400": {"compute"},
		"pageserver:9898": {"controller", "operator", "prometheus"},
		"store:7070":      {"operator", "pageserver", "safekeeper"},
		"database:5432":   {"controller", "operator"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("who may connect (-want +got):\n%s", diff)
	}
}

// TestOnlyManagedPartsHavePolicies: a bucket and a database of others have no pods here.
func TestOnlyManagedPartsHavePolicies(t *testing.T) {
	t.Parallel()
	c := sample()
	c.Spec.ObjectStore, c.Spec.ControllerDatabase = api.ObjectStore{S3: new(api.S3)}, api.ControllerDatabase{URL: new(api.SecretKey)}
	got := slices.Sorted(maps.Keys(policies(c, policy.Peers{})))
	if want := []string{"broker", "controller", "pageserver", "safekeeper"}; !slices.Equal(got, want) {
		t.Errorf("the policies are of %v, want %v", got, want)
	}
}

// TestGuardOnServer lets the API server judge the objects.
func TestGuardOnServer(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	c := sample()
	c.Namespace = ns
	for name, p := range policies(c, policy.Peers{Namespace: ns, Labels: map[string]string{"a": "b"}, Scrapers: []string{"m"}}) {
		is, err := kube.For[networkingv1.NetworkPolicy](client).In(ns).Apply(t.Context(), p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(p.Spec, is.Spec); diff != "" {
			t.Errorf("%s: the server has something else (-want +got):\n%s", name, diff)
		}
	}
	for _, component := range []string{"pageserver", "safekeeper"} {
		is, err := kube.For[policyv1.PodDisruptionBudget](client).In(ns).Apply(t.Context(), budget(c, component))
		if err != nil {
			t.Errorf("%s: %v", component, err)
			continue
		}
		if is.Spec.MaxUnavailable.IntVal != 1 {
			t.Errorf("%s: %+v", component, is.Spec)
		}
	}
}
