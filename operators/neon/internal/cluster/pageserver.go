package cluster

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// pageserverFiles returns the content of the Secret with a pageserver's configuration. The
// keys of pageserver.toml are those of upstream's libs/pageserver_api/src/config.rs.
func pageserverFiles(c *api.NeonCluster, id int64, key token.Key) (map[string][]byte, error) {
	zone, _ := zoneOf(c.Spec.Pageservers.Zones, c.Status.Pageservers, id)
	host := PageserverHost(c.Name, c.Namespace, id)
	metadata, err := json.Marshal(struct {
		Host      string `json:"host"`
		Port      int    `json:"port"`
		HTTPHost  string `json:"http_host"`
		HTTPPort  int    `json:"http_port"`
		HTTPSPort *int   `json:"https_port,omitempty"`
		Zone      string `json:"availability_zone_id"`
	}{host, PageserverPort, host, PageserverHTTPPort, securePort(stageOf(c), PageserverHTTPPort), zone})
	if err != nil {
		return nil, fmt.Errorf("encode metadata of pageserver %d: %w", id, err)
	}
	upcall := urlOf(c, about(c, "controller").Name, ControllerPort) + "/upcall/v1/"
	lines := []string{
		fmt.Sprintf("listen_pg_addr='0.0.0.0:%d'", PageserverPort),
		fmt.Sprintf("listen_http_addr='%s'", pageserverPlain(c)),
		"broker_endpoint=" + quote(brokerURL(c)),
		"pg_distrib_dir='/usr/local/'",
		"control_plane_api=" + quote(upcall),
		"control_plane_api_token=" + quote(key.Sign(token.Claims{Scope: token.Generations})),
		"http_auth_type='NeonJWT'", "pg_auth_type='NeonJWT'", "grpc_auth_type='NeonJWT'",
		"auth_validation_public_key_path='/data/.neon/" + publicPEM + "'",
		"availability_zone=" + quote(zone),
		"remote_storage=" + remoteStorage(c, "pageserver"),
		// By default upstream also keeps two gigabytes free. A smaller volume would never have them, and
		// lose all its pages each minute.
		"disk_usage_based_eviction={max_usage_pct=80, min_avail_bytes=0, period='60s'}",
	}
	// The page service stays plain: with TLS it refuses base backups, which ask for none.
	if port := securePort(stageOf(c), PageserverHTTPPort); port != nil {
		lines = append(lines, fmt.Sprintf("listen_https_addr='0.0.0.0:%d'", *port),
			"ssl_key_file="+quote(keyPath), "ssl_cert_file="+quote(certPath),
			"ssl_ca_file="+quote(bundlePath))
	}
	return map[string][]byte{
		"identity.toml":   fmt.Appendf(nil, "id=%d\n", id),
		"pageserver.toml": []byte(strings.Join(lines, "\n") + "\n"),
		"metadata.json":   metadata,
		publicPEM:         key.Public().PEM(),
		"NEON_AUTH_TOKEN": []byte(key.Sign(token.Claims{Scope: token.Safekeeper})),
	}, nil
}

// pageserver is a program that serves the data's pages. Its directory is on its volume, and
// the files of its configuration are mounted into it, one by one: it writes beside them.
func pageserver(c *api.NeonCluster, id int64, files map[string][]byte) part {
	meta := aboutMember(c, "pageserver", id)
	_, label := zoneOf(c.Spec.Pageservers.Zones, c.Status.Pageservers, id)
	env, account := storeAccess(c)
	env = append(env, secretEnv("NEON_AUTH_TOKEN", meta.Name, "NEON_AUTH_TOKEN"))
	p := part{
		about: meta, image: c.Spec.Image, args: []string{"pageserver", "-D", "/data/.neon"}, env: env,
		ports:     []corev1.ContainerPort{port("http", PageserverHTTPPort), port("postgres", PageserverPort)},
		inData:    []string{"identity.toml", "pageserver.toml", "metadata.json", publicPEM},
		started:   "/v1/status",
		ready:     "/v1/status",
		data:      "/data/.neon",
		zone:      label,
		account:   account,
		resources: c.Spec.Pageservers.Resources, pullSecrets: c.Spec.ImagePullSecrets,
		grace:         300,
		configuration: string(files["pageserver.toml"]) + string(files["metadata.json"]),
	}
	switch at := stageOf(c); {
	case at >= closing:
		p.secured()
	case at >= joining:
		p.alsoSecured("tls")
	}
	return p
}

// pageserverPlain is the address of the port without TLS, on which the program insists.
func pageserverPlain(c *api.NeonCluster) string {
	if stageOf(c) >= closing {
		return fmt.Sprintf("127.0.0.1:%d", PageserverHTTPPort-1)
	}
	return fmt.Sprintf("0.0.0.0:%d", PageserverHTTPPort)
}
