package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Credentials are those of S3. Empty ones make unsigned requests.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// CredentialsFromEnvironment returns those of the variables that all clients of S3 read.
func CredentialsFromEnvironment() Credentials {
	return Credentials{
		AccessKeyID:     os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
	}
}

// StatusError is an answer of S3 other than success, such as 404 with the code NoSuchBucket
// or 403 with the code InvalidAccessKeyId.
type StatusError struct {
	Status        int
	Code, Message string
}

func (e *StatusError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message), ": ")
}

// requestTimeout ends a request to S3.
const requestTimeout = 30 * time.Second

type bucket struct {
	client       *minio.Client
	name, prefix string
}

func newBucket(c Config, by Credentials) (*bucket, error) {
	address := c.Endpoint
	if address == "" {
		address = fmt.Sprintf("https://s3.%s.amazonaws.com", c.Region)
	}
	endpoint, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	lookup := minio.BucketLookupAuto
	if c.Endpoint != "" {
		lookup = minio.BucketLookupPath
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// The stand-ins use S3 seldom: connections that stay open would outlive them.
	transport.DisableKeepAlives = true
	transport.ResponseHeaderTimeout = requestTimeout
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(by.AccessKeyID, by.SecretAccessKey, by.SessionToken),
		Secure: endpoint.Scheme == "https", Region: c.Region, BucketLookup: lookup, Transport: patient{transport}, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	prefix := strings.Trim(c.Prefix, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{client: client, name: c.Bucket, prefix: prefix}, nil
}

// patient lets the server judge a request before its body is sent. A server that refuses a
// request closes the connection, and the answer would be lost in an error of the body.
type patient struct{ next http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Header.Set("Expect", "100-continue")
	}
	return p.next.RoundTrip(r)
}

func (b *bucket) Put(ctx context.Context, key string, content []byte) error {
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
	if err != nil {
		return fmt.Errorf("put object %s: %w", key, known(err))
	}
	return nil
}

func (b *bucket) Get(ctx context.Context, key string) ([]byte, error) {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", key, known(err))
	}
	defer func() { _ = object.Close() }() // it was read
	content, err := io.ReadAll(object)
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", key, known(err))
	}
	return content, nil
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	if err := b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{}); err != nil {
		return fmt.Errorf("delete object %s: %w", key, known(err))
	}
	return nil
}

func (b *bucket) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var keys []string
	for object := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, fmt.Errorf("list objects: %w", known(object.Err))
		}
		keys = append(keys, strings.TrimPrefix(object.Key, b.prefix))
	}
	return keys, nil
}

// known turns an answer of S3 into an error of this package.
func known(err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return ErrNotFound
	case answer.StatusCode != 0:
		return &StatusError{Status: answer.StatusCode, Code: answer.Code, Message: answer.Message}
	}
	return err
}
