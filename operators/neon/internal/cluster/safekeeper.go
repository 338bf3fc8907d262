package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// safekeeperTokens returns the content of the Secret that all safekeepers share.
func safekeeperTokens(key token.Key) map[string][]byte {
	return map[string][]byte{
		publicPEM: key.Public().PEM(), tokenFile: []byte(key.Sign(token.Claims{Scope: token.Safekeeper})),
	}
}

// safekeeper is a program that keeps the newest part of the history.
func safekeeper(c *api.NeonCluster, id int64) part {
	meta := aboutMember(c, "safekeeper", id)
	name, label := zoneOf(c.Spec.Safekeepers.Zones, c.Status.Safekeepers, id)
	env, account := storeAccess(c)
	p := part{
		about: meta, image: c.Spec.Image,
		args: []string{
			"safekeeper", "-D", "/data", fmt.Sprintf("--id=%d", id),
			fmt.Sprintf("--listen-pg=0.0.0.0:%d", SafekeeperPort),
			fmt.Sprintf("--listen-http=0.0.0.0:%d", SafekeeperHTTPPort),
			fmt.Sprintf("--advertise-pg=%s:%d", SafekeeperHost(c.Name, c.Namespace, id), SafekeeperPort),
			"--broker-endpoint=" + brokerURL(c),
			"--availability-zone=" + name,
			"--remote-storage=" + remoteStorage(c, "safekeeper"),
			"--pg-auth-public-key-path=/keys/" + publicPEM,
			"--http-auth-public-key-path=/keys/" + publicPEM,
			"--auth-token-path=/keys/" + tokenFile,
			"--enable-offload", "--delete-offloaded-wal",
		},
		env:   env,
		ports: []corev1.ContainerPort{port("http", SafekeeperHTTPPort), port("postgres", SafekeeperPort)},
		files: map[string]corev1.VolumeSource{
			"/keys": secretFiles(about(c, "safekeeper").Name, publicPEM, tokenFile),
		},
		started: "/v1/status", ready: "/v1/status", data: "/data", zone: label, account: account,
		resources: c.Spec.Safekeepers.Resources, pullSecrets: c.Spec.ImagePullSecrets,
		grace: 60,
	}
	// The WAL service stays plain: with TLS it refuses upstream's receivers of WAL, which ask for none.
	switch at := stageOf(c); {
	case at >= closing:
		// The program insists on a port without TLS. On the loopback address it is the pod's own.
		i := slices.Index(p.args, fmt.Sprintf("--listen-http=0.0.0.0:%d", SafekeeperHTTPPort))
		p.args[i] = fmt.Sprintf("--listen-http=127.0.0.1:%d", SafekeeperHTTPPort-1)
		p.args = append(p.args, fmt.Sprintf("--listen-https=0.0.0.0:%d", SafekeeperHTTPPort))
		p.args = append(p.args, servingFlags...)
		p.args = append(p.args, authorityFlag, "--use-https-safekeeper-api")
		p.secured()
	case at >= joining:
		p.args = append(p.args, fmt.Sprintf("--listen-https=0.0.0.0:%d", beside(SafekeeperHTTPPort)))
		p.args = append(p.args, servingFlags...)
		p.args = append(p.args, authorityFlag)
		p.alsoSecured("tls")
	}
	return p
}
