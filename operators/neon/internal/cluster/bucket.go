package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// bucket is the object store of a cluster, as a thing of the plan.
type bucket struct {
	cluster kube.Key
	// at tells the store and the credentials with which it was tried, or is to be tried, apart from others.
	at string
	// failure says why objects cannot be written, read and deleted, or must not; empty if they can.
	failure string
}

// buckets tries the object stores: their pods are ready before a bucket is there, and
// credentials can end later. Stores of Azure and Google are not tried, because their
// protocols need libraries of many megabytes, and neither is a bucket without a Secret, which
// only the ServiceAccount of the pods may open: the pageservers report them.
func (op *Operator) buckets() *plan.Things[bucket] {
	return &plan.Things[bucket]{
		Kind:    "Bucket",
		Target:  &plan.Target{Name: "the object store", Timeout: 15 * time.Second},
		Name:    func(b *bucket) string { return b.cluster.String() },
		Observe: op.observeBucket,
		Create: func(ctx context.Context, r plan.Ref, want *bucket) (*bucket, error) {
			c, err := op.Clusters.In(want.cluster.Namespace).Cached().Get(ctx, want.cluster.Name)
			if err != nil {
				return nil, err
			}
			store, name, err := op.openStore(ctx, c)
			if err != nil {
				return nil, err
			}
			if err := store.MakeBucket(ctx, name, minio.MakeBucketOptions{Region: storeRegion}); err != nil {
				return nil, fmt.Errorf("make bucket %q: %w", name, err)
			}
			return op.observeBucket(ctx, r)
		},
		// Another place and other credentials are tried before a program is restarted with them.
		Differs: func(is, want *bucket) bool { return is.at != want.at },
		Update: func(ctx context.Context, r plan.Ref, _, _ *bucket) (*bucket, error) {
			return op.observeBucket(ctx, r)
		},
		// The managed store ends with its volume. Another's bucket is not the operator's.
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *bucket) bool { return true },
		Poll:       time.Minute,
	}
}

// observeBucket writes, reads and deletes an object. It returns nil if the managed store has
// no bucket.
func (op *Operator) observeBucket(ctx context.Context, r plan.Ref) (*bucket, error) {
	key, err := ParseKey(r.Name)
	if err != nil {
		return nil, err
	}
	c, err := op.Clusters.In(key.Namespace).Cached().Get(ctx, key.Name)
	if err != nil {
		return nil, err
	}
	login, err := op.digest(ctx, c, storeLogin(c)) // first: the store is tried with these, or later ones
	if err != nil {
		return nil, err
	}
	store, name, err := op.openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	is := &bucket{cluster: key, at: storeAt(c, login)}
	exists, err := store.BucketExists(ctx, name)
	switch {
	case err != nil:
		is.failure = fmt.Sprintf("look for bucket %q: %v%s", name, err, remedy(c, err))
	case !exists && c.Spec.ObjectStore.Managed != nil:
		return nil, nil
	case !exists:
		is.failure = fmt.Sprintf("bucket %q does not exist: create it", name)
	default:
		if err := tryStore(ctx, store, name, storePrefix(c)); err != nil {
			is.failure = fmt.Sprintf("try bucket %q: %v%s", name, err, remedy(c, err))
		} else if op.isNew(ctx, c) {
			is.failure = earlier(ctx, c, store, name)
		}
	}
	return is, nil
}

// earlier says that a bucket has tenants, which a new cluster would not know. It is empty if there are none.
func earlier(ctx context.Context, c *api.NeonCluster, store *minio.Client, bucket string) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tenants := storePrefix(c) + "pageserver/tenants/"
	o, found := <-store.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: tenants, MaxKeys: 1})
	switch {
	case !found:
		return ""
	case o.Err != nil:
		return fmt.Sprintf("list objects of bucket %q: %v%s", bucket, o.Err, remedy(c, o.Err))
	}
	return fmt.Sprintf("bucket %q has data of an earlier cluster in %s: restore its Secret %s with the annotations, "+
		"or make a NeonCluster with another bucket or prefix, or delete that data if nobody needs it",
		bucket, tenants, KeysName(c.Name))
}

// isNew reports whether a cluster has no keys, and never had any.
func (op *Operator) isNew(ctx context.Context, c *api.NeonCluster) bool {
	_, err := op.Secrets.In(c.Namespace).Cached().Get(ctx, KeysName(c.Name))
	return apierrors.IsNotFound(err) && lostSecret(c, KeysName(c.Name)) == nil
}

// remedy says what to do about an error of another's object store, or nothing.
func remedy(c *api.NeonCluster, err error) string {
	s := c.Spec.ObjectStore.S3
	if s == nil {
		return ""
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return ": check spec.objectStore.s3.endpoint, and that pods may connect to it"
	}
	switch answer.Code {
	case "ExpiredToken", "TokenRefreshRequired", "RequestExpired":
		return fmt.Sprintf(": put keys that have not expired into Secret %s", s.SecretName)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "UnrecognizedClientException":
		return fmt.Sprintf(": correct the keys in Secret %s", s.SecretName)
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "InvalidRegion":
		return ": correct spec.objectStore.s3.region"
	case "RequestTimeTooSkewed":
		return ": set the clock of the node"
	case "QuotaExceeded", "XMinioStorageFull":
		return ": make room in the store"
	}
	switch answer.StatusCode {
	case http.StatusForbidden, http.StatusUnauthorized:
		return fmt.Sprintf(": correct the keys in Secret %s, and let them list, read, write and delete in the bucket", s.SecretName)
	}
	return ""
}

// tryStore writes, reads and deletes an object of a random name.
func tryStore(ctx context.Context, store *minio.Client, bucket, prefix string) error {
	name, content := prefix+"pintle-probe-"+rand.Text(), []byte("a probe of the Neon operator")
	_, err := store.PutObject(ctx, bucket, name, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{DisableMultipart: true})
	if err != nil {
		return fmt.Errorf("write object: %w", err)
	}
	object, err := store.GetObject(ctx, bucket, name, minio.GetObjectOptions{})
	if err == nil {
		_, err = object.Stat()
		_ = object.Close() // it was only read
	}
	if err != nil {
		return fmt.Errorf("read object: %w", err)
	}
	if err := store.RemoveObject(ctx, bucket, name, minio.RemoveObjectOptions{}); err != nil {
		return fmt.Errorf("delete object: %w", err)
	}
	return nil
}

// openStore returns a client of a cluster's object store, and the bucket's name.
func (op *Operator) openStore(ctx context.Context, c *api.NeonCluster) (*minio.Client, string, error) {
	s, secretName := c.Spec.ObjectStore.S3, about(c, "store").Name
	if s == nil {
		s = &api.S3{Bucket: storeBucket, Region: storeRegion, Endpoint: storeURL(c)}
	} else {
		secretName = s.SecretName
	}
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, "", fmt.Errorf("parse endpoint: %w", err)
	}
	if s.Endpoint == "" {
		endpoint = &url.URL{Scheme: "https", Host: "s3." + s.Region + ".amazonaws.com"}
	}
	l := login{secretName, []string{accessKey, secretKey}}
	secret, err := stored(ctx, op.Secrets, kube.Key{Namespace: c.Namespace, Name: l.secret})
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("get credentials: %w", err)
	case !l.in(secret):
		return nil, "", l.missing()
	}
	creds := credentials.NewStaticV4(string(secret[accessKey]), string(secret[secretKey]), "")
	var transport http.RoundTripper
	if op.Clients.HTTP != nil {
		transport = op.Clients.HTTP.Transport
	}
	store, err := minio.New(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Region: s.Region, Transport: transport,
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		return nil, "", fmt.Errorf("open object store: %w", err)
	}
	return store, s.Bucket, nil
}

// storeAt tells a store and the digest of its credentials apart from others.
func storeAt(c *api.NeonCluster, login string) string { return remoteStorage(c, "") + " " + login }

// storePrefix returns the prefix of the objects of the operator's own, with a slash.
func storePrefix(c *api.NeonCluster) string {
	if s := c.Spec.ObjectStore.S3; s != nil && s.Prefix != "" {
		return below(s.Prefix, "")
	}
	return ""
}
