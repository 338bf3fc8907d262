// Package objects reads and writes an object store: a bucket of S3, or a directory. It
// does no more than the operator's probe and the stand-ins for Neon's programs need: whole objects
// of a few megabytes, without retries.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Config is remote_storage of Neon's programs, as far as this package knows it. One of
// Bucket and LocalPath is set.
type Config struct {
	Bucket string `toml:"bucket_name"`
	// Region of a bucket of S3. A bucket without one is Google's, which this package does not
	// know.
	Region string `toml:"bucket_region"`
	// Endpoint is the URL of an S3 server other than Amazon's.
	Endpoint string `toml:"endpoint"`
	// Prefix comes before all keys.
	Prefix string `toml:"prefix_in_bucket"`
	// LocalPath is a directory in place of a bucket.
	LocalPath string `toml:"local_path"`
}

// Store holds objects by key. Keys have parts that are divided by slashes.
type Store interface {
	// Put writes an object, in place of another with the same key.
	Put(ctx context.Context, key string, content []byte) error
	// Get returns an object, or an error that is [ErrNotFound].
	Get(ctx context.Context, key string) ([]byte, error)
	// Delete removes an object. It is no error if there is none.
	Delete(ctx context.Context, key string) error
	// List returns the keys that begin with a prefix, in order.
	List(ctx context.Context, prefix string) ([]string, error)
}

// ErrNotFound is the error of an object that is not there.
var ErrNotFound = errors.New("object not found")

// Open returns the store that c names. It makes no request, so a bucket that does not exist
// is found by the first use.
func Open(c Config, s3 Credentials) (Store, error) {
	switch {
	case c.LocalPath != "":
		return directory(c.LocalPath), nil
	case c.Bucket != "" && c.Region != "":
		return newBucket(c, s3)
	case c.Bucket != "":
		return nil, errors.New("open object store: a bucket without a region is Google's, which is not known here")
	}
	return nil, errors.New("open object store: neither bucket_name nor local_path is set")
}

// directory holds each object in a file.
type directory string

func (d directory) Put(_ context.Context, key string, content []byte) error {
	path := d.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	return nil
}

func (d directory) Get(_ context.Context, key string) ([]byte, error) {
	content, err := os.ReadFile(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get object %s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get object: %w", err)
	}
	return content, nil
}

func (d directory) Delete(_ context.Context, key string) error {
	if err := os.Remove(d.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete object: %w", err)
	}
	return nil
}

func (d directory) List(_ context.Context, prefix string) ([]string, error) {
	var keys []string
	err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(string(d), path)
		if err != nil {
			return err
		}
		if key = filepath.ToSlash(key); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	slices.Sort(keys)
	return keys, nil
}

func (d directory) path(key string) string { return filepath.Join(string(d), filepath.FromSlash(key)) }
