package objects

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	store, err := Open(Config{LocalPath: t.TempDir()}, Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	testStore(t, store)
}

func TestBucket(t *testing.T) {
	t.Parallel()
	endpoint, _ := s3test.Start(t, "pintle")
	login := Credentials{AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey}
	config := Config{Bucket: "pintle", Region: "us-east-1", Endpoint: endpoint, Prefix: "some/prefix"}
	store, err := Open(config, login)
	if err != nil {
		t.Fatal(err)
	}
	testStore(t, store)

	for name, c := range map[string]struct {
		bucket      string
		credentials Credentials
		want        StatusError
	}{
		"no bucket": {"missing", login, StatusError{Status: 404, Code: "NoSuchBucket"}},
		"another secret": {"pintle", Credentials{AccessKeyID: s3test.AccessKey, SecretAccessKey: "x"},
			StatusError{Status: 403, Code: "SignatureDoesNotMatch"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			config.Bucket = c.bucket
			store, err := Open(config, c.credentials)
			if err != nil {
				t.Fatal(err)
			}
			var got *StatusError
			err = store.Put(t.Context(), "a", nil)
			// A server that answers before it has read the request may close the connection first.
			for tries := 1; tries < 10 && !errors.As(err, &got); tries++ {
				err = store.Put(t.Context(), "a", nil)
			}
			if !errors.As(err, &got) || got.Status != c.want.Status || got.Code != c.want.Code {
				t.Errorf("put: got %v, want %v", err, &c.want)
			}
		})
	}
}

func testStore(t *testing.T, store Store) {
	t.Helper()
	ctx := t.Context()
	for _, key := range []string{"a/1", "a/2 with spaces+plus", "ab/3"} {
		if err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Get(ctx, "a/1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("get an object that is not there: %v, want %v", err, ErrNotFound)
	}
	for _, key := range []string{"a/1", "a/2 with spaces+plus", "ab/3", "a/1"} {
		if err := store.Put(ctx, key, []byte("content of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := store.Get(ctx, "a/2 with spaces+plus")
	if err != nil || string(content) != "content of a/2 with spaces+plus" {
		t.Errorf("get = %q, %v", content, err)
	}
	wantKeys(ctx, t, store, "a/", "a/1", "a/2 with spaces+plus")
	wantKeys(ctx, t, store, "", "a/1", "a/2 with spaces+plus", "ab/3")
	for _, key := range []string{"a/1", "a/1", "a/2 with spaces+plus", "ab/3"} {
		if err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	wantKeys(ctx, t, store, "")
}

func wantKeys(ctx context.Context, t *testing.T, store Store, prefix string, want ...string) {
	t.Helper()
	keys, err := store.List(ctx, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys with prefix %q (-want +got):\n%s", prefix, diff)
	}
}
