package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
)

// keyring is an object store that knows several access keys. It checks no signatures.
type keyring struct {
	mu      sync.Mutex
	valid   []string
	objects map[string][]byte
}

func (k *keyring) accept(keys ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.valid = keys
}

func (k *keyring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.ContainsFunc(k.valid, func(key string) bool {
		return strings.Contains(r.Header.Get("Authorization"), "Credential="+key+"/")
	}) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>InvalidAccessKeyId</Code></Error>")
		return
	}
	w.Header().Set("ETag", `"probe"`)
	switch object, is := k.objects[r.URL.Path]; {
	case r.Method == http.MethodPut:
		k.objects[r.URL.Path], _ = io.ReadAll(r.Body)
	case r.Method == http.MethodDelete:
		delete(k.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case is:
		http.ServeContent(w, r, "", time.Now(), bytes.NewReader(object))
	case r.Method == http.MethodGet && r.URL.Query().Has("list-type"):
		k.list(w, r)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	}
}

// list answers with the names of the objects of a bucket that begin with a prefix.
func (k *keyring) list(w http.ResponseWriter, r *http.Request) {
	bucket := strings.TrimSuffix(r.URL.Path, "/") + "/"
	fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated>")
	for _, path := range slices.Sorted(maps.Keys(k.objects)) {
		if name, in := strings.CutPrefix(path, bucket); in && strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
			fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", name)
		}
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// running returns the pods of the cluster.
func (w *world) running() map[string]types.UID {
	w.Helper()
	all := map[string]types.UID{}
	for pod, err := range w.pods.List(w.Context()) {
		w.ok(err)
		name := pod.Name
		if c := pod.Labels[componentLabel]; c == "controller" || c == "broker" {
			name = c // the names of a Deployment's pods are random
		}
		all[name] = pod.UID
	}
	return all
}

// annotated reports that the pods of some components have another digest of their credentials than one.
func (w *world) annotated(not string, components ...string) bool {
	w.Helper()
	for pod, err := range w.pods.List(w.Context()) {
		w.ok(err)
		is := pod.Annotations[credentialsAnnotation]
		if slices.Contains(components, pod.Labels[componentLabel]) && (is == "" || is == not) {
			return false
		}
	}
	return true
}

// digestOf returns the digest in a StatefulSet.
func (w *world) digestOf(set string) string {
	w.Helper()
	s, err := w.sets.Get(w.Context(), set)
	w.ok(err)
	return s.Spec.Template.Annotations[credentialsAnnotation]
}

// put replaces the content of a Secret.
func (w *world) put(name string, data map[string]string) {
	w.Helper()
	_, err := w.secrets.Modify(w.Context(), name, func(s *corev1.Secret) error {
		s.Data = map[string][]byte{}
		for k, v := range data {
			s.Data[k] = []byte(v)
		}
		return nil
	})
	w.ok(err)
}

// unmoved sees for some time that no pod is replaced and no template is changed.
func (w *world) unmoved(what string, before map[string]types.UID, digest string) {
	w.Helper()
	for range 60 {
		w.kubelet()
		time.Sleep(50 * time.Millisecond) // nothing may happen
	}
	if diff := cmp.Diff(before, w.running()); diff != "" {
		w.Errorf("%s: the pods (-want +got):\n%s", what, diff)
	}
	for _, set := range []string{"main-safekeeper-1", "main-pageserver-1"} {
		if is := w.digestOf(set); is != digest {
			w.Errorf("%s: %s has the digest %q, want %q", what, set, is, digest)
		}
	}
}

// replaced returns the pods that are not the same.
func replaced(before, after map[string]types.UID) (names []string) {
	for name, uid := range after {
		if before[name] != uid {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestCredentials changes the keys of the object store and the URL of the database. The programs that use
// them are restarted in order, once, when the operator has tried them; and nothing else restarts them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	store := &keyring{valid: []string{s3test.AccessKey}, objects: map[string][]byte{}}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	w := newWorld(t, func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.Endpoint = server.URL })
	w.timeline(tenantID, 1)
	w.rests()
	first, before := w.digestOf("main-safekeeper-1"), w.running()
	q := &quorum{images: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go q.watch(ctx, w, over)

	const key, secret = "another", "the-other-secret"
	login := map[string]string{accessKey: key, secretKey: secret}
	w.Log("keys that the store refuses restart nothing")
	w.put("bucket", login)
	w.until("the operator has tried the keys", says("bucket", "correct the keys in Secret bucket"))
	w.unmoved("bad keys", before, first)

	w.Log("the store accepts both: the programs are restarted in order")
	store.accept(s3test.AccessKey, key)
	login["note"] = "not used" // the operator looks at once
	w.put("bucket", login)
	done := func(c *api.NeonCluster) bool {
		return isReady(c) && w.annotated(first, "safekeeper", "pageserver")
	}
	w.until("a safekeeper has its turn", func(c *api.NeonCluster) bool { return c.Status.SafekeeperTurn > 0 })
	w.restart()
	w.until("all are restarted", done)
	after := w.running()
	want := []string{
		"main-pageserver-1-0", "main-pageserver-2-0",
		"main-safekeeper-1-0", "main-safekeeper-2-0", "main-safekeeper-3-0",
	}
	if diff := cmp.Diff(want, replaced(before, after)); diff != "" {
		t.Errorf("the pods that were replaced (-want +got):\n%s", diff)
	}
	drains(w, "/drain", 1, 2)
	cancel()
	w.ok(<-over)
	q.mu.Lock()
	if len(q.worst) > 1 {
		t.Errorf("%v were down at the same time", q.worst)
	}
	q.mu.Unlock()
	second := w.digestOf("main-safekeeper-1")
	if strings.Contains(second, secret) || second == first || second != w.digestOf("main-pageserver-2") {
		t.Errorf("the digest is %q after %q", second, first)
	}

	w.Log("the old keys are withdrawn")
	store.accept(key)
	w.restart()
	w.until("the cluster is ready", isReady)
	w.unmoved("another operator", after, second)

	w.Log("the Secret is deleted and made again, and has a key that nobody uses")
	w.ok(w.secrets.Delete(t.Context(), "bucket"))
	w.until("the operator sees that", func(*api.NeonCluster) bool {
		_, err := w.operator.Secrets.In(w.ns).Cached().Get(t.Context(), "bucket")
		return apierrors.IsNotFound(err)
	})
	w.unmoved("without the Secret", after, second)
	half := maps.Clone(login)
	delete(half, secretKey)
	w.secret("bucket", half)
	w.unmoved("with half of the Secret", after, second)
	login["note"] = "another one"
	w.put("bucket", login)
	w.until("the cluster is ready", isReady)
	w.unmoved("with the Secret", after, second)

	w.Log("another Secret is named, which is not there")
	w.change(func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.SecretName = "nowhere" })
	w.until("the operator says so", func(c *api.NeonCluster) bool {
		return says("safekeeper/1", "nowhere")(c) || says("bucket", "nowhere")(c)
	})
	w.unmoved("another Secret", after, second)
	w.change(func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.SecretName = "bucket" })
	w.until("the cluster is ready", isReady)
	w.unmoved("the former Secret", after, second)

	w.Log("the store is said to be where none is")
	w.change(func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.Endpoint = "http://127.0.0.1:1" })
	w.until("the operator has tried it", says("bucket", "check spec.objectStore.s3.endpoint"))
	w.unmoved("another endpoint", after, second)
	w.change(func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.Endpoint = server.URL })
	w.until("the cluster is ready", isReady)
	w.unmoved("the former endpoint", after, second)

	w.Log("the URL of the database changes: the storage controller alone is restarted")
	w.put("database", map[string]string{"url": "postgres://nobody@127.0.0.1:1/none"})
	w.until("the operator has tried it", says("database-answers", "connect to the database"))
	w.unmoved("a bad URL", after, second)
	w.put("database", map[string]string{"uri": w.lab.Postgres.URL})
	w.until("the operator has seen it", says("database-answers", `Secret database has no key "url"`))
	w.unmoved("no URL", after, second)
	url, also := w.lab.Postgres.URL, "?"
	if strings.Contains(url, "?") {
		also = "&"
	}
	w.put("database", map[string]string{"url": url + also + "application_name=rotated"})
	w.until("the storage controller is restarted", func(c *api.NeonCluster) bool {
		return isReady(c) && w.running()["controller"] != after["controller"]
	})
	if diff := cmp.Diff([]string{"controller"}, replaced(after, w.running())); diff != "" {
		t.Errorf("the pods that were replaced (-want +got):\n%s", diff)
	}
	last := w.running()
	w.unmoved("afterwards", last, second)
	w.rests()
}

// TestDigest has the content of Secrets that restarts programs.
func TestDigest(t *testing.T) {
	t.Parallel()
	l := login{"bucket", []string{accessKey, secretKey}}
	of := func(private, access, secret string) string {
		return l.digest([]byte(private), map[string][]byte{
			accessKey: []byte(access), secretKey: []byte(secret), "more": []byte("x"),
		})
	}
	is := of("cluster", "a", "b")
	if want := "be8c186989047efb"; is != want {
		t.Errorf("the digest of the same credentials is %s, and was %s: each cluster would be restarted", is, want)
	}
	for name, other := range map[string]string{
		"another cluster": of("other", "a", "b"), "another access key": of("cluster", "c", "b"),
		"another secret": of("cluster", "a", "c"), "a part of it": of("cluster", "a\" \"b", ""),
	} {
		if other == is {
			t.Errorf("%s has the same digest", name)
		}
	}
	for name, none := range map[string]string{
		"no key of the cluster": of("", "a", "b"),
		"no secret":             of("cluster", "a", ""), "no access key": of("cluster", "", "b"),
		"no Secret": l.digest([]byte("cluster"), nil), "no login": login{}.digest([]byte("cluster"), nil),
	} {
		if none != "" {
			t.Errorf("%s: the digest is %s", name, none)
		}
	}
}

// TestLogins finds that all credentials of a user that programs have in their environment are logins, and
// those that the operator makes are none.
func TestLogins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store  api.ObjectStore
		secret string
	}{
		"managed":    {api.ObjectStore{Managed: new(api.Managed)}, ""},
		"S3":         {api.ObjectStore{S3: &api.S3{SecretName: "keys"}}, "keys"},
		"S3 by role": {api.ObjectStore{S3: &api.S3{ServiceAccountName: "role"}}, ""},
		"Azure":      {api.ObjectStore{Azure: &api.Azure{SecretName: "keys"}}, "keys"},
		"GCS":        {api.ObjectStore{GCS: new(api.GCS)}, ""},
	} {
		cluster := sample()
		cluster.Spec.ObjectStore = c.store
		for _, p := range []part{
			safekeeper(cluster, 1), pageserver(cluster, 1, nil),
			storageController(cluster, "", databaseURL(cluster)), broker(cluster),
		} {
			var theirs []string
			for _, e := range p.env {
				from := e.ValueFrom.SecretKeyRef
				if !strings.HasPrefix(from.Name, cluster.Name+"-") {
					theirs = append(theirs, from.Name+"/"+from.Key)
				}
			}
			l := storeLogin(cluster)
			var want []string
			if id := p.about.Labels[idLabel]; id != "" {
				for _, key := range l.keys {
					want = append(want, l.secret+"/"+key)
				}
			}
			if diff := cmp.Diff(want, theirs); diff != "" || l.secret != c.secret {
				t.Errorf("%s: %s has, beside login %q (-want +got):\n%s", name, p.about.Name, l.secret, diff)
			}
		}
	}
	cluster := sample()
	if l := databaseLogin(cluster); l.secret != "" {
		t.Errorf("the managed database has the login %+v", l)
	}
	cluster.Spec.ControllerDatabase = api.ControllerDatabase{URL: &api.SecretKey{Name: "db", Key: "url"}}
	if l := databaseLogin(cluster); l.secret != "db" || !slices.Equal(l.keys, []string{"url"}) {
		t.Errorf("the database has the login %+v", l)
	}
}
