package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/ready"
)

// credentialsAnnotation of a pod template is a digest of the credentials that the program reads at its
// start. Other credentials restart the program, in the order in which another image does.
const credentialsAnnotation = "neon.pintle.dev/credentials"

// login names the keys of a Secret that the user makes and changes, by which programs log in. It is empty
// for those that the operator makes, because they never change.
type login struct {
	secret string
	keys   []string
}

// storeLogin is for the object store. The keys are named as the environment variables of the programs.
func storeLogin(c *api.NeonCluster) login {
	switch s := c.Spec.ObjectStore; {
	case s.S3 != nil && s.S3.SecretName != "":
		return login{s.S3.SecretName, []string{accessKey, secretKey}}
	case s.Azure != nil:
		return login{s.Azure.SecretName, []string{"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCESS_KEY"}}
	}
	return login{}
}

// databaseLogin is for the storage controller's database.
func databaseLogin(c *api.NeonCluster) login {
	if u := c.Spec.ControllerDatabase.URL; u != nil {
		return login{u.Name, []string{u.Key}}
	}
	return login{}
}

// loginSecrets returns the Secrets with the credentials of a cluster.
func loginSecrets(c *api.NeonCluster) (keys []kube.Key) {
	for _, l := range []login{storeLogin(c), databaseLogin(c)} {
		if l.secret != "" {
			keys = append(keys, kube.Key{Namespace: c.Namespace, Name: l.secret})
		}
	}
	return keys
}

// env returns the environment variables that are named as the keys.
func (l login) env() (all []corev1.EnvVar) {
	for _, key := range l.keys {
		all = append(all, secretEnv(key, l.secret, key))
	}
	return all
}

// readBy reports that the programs of a template read the keys.
func (l login) readBy(t corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				return false
			}
			from := e.ValueFrom.SecretKeyRef
			return from.Name == l.secret && slices.Contains(l.keys, from.Key)
		})
	})
}

// in reports that a Secret has all keys.
func (l login) in(secret map[string][]byte) bool {
	return !slices.ContainsFunc(l.keys, func(key string) bool { return len(secret[key]) == 0 })
}

// digest tells the credentials in a Secret apart from others. It is made with the private key of the
// cluster: nobody who sees pods, but no Secrets, can try passwords with it. It is empty while there is no
// such key, and while the Secret lacks one of its keys.
func (l login) digest(private []byte, secret map[string][]byte) string {
	if l.secret == "" || len(private) == 0 || !l.in(secret) {
		return ""
	}
	mac := hmac.New(sha256.New, private)
	for _, key := range l.keys {
		fmt.Fprintf(mac, "%q %q\n", key, secret[key])
	}
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// digest returns the digest of the present credentials of a cluster, empty while they are missing.
func (op *Operator) digest(ctx context.Context, c *api.NeonCluster, of login) (string, error) {
	return (&logins{op: op, cluster: c}).digest(ctx, of)
}

// logins are the credentials of a cluster as a reconcile finds them first: it restarts programs for no others
// than it has tried.
type logins struct {
	op      *Operator
	cluster *api.NeonCluster
	found   map[string]string // the digests, by the names of the Secrets and keys
}

func (s *logins) at(name string) kube.Key {
	return kube.Key{Namespace: s.cluster.Namespace, Name: name}
}

// digest returns the digest of a login, empty while its credentials are missing.
func (s *logins) digest(ctx context.Context, of login) (string, error) {
	name := of.secret + "/" + strings.Join(of.keys, ",")
	if digest, ok := s.found[name]; ok || of.secret == "" {
		return digest, nil
	}
	keys, err := stored(ctx, s.op.Secrets, s.at(KeysName(s.cluster.Name)))
	if err != nil || len(keys[privatePEM]) == 0 {
		return "", err // the reconcile may be about to make the keys of the cluster
	}
	secret, err := stored(ctx, s.op.Secrets, s.at(of.secret))
	if err != nil {
		return "", err
	}
	if s.found == nil {
		s.found = map[string]string{}
	}
	s.found[name] = of.digest(keys[privatePEM], secret)
	return s.found[name], nil
}

// tried judges a probe of the store or of the database. Programs are restarted with what a reconcile wants, so
// the probe must have been of the same.
func tried(is, want, failure string) ready.State {
	switch {
	case failure != "":
		return ready.State{Phase: ready.Waiting, Message: failure}
	case is != want:
		return ready.State{Phase: ready.Waiting, Message: "it is about to be tried as the spec and the Secret have it"}
	}
	return ready.State{Phase: ready.Ready}
}

// errNoLogin is wrapped by the error about credentials that are missing.
var errNoLogin = errors.New("get credentials")

// exist returns an error that wraps errNoLogin while the credentials of a login are missing: a program that is
// restarted then does not start.
func (s *logins) exist(ctx context.Context, l login) error {
	digest, err := s.digest(ctx, l)
	if err != nil || digest != "" || l.secret == "" {
		return err
	}
	return l.missing()
}

func (l login) missing() error {
	return fmt.Errorf("%w: make Secret %s with the keys %s", errNoLogin, l.secret, strings.Join(l.keys, " and "))
}

// of returns the digest for a pod template, which is empty or as found. While the credentials are missing, it
// is that of the template that is there: a Secret that is deleted and made again restarts nothing. A program
// that would read another Secret than before is not changed until that is there.
func (s *logins) of(ctx context.Context, l login, is corev1.PodTemplateSpec) (string, error) {
	err := s.exist(ctx, l)
	if errors.Is(err, errNoLogin) && l.readBy(is) {
		return is.Annotations[credentialsAnnotation], nil
	}
	if err != nil {
		return "", err
	}
	return s.digest(ctx, l)
}

// ofController returns the digest for the storage controller's template.
func (s *logins) ofController(ctx context.Context) (string, error) {
	var template corev1.PodTemplateSpec
	is, err := s.op.Deployments.In(s.cluster.Namespace).Cached().Get(ctx, about(s.cluster, "controller").Name)
	if err == nil {
		template = is.Spec.Template
	} else if err := unlessMissing(err); err != nil {
		return "", err
	}
	return s.of(ctx, databaseLogin(s.cluster), template)
}

// ofMember returns the digest for the template of a safekeeper or pageserver.
func (s *logins) ofMember(ctx context.Context, name string) (string, error) {
	var template corev1.PodTemplateSpec
	is, err := s.op.StatefulSets.In(s.cluster.Namespace).Cached().Get(ctx, name)
	if err == nil {
		template = is.Spec.Template
	} else if err := unlessMissing(err); err != nil {
		return "", err
	}
	return s.of(ctx, storeLogin(s.cluster), template)
}
