package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// The environment variables by which programs log in to an object store.
const (
	accessKey = "AWS_ACCESS_KEY_ID"
	secretKey = "AWS_SECRET_ACCESS_KEY"
)

const (
	// storeImage is the object store for development: an S3 service on a directory.
	storeImage  = "ghcr.io/versity/versitygw:v1.8.0"
	storeBucket = "neon"
	storeRegion = "us-east-1"
)

// remoteStorage returns the value of remote_storage, in TOML, for the programs that keep
// their objects below a prefix. Its fields are those of upstream's
// libs/remote_storage/src/config.rs.
func remoteStorage(c *api.NeonCluster, program string) string {
	var fields []string
	set := func(key, value string) {
		if value != "" {
			fields = append(fields, key+"="+quote(value))
		}
	}
	switch s := c.Spec.ObjectStore; {
	case s.S3 != nil:
		set("bucket_name", s.S3.Bucket)
		set("bucket_region", s.S3.Region)
		set("endpoint", s.S3.Endpoint)
		set("prefix_in_bucket", below(s.S3.Prefix, program))
	case s.Azure != nil:
		set("container_name", s.Azure.Container)
		set("container_region", s.Azure.Region)
		set("prefix_in_container", below(s.Azure.Prefix, program))
	case s.GCS != nil:
		set("bucket_name", s.GCS.Bucket)
		set("prefix_in_bucket", below(s.GCS.Prefix, program))
	default:
		set("bucket_name", storeBucket)
		set("bucket_region", storeRegion)
		set("endpoint", storeURL(c))
		set("prefix_in_bucket", program)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func below(prefix, program string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return program
	}
	return prefix + "/" + program
}

// quote returns a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// storeURL returns the URL of the managed object store.
func storeURL(c *api.NeonCluster) string {
	return fmt.Sprintf("http://%s:%d", host(about(c, "store").Name, c.Namespace), storePort)
}

// storeAccess returns the environment of programs that use the object store, and the
// ServiceAccount of their pods.
func storeAccess(c *api.NeonCluster) (env []corev1.EnvVar, account string) {
	env = storeLogin(c).env()
	switch s := c.Spec.ObjectStore; {
	case s.S3 != nil:
		return env, s.S3.ServiceAccountName
	case s.GCS != nil:
		return nil, s.GCS.ServiceAccountName
	case s.Managed != nil:
		return login{about(c, "store").Name, []string{accessKey, secretKey}}.env(), ""
	}
	return env, ""
}

// store is the managed object store. A directory of its volume is a bucket.
func store(c *api.NeonCluster) part {
	m := c.Spec.ObjectStore.Managed
	meta := about(c, "store")
	image := m.Image
	if image == "" {
		image = storeImage
	}
	return part{
		about: meta, image: image, entryPoint: true,
		args: []string{fmt.Sprintf("--port=:%d", storePort), "--health=/health", "posix", "/data"},
		env: []corev1.EnvVar{
			secretEnv("ROOT_ACCESS_KEY", meta.Name, accessKey), secretEnv("ROOT_SECRET_KEY", meta.Name, secretKey),
		},
		ports: []corev1.ContainerPort{port("s3", storePort)}, started: "/health", ready: "/health",
		data: "/data", pullSecrets: c.Spec.ImagePullSecrets,
	}
}
