package compute

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
)

// TestReadable holds the keys to the forms that upstream's compute_ctl reads.
func TestReadable(t *testing.T) {
	t.Parallel()
	a, err := trust.Terms{}.Next(nil, time.Now(), false)
	if err != nil {
		t.Fatal(err)
	}
	data, err := trust.Terms{}.Server(a, nil, []string{"orders.data.svc"}, time.Now(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := readable(data[trust.Cert], data[trust.Key]); err != nil {
		t.Errorf("a key of the operator: %v", err)
	}
	pair, err := tls.X509KeyPair(data[trust.Cert], data[trust.Key])
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.Key(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := readable(data[trust.Cert], other); err == nil || err.Error() != "parse key" {
		t.Errorf("the same key as PKCS #8: %v", err)
	}
}

// TestDemands refuses modes that check nothing.
func TestDemands(t *testing.T) {
	t.Parallel()
	var c spec.Config
	if keepers, pages, err := demands(c); keepers != nil || pages != nil || err != nil {
		t.Errorf("without settings: %v, %v, %v", keepers, pages, err)
	}
	c.Spec.Cluster.Settings = []spec.Option{{Name: "neon.safekeeper_conninfo_options", Value: "sslmode=require", Type: "string"}}
	if _, _, err := demands(c); err == nil || !strings.Contains(err.Error(), "require") {
		t.Errorf("sslmode=require: %v", err)
	}
}
