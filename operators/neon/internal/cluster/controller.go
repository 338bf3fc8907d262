package cluster

import (
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// controllerTokens returns the content of the Secret with the storage controller's tokens.
func controllerTokens(key token.Key) map[string][]byte {
	sign := func(s token.Scope) []byte { return []byte(key.Sign(token.Claims{Scope: s})) }
	return map[string][]byte{
		"PUBLIC_KEY":              key.Public().PEM(),
		"PAGESERVER_JWT_TOKEN":    sign(token.Pageserver),
		"SAFEKEEPER_JWT_TOKEN":    sign(token.Safekeeper),
		"CONTROL_PLANE_JWT_TOKEN": sign(HookScope),
		"PEER_JWT_TOKEN":          sign(token.Peer),
	}
}

// startController starts the program of its name 0. One from before August 2025 refuses to start with
// the flag that it does not know, by which a pageserver whose disk is lost gets its tenants again:
// https://github.com/neondatabase/neon/pull/12667.
const startController = `flag=--handle-ps-local-disk-loss
case "$("$0" --help)" in
*"$flag"*) set -- "$@" "$flag" ;;
esac
exec "$0" "$@"`

// storageController is the program that places the data. A second one beside it would be
// harmless, but useless: the pods are replaced one after the other.
func storageController(c *api.NeonCluster, hooks string, url api.SecretKey) part {
	meta := about(c, "controller")
	env := []corev1.EnvVar{secretEnv("DATABASE_URL", url.Name, url.Key)}
	for _, name := range []string{
		"CONTROL_PLANE_JWT_TOKEN", "PAGESERVER_JWT_TOKEN", "PEER_JWT_TOKEN", "PUBLIC_KEY", "SAFEKEEPER_JWT_TOKEN",
	} {
		env = append(env, secretEnv(name, meta.Name, name))
	}
	p := part{
		about: meta, image: c.Spec.Image,
		args: []string{
			"/bin/sh", "-c", startController, "storage_controller",
			"--control-plane-url=" + hooks, "--timelines-onto-safekeepers",
		},
		env: env, ports: []corev1.ContainerPort{port("http", ControllerPort)},
		started: "/status", ready: "/ready", resources: c.Spec.StorageController.Resources,
		pullSecrets: c.Spec.ImagePullSecrets,
	}
	listen := "-l"
	if stageOf(c) >= moving {
		listen = "--listen-https"
	}
	p.args = append(p.args, listen, fmt.Sprintf("0.0.0.0:%d", ControllerPort))
	switch at := stageOf(c); {
	case at >= moving:
		p.args = append(p.args, servingFlags...)
		p.args = append(p.args, authorityFlag, "--use-https-pageserver-api", "--use-https-safekeeper-api")
		p.secured()
	case at >= offering:
		p.args = append(p.args, "--listen-https", fmt.Sprintf("0.0.0.0:%d", beside(ControllerPort)))
		p.args = append(p.args, servingFlags...)
		p.args = append(p.args, authorityFlag)
		p.alsoSecured("https")
	}
	return p
}

// HookURL returns the URL at which the operator, which is served at base, has the hooks of a
// cluster.
func HookURL(base string, c *api.NeonCluster) string {
	return base + "/clusters/" + c.Namespace + "/" + c.Name
}

// findPrograms finds the PostgreSQL in the storage's image with which pageservers make data
// directories: that of the data, or else the newest. Its programs look for their libraries where they
// were built, which is not in the image: upstream's libs/postgres_initdb names the place as here.
const findPrograms = `version=
if [ -f "$PGDATA/PG_VERSION" ]; then read -r version <"$PGDATA/PG_VERSION" || true; fi
for v in $version 17 16 15 14; do
  bin=/usr/local/v$v/bin
  if [ -x "$bin/postgres" ]; then break; fi
done
export LD_LIBRARY_PATH="${bin%/bin}/lib"
`

// startDatabase makes a data directory on an empty volume, or goes on with one. A directory that
// was left half-made is made again. Neon's PostgreSQL writes WAL that it can replay after a crash
// only with the library neon_rmgr, where its version has one.
const startDatabase = "set -e\n" + findPrograms + `if [ ! -d "$PGDATA" ]; then
  rm -rf "$PGDATA.new"
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  "$bin/initdb" -D "$PGDATA.new" -U neon --auth-local=trust --auth-host=scram-sha-256 \
    --pwfile=/tmp/password -E UTF8 --locale=C
  rm /tmp/password
  echo "host all all all scram-sha-256" >>"$PGDATA.new/pg_hba.conf"
  mv "$PGDATA.new" "$PGDATA"
fi
unset POSTGRES_PASSWORD
for f in "$LD_LIBRARY_PATH"/neon_rmgr.so "$LD_LIBRARY_PATH"/*/neon_rmgr.so; do
  if [ -e "$f" ]; then set -- -c shared_preload_libraries=neon_rmgr; fi
done
exec "$bin/postgres" "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp`

// stopDatabase ends it in order. SIGTERM would wait until the storage controller disconnects.
const stopDatabase = findPrograms + `exec "$bin/pg_ctl" stop -m fast -w`

// databaseAnswers succeeds while it accepts connections: not while it recovers.
const databaseAnswers = findPrograms + `exec "$bin/pg_isready" -q -h /tmp -U neon -d postgres`

// database is the managed PostgreSQL of the storage controller. It is a part of the storage's
// image, so that a cluster needs no further image.
func database(c *api.NeonCluster) part {
	meta := about(c, "database")
	return part{
		about: meta, image: c.Spec.Image, args: []string{"/bin/sh", "-c", startDatabase},
		env: []corev1.EnvVar{
			{Name: "PGDATA", Value: "/data/postgres"}, secretEnv("POSTGRES_PASSWORD", meta.Name, "password"),
		},
		ports: []corev1.ContainerPort{port("postgres", databasePort)},
		stop:  []string{"/bin/sh", "-c", stopDatabase}, answers: []string{"/bin/sh", "-c", databaseAnswers},
		data: "/data", pullSecrets: c.Spec.ImagePullSecrets,
	}
}

// databaseAccess returns the content of the Secret of the managed database.
func databaseAccess(c *api.NeonCluster, password string) map[string][]byte {
	u := url.URL{
		Scheme: "postgresql", User: url.UserPassword("neon", password), Path: "/postgres",
		Host: fmt.Sprintf("%s:%d", host(about(c, "database").Name, c.Namespace), databasePort),
	}
	return map[string][]byte{"password": []byte(password), "url": []byte(u.String())}
}

// databaseURL says where the URL of the storage controller's database is.
func databaseURL(c *api.NeonCluster) api.SecretKey {
	if u := c.Spec.ControllerDatabase.URL; u != nil {
		return *u
	}
	return api.SecretKey{Name: about(c, "database").Name, Key: "url"}
}
