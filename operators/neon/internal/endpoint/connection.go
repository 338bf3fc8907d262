package endpoint

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
)

// Proxy is where clients connect to endpoints that may be suspended.
type Proxy struct {
	Host string
	Port int
	// TLS says that it serves TLS, and nothing else.
	TLS bool
}

// leads reports that clients of an endpoint shall connect through the proxy. Those of an endpoint
// that is never suspended for being idle gain nothing by it.
func (p *Proxy) leads(e *api.NeonEndpoint) bool { return p != nil && e.Spec.SuspendAfterSeconds > 0 }

// HostName returns the endpoint that the host name of a client's TLS connection means, as in
// NAME.NAMESPACE.db.example.com. The proxy's own name means none.
func (p *Proxy) HostName(host string) string {
	if named := HostName(host); !strings.EqualFold(named, HostName(p.Host)) {
		return named
	}
	return ""
}

// loginAt is an address, and the name of a role there.
type loginAt struct {
	host, user string
	port       int
}

// logins returns where clients log in as a role, and where they reach the compute itself.
//
// The user's name tells the proxy which endpoint is meant: USER.NAME.NAMESPACE. Each client of
// PostgreSQL sends a name, whether it is given a URI, separate values or PG* variables. A host
// name (SNI) needs TLS and a name in the DNS for each endpoint, and options are not known to all
// drivers. The proxy understands those too.
func (op *Operator) logins(e *api.NeonEndpoint, role string) (first, direct loginAt) {
	direct = loginAt{fmt.Sprintf("%s.%s.svc", e.Name, e.Namespace), role, clientPort}
	if !op.Proxy.leads(e) {
		return direct, direct
	}
	return loginAt{op.Proxy.Host, role + "." + ProxyName(e), op.Proxy.Port}, direct
}

// connection returns the Secret by which a role logs in at an endpoint. Its keys are those of
// https://servicebinding.io and those that CloudNativePG has. Keys that begin with "direct-" are of
// the compute itself, which refuses clients while it is suspended.
func (op *Operator) connection(ctx context.Context, e *api.NeonEndpoint, r *api.NeonRole) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name + "-" + r.Name, Labels: labels(e)},
		Type:       corev1.SecretTypeBasicAuth,
	}
	own := computeName(e)
	if slices.Contains([]string{own, cluster.CertificateName(own), certmanager.SecretName(own)}, secret.Name) {
		return nil, fmt.Errorf("keep Secret %s, which is a part of the endpoint: make another NeonRole of this name in "+
			"PostgreSQL (spec.name)", secret.Name)
	}
	from, err := op.Secrets.In(e.Namespace).Cached().Get(ctx, r.Status.Secret)
	if err != nil {
		return nil, fmt.Errorf("get the password of NeonRole %s: %w", r.Name, err)
	}
	database := "postgres"
	all, err := databases.usable(op.databasesOn(ctx, e.Namespace, e.Spec.Branch))
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(d *api.NeonBranchDatabase) bool { return d.Spec.Owner == r.Name }); i >= 0 {
		database = databaseName(all[i])
	}
	password := string(from.Data[passwordKey])
	at, direct := op.logins(e, roleName(r))
	query, login := url.Values{}, url.Values{"user": {at.user}, "password": {password}}
	data := map[string][]byte{
		"type": []byte("postgresql"), "provider": []byte("neon"),
		"host": []byte(at.host), "port": fmt.Append(nil, at.port), "database": []byte(database), "dbname": []byte(database),
		"username": []byte(at.user), "user": []byte(at.user), "password": []byte(password),
		"pgpass":      []byte(pgpass(at, password, database)),
		"direct-host": []byte(direct.host), "direct-port": fmt.Append(nil, direct.port), "direct-username": []byte(direct.user),
		"direct-uri": []byte(uri(direct, password, database, nil)),
	}
	if at != direct && op.Proxy.TLS {
		query.Set("sslmode", "require")
		login.Set("sslmode", "require")
		data["sslmode"] = []byte("require")
	}
	data["uri"] = []byte(uri(at, password, database, query))
	data["jdbc-uri"] = fmt.Appendf(nil, "jdbc:postgresql://%s:%d/%s?%s", at.host, at.port, database, login.Encode())
	secret.Data = data
	return secret, nil
}

func uri(at loginAt, password, database string, query url.Values) string {
	u := url.URL{
		Scheme: "postgresql", User: url.UserPassword(at.user, password),
		Host: fmt.Sprintf("%s:%d", at.host, at.port), Path: "/" + database, RawQuery: query.Encode(),
	}
	return u.String()
}

// pgpass returns a line of libpq's file of passwords. In it, fields end at a colon.
func pgpass(at loginAt, password, database string) string {
	plain := strings.NewReplacer(`\`, `\\`, ":", `\:`)
	return fmt.Sprintf("%s:%d:%s:%s:%s\n", at.host, at.port, database, at.user, plain.Replace(password))
}
