package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Storage says where the objects of Stored kinds are. It is always etcd. The zero value
// runs etcd inside the program, with its files in the directory "data".
//
// The etcd inside the program is compacted every five minutes, as that of a cluster. If it is full,
// it refuses writes with the error "database space exceeded" and accepts deletions of objects that
// have no finalizers. Some seconds after enough objects were deleted it accepts writes again. If its
// volume is full, it ends the process.
type Storage struct {
	// Dir is the directory of the etcd inside the program. One process at a time uses it: another
	// waits until the first has ended, and accepts no connection meanwhile. Default: "data". In a
	// pod it is on a volume whose file system has locks.
	Dir string
	// Temporary puts the etcd inside the program into a directory that is removed at the
	// end, and does not wait for the disk. It is for tests, and for objects that need not outlive the
	// process. They are in memory alone if the directory for temporary files, $TMPDIR, is.
	Temporary bool
	// QuotaBytes is how large the database of the etcd inside the program may become. It refuses
	// writes beyond that. A volume needs twice as much and 500 MiB for the log of etcd, because a
	// copy is made when space is given back. The whole file is mapped into memory. At least 16 MiB,
	// at most 8 GiB. Default: 2 GiB.
	QuotaBytes int64

	// Endpoints are the URLs of an etcd outside the program, which several replicas can
	// share. The files below are the credentials for it.
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	// Prefix is the beginning of all keys. Default: "/registry". Servers that share an
	// etcd need different prefixes, unless they are replicas of one another.
	Prefix string
}

// The bounds of the etcd inside the program, in bytes. etcd warns above the larger one.
const minQuota, maxQuota = 16 << 20, 8 << 30

// validate returns the first mistake.
func (s Storage) validate() error {
	if s.QuotaBytes != 0 && (s.QuotaBytes < minQuota || s.QuotaBytes > maxQuota) {
		return fmt.Errorf("configure storage: the quota of %d bytes is not between 16 MiB and 8 GiB", s.QuotaBytes)
	}
	if len(s.Endpoints) > 0 && (s.Dir != "" || s.Temporary || s.QuotaBytes != 0) {
		return errors.New("configure storage: an etcd outside the program, at Endpoints, has no Dir, Temporary or QuotaBytes")
	}
	return nil
}

// backend opens the storage of kinds, and closes all of it at the end.
type backend struct {
	kinds  kinds
	etcd   generic.RESTOptionsGetter // of kinds without a source
	inside *inside                   // nil if etcd runs elsewhere, or nothing is stored
	open   []factory.DestroyFunc
}

// open starts etcd if it is needed and runs inside the program.
func (s Storage) open(ctx context.Context, all kinds, log *slog.Logger) (*backend, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b, endpoints := &backend{kinds: all}, s.Endpoints
	if len(endpoints) == 0 && slices.ContainsFunc(all, func(r *resource) bool { return r.source == nil }) {
		var err error
		if b.inside, err = s.start(ctx, log); err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		endpoints = []string{b.inside.endpoint}
	}
	config := storagebackend.NewDefaultConfig(cmp.Or(s.Prefix, "/registry"), unstructured.UnstructuredJSONScheme)
	config.Transport.ServerList = endpoints
	config.Transport.TrustedCAFile, config.Transport.CertFile, config.Transport.KeyFile = s.CAFile, s.CertFile, s.KeyFile
	o := options.NewEtcdOptions(config)
	o.StorageConfig.CountMetricPollPeriod = 0 // nothing reads the number of objects
	b.etcd = o.CreateRESTOptionsGetter(&options.SimpleStorageFactory{StorageConfig: o.StorageConfig}, nil)
	return b, nil
}

// close closes the parts of the backend in the reverse order.
func (b *backend) close() error {
	for _, destroy := range slices.Backward(b.open) {
		destroy()
	}
	return b.inside.close()
}

// GetRESTOptions returns how the storage of a resource is opened.
func (b *backend) GetRESTOptions(of schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := b.etcd.GetRESTOptions(of, example)
	decorate, source := o.Decorator, b.kinds.named(of).source
	o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		object, list func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		if source != nil {
			return source, func() {}, nil
		}
		opened, destroy, err := decorate(c, prefix, key, object, list, attrs, trigger, indexers)
		if err == nil {
			b.open = append(b.open, destroy)
		}
		return opened, destroy, err
	}
	return o, err
}
