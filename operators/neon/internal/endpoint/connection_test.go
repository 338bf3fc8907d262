package endpoint

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestConnectionLeadsThroughTheProxy sees that the Secret of an endpoint which may be suspended
// names the endpoint in each of its forms, and that of another leads to the compute.
func TestConnectionLeadsThroughTheProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate(func(op *Operator) { op.Proxy = &Proxy{Host: "proxy.example.com", Port: 6432, TLS: true} })
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch, role.Spec.Name = "shop-app", "trunk", "app"
	_, err := w.roles.Create(w.soon(), role)
	w.ok(err)
	w.create(endpointOf("shop", "trunk"))
	direct, err := w.secrets.Until(w.soon(), "shop-shop-app", func(s *corev1.Secret) bool { return len(s.Data["uri"]) > 0 })
	w.ok(err)
	password := string(direct.Data["password"])
	check := func(s *corev1.Secret, want map[string]string) {
		t.Helper()
		for key, text := range want {
			if got := string(s.Data[key]); got != text {
				t.Errorf("%s is %q, want %q", key, got, text)
			}
		}
	}
	host := "shop." + w.namespace + ".svc"
	own := map[string]string{
		"host": host, "port": "5432", "username": "app", "sslmode": "", "direct-host": host, "direct-username": "app",
		"uri":      "postgresql://app:" + password + "@" + host + ":5432/postgres",
		"jdbc-uri": "jdbc:postgresql://" + host + ":5432/postgres?password=" + password + "&user=app",
	}
	check(direct, own)

	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.SuspendAfterSeconds = 300 })
	proxied, err := w.secrets.Until(w.soon(), "shop-shop-app", func(s *corev1.Secret) bool {
		return string(s.Data["host"]) == "proxy.example.com"
	})
	w.ok(err)
	user := "app.shop." + w.namespace
	check(proxied, map[string]string{
		"port": "6432", "username": user, "user": user, "sslmode": "require", "password": password,
		"uri":         "postgresql://" + user + ":" + password + "@proxy.example.com:6432/postgres?sslmode=require",
		"jdbc-uri":    "jdbc:postgresql://proxy.example.com:6432/postgres?password=" + password + "&sslmode=require&user=" + user,
		"pgpass":      "proxy.example.com:6432:postgres:" + user + ":" + password + "\n",
		"direct-host": host, "direct-port": "5432", "direct-username": "app", "direct-uri": own["uri"],
	})
	w.until("shop", "shows the host", func(e *api.NeonEndpoint) bool { return e.Status.Host == "proxy.example.com" })
	if role, endpoint := SplitUser(user); role != "app" || endpoint != "shop."+w.namespace {
		t.Errorf("the proxy reads %q, %q", role, endpoint)
	}
}

func TestNamesOfEndpoints(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"app": "app|", "app.shop": "app.shop|", "app.shop.default": "app|shop.default",
		"a.b.shop.default": "a.b|shop.default", ".shop.default": ".shop.default|", "": "|",
	} {
		if role, endpoint := SplitUser(user); role+"|"+endpoint != want {
			t.Errorf("user %q is %q of %q", user, role, endpoint)
		}
	}
	p := &Proxy{Host: "neon-operator-proxy.neon-operator.svc"}
	for host, want := range map[string]string{
		"neon-operator-proxy.neon-operator.svc.cluster.local": "", "Neon-Operator-Proxy.neon-operator": "",
		"shop.default.db.example.com": "shop.default", "shop.default": "shop.default",
	} {
		if got := p.HostName(host); !strings.EqualFold(got, want) {
			t.Errorf("host %q is endpoint %q", host, got)
		}
	}
}

// A password that a NeonRole is given can have characters that mean something in its Secret.
func TestLine(t *testing.T) {
	t.Parallel()
	at := loginAt{"shop.default.svc", "app", 5432}
	for password, want := range map[string]string{
		"plain": "shop.default.svc:5432:shop:app:plain\n",
		`a:b\c`: `shop.default.svc:5432:shop:app:a\:b\\c` + "\n",
	} {
		if is := pgpass(at, password, "shop"); is != want {
			t.Errorf("%q: %q, want %q", password, is, want)
		}
	}
}
