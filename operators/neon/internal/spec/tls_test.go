package spec

import (
	"strings"
	"testing"
)

// TestTLS renders the configuration of a compute that demands TLS of the storage. compute_ctl, which
// cannot, has addresses that demand none.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Primary(), Replica(), Static("0/20C9440")} {
		in := input(mode)
		in.Shards, in.StripeSize = append(in.Shards, Place{Pageserver: 2, Host: "ps-2", Port: 6400}), 32768
		in.TLS, in.Bundle = &TLS{KeyPath: "/tls/tls.key", CertPath: "/tls/tls.crt"}, "/tls/ca.crt"
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
		const checked = "sslmode=verify-full sslrootcert=/tls/ca.crt"
		urls := "postgres://no_user@127.0.0.1:6401?sslmode=verify-full&sslrootcert=/tls/ca.crt," +
			"postgres://no_user@ps-2:6400?sslmode=verify-full&sslrootcert=/tls/ca.crt"
		if settings["neon.pageserver_connstring"] != urls || settings["neon.safekeeper_conninfo_options"] != checked {
			t.Errorf("%s: the settings are %v", mode, settings)
		}
		if mode == Replica() && !strings.HasSuffix(settings["primary_conninfo"], " "+checked) {
			t.Errorf("a replica has %q", settings["primary_conninfo"])
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
