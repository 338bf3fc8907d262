package aggregate

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
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
type Storage struct {
	// Dir is the directory of the etcd inside the program. It is locked, so one process at a
	// time can use it. Default: "data". In a pod it is on a volume.
	Dir string
	// Temporary puts the etcd inside the program into a directory that is removed at the
	// end, and does not wait for the disk. It is for tests.
	Temporary bool
	// QuotaBytes is how large the etcd inside the program may become. It refuses writes
	// beyond that. Default: 2 GiB.
	QuotaBytes int64

	// Endpoints are the URLs of an etcd outside the program, which several replicas can
	// share. The files below are the credentials for it.
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	// Prefix is the beginning of all keys. Default: "/registry". Servers that share an
	// etcd need different prefixes, unless they are replicas of one another.
	Prefix string
}

// patience is how long the start of etcd may take.
const patience = time.Minute

// backend opens the storage of kinds, and closes all of it at the end.
type backend struct {
	sources map[schema.GroupResource]storage.Interface
	etcd    generic.RESTOptionsGetter // nil if nothing is stored
	server  *embed.Etcd               // nil if etcd runs elsewhere
	level   zap.AtomicLevel           // of etcd's log
	remove  string                    // a directory to remove at the end

	mu   sync.Mutex
	open []factory.DestroyFunc
}

// open starts etcd if it is needed and runs inside the program.
func (s Storage) open(all kinds) (_ *backend, failed error) {
	b := &backend{sources: map[schema.GroupResource]storage.Interface{}}
	for _, r := range all {
		if r.source != nil {
			b.sources[r.groupResource()] = r.source
		}
	}
	if len(b.sources) == len(all) {
		return b, nil
	}
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, b.close())
		}
	}()
	endpoints := s.Endpoints
	if len(endpoints) == 0 {
		endpoint, err := b.start(s)
		if err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		endpoints = []string{endpoint}
	}
	prefix := s.Prefix
	if prefix == "" {
		prefix = "/registry"
	}
	config := storagebackend.NewDefaultConfig(prefix, unstructured.UnstructuredJSONScheme)
	config.Transport.ServerList = endpoints
	config.Transport.TrustedCAFile, config.Transport.CertFile, config.Transport.KeyFile = s.CAFile, s.CertFile, s.KeyFile
	o := options.NewEtcdOptions(config)
	b.etcd = o.CreateRESTOptionsGetter(&options.SimpleStorageFactory{StorageConfig: o.StorageConfig}, nil)
	return b, nil
}

// start runs a single member of etcd that listens on sockets in the file system alone, in
// a directory that only this user can enter. It returns the URL for clients.
func (b *backend) start(s Storage) (string, error) {
	dir := s.Dir
	if dir == "" {
		dir = "data"
	}
	if s.Temporary {
		var err error
		if dir, err = os.MkdirTemp("", "aggregate-"); err != nil {
			return "", err
		}
		b.remove = dir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	client := filepath.Join(dir, "client")
	if len(client) > 100 {
		return "", fmt.Errorf("the path of the directory %s is too long for a socket in it", dir)
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = filepath.Join(dir, "etcd"), s.Temporary
	// At the end etcd logs the closing of its own listeners as errors.
	b.level = zap.NewAtomicLevelAt(zap.ErrorLevel)
	logs := zap.NewProductionConfig()
	logs.Level, logs.DisableStacktrace = b.level, true
	logger, err := logs.Build()
	if err != nil {
		return "", fmt.Errorf("start etcd: %w", err)
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	if s.QuotaBytes > 0 {
		c.QuotaBackendBytes = s.QuotaBytes
	}
	// A lone member elects itself, so it need not wait long for others.
	c.TickMs, c.ElectionMs = 10, 100
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: client}}
	// etcd requires a listener for other members, and URLs that it tells them. There are no
	// others, so these URLs lead nowhere.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer")}}
	nowhere := []url.URL{{Scheme: "unix", Host: "none:0"}}
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = nowhere, nowhere
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	if b.server, err = embed.StartEtcd(c); err != nil {
		return "", fmt.Errorf("in %s: %w", dir, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-b.server.Server.ReadyNotify():
		return "unix://" + client, nil
	case err := <-b.server.Err():
		return "", err
	case <-late.C:
		return "", fmt.Errorf("it is not ready after %s", patience)
	}
}

// failed yields the reason why the etcd inside the program has ended by itself.
func (b *backend) failed() <-chan error {
	if b.server == nil {
		return nil
	}
	return b.server.Err()
}

// close closes the parts of the backend in the reverse order.
func (b *backend) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, destroy := range slices.Backward(b.open) {
		destroy()
	}
	if b.server != nil {
		b.level.SetLevel(zap.FatalLevel)
		b.server.Close()
	}
	if b.remove != "" {
		return os.RemoveAll(b.remove)
	}
	return nil
}

// GetRESTOptions returns how the storage of a resource is opened.
func (b *backend) GetRESTOptions(of schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	if source := b.sources[of]; source != nil {
		config := storagebackend.NewDefaultConfig("", unstructured.UnstructuredJSONScheme)
		return generic.RESTOptions{
			StorageConfig:           config.ForResource(of),
			ResourcePrefix:          of.Group + "/" + of.Resource,
			DeleteCollectionWorkers: 1,
			Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
				func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
				return source, func() {}, nil
			},
		}, nil
	}
	o, err := b.etcd.GetRESTOptions(of, example)
	if err != nil {
		return o, err
	}
	decorate := o.Decorator
	o.Decorator = func(c *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), object func() runtime.Object,
		list func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		opened, destroy, err := decorate(c, prefix, key, object, list, attrs, trigger, indexers)
		if err != nil {
			return nil, nil, err
		}
		// Everybody may destroy it, and it must be destroyed once.
		destroy = sync.OnceFunc(destroy)
		b.mu.Lock()
		b.open = append(b.open, destroy)
		b.mu.Unlock()
		return opened, destroy, nil
	}
	// Nothing reads the number of objects, so nothing polls it.
	o.CountMetricPollPeriod = 0
	return o, nil
}
