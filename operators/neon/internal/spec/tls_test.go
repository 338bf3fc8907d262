package spec

import (
	"strings"
	"testing"
)

// TestTLS renders the configuration of a compute that serves TLS to its clients. It asks the storage for none:
// upstream's WAL and page services are plain.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Primary(), Replica(), Static("0/20C9440")} {
		in := input(mode)
		in.Shards, in.StripeSize = append(in.Shards, Place{Pageserver: 2, Host: "ps-2", Port: 6400}), 32768
		in.TLS = &TLS{KeyPath: "/tls/tls.key", CertPath: "/tls/tls.crt"}
		c, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Spec.Features) != 1 || c.Spec.Features[0] != "tls_experimental" || c.ComputeCtl.TLS == nil {
			t.Errorf("%s: compute_ctl serves no TLS: %v", mode, c.Spec.Features)
		}
		if strings.Contains(c.Spec.PageserverURLs, "ssl") {
			t.Errorf("%s: compute_ctl cannot use %s", mode, c.Spec.PageserverURLs)
		}
		settings := map[string]string{}
		for _, o := range c.Spec.Cluster.Settings {
			settings[o.Name] = o.Value
		}
		for name, value := range settings {
			if strings.Contains(value, "sslmode") || strings.Contains(value, "sslrootcert") {
				t.Errorf("%s: %s asks the storage for TLS: %s", mode, name, value)
			}
		}
		moved := in
		moved.Shards = append([]Place{}, in.Shards...)
		moved.Shards[1].Host = "ps-3"
		after, err := Render(moved)
		if err != nil {
			t.Fatal(err)
		}
		if hot, why := Hot(c, after); !hot {
			t.Errorf("%s: a shard that moves restarts the compute because of %s", mode, why)
		}
	}
}
