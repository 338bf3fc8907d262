package plural

import "testing"

func TestPlural(t *testing.T) {
	for kind, want := range map[string]string{
		"Book": "books", "Foo": "foos", "Echo": "echoes", "ServerEcho": "serverechoes", "Photo": "photos", "Repo": "repos",
		"Gateway": "gateways", "Policy": "policies", "NetworkPolicy": "networkpolicies", "Proxy": "proxies", "Ingress": "ingresses",
		"Endpoints": "endpoints", "Box": "boxes", "Batch": "batches", "Quiz": "quizzes", "Status": "statuses", "Prometheus": "prometheuses",
		"Analysis": "analyses", "Leaf": "leaves", "Person": "people", "Human": "humans", "Farm": "farms", "Neon": "neons",
		"NodeLocalDNS": "nodelocaldnses", "DNSZone": "dnszones", "TimeSeries": "timeseries", "Tenant": "tenants", "Redis": "redis",
		"HTTPRoute": "httproutes", "Key": "keys", "ClusterEcho": "clusterechoes", "Y": "ys",
	} {
		if got := Of(kind); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
