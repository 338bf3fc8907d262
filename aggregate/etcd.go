package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
)

// defaultQuota is how large the database becomes, in bytes.
const defaultQuota = 2 << 30

// inside is the etcd inside the program. It is nil if there is none.
type inside struct {
	endpoint string // the URL for clients
	server   *embed.Etcd
	level    zap.AtomicLevel // of etcd's log
	quota    int64
	log      *slog.Logger
	lock     *fileutil.LockedFile
	remove   string // a directory to remove at the end
	// compacted is the revision of the last compaction because etcd was full.
	compacted int64
}

// start runs a single member of etcd that listens on sockets in the file system alone, in
// a directory that only this user can enter. It first waits until no other process uses the
// directory.
func (s Storage) start(ctx context.Context, log *slog.Logger) (_ *inside, failed error) {
	dir, err := filepath.Abs(cmp.Or(s.Dir, "data"))
	e := &inside{level: zap.NewAtomicLevelAt(zap.ErrorLevel), quota: cmp.Or(s.QuotaBytes, defaultQuota), log: log}
	if s.Temporary {
		dir, err = os.MkdirTemp("", "aggregate-")
		e.remove = dir
	}
	defer func() {
		if failed != nil {
			failed = errors.Join(failed, e.close())
		}
	}()
	if err := cmp.Or(err, os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	client := filepath.Join(dir, "client")
	if len(client) > 100 {
		return nil, fmt.Errorf("the path of the directory %s is too long for a socket in it", dir)
	}
	if e.lock, err = exclusively(ctx, dir, log); err != nil {
		return nil, err
	}
	if e.server, err = embed.StartEtcd(s.member(dir, client, e)); err != nil {
		return nil, fmt.Errorf("in %s: %w", dir, err)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case err := <-e.server.Err():
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	e.endpoint = "unix://" + client
	if err := e.giveBack(ctx); err != nil {
		log.Warn("cannot give back the space of deleted objects", "error", err)
	}
	return e, nil
}

// member returns the settings of etcd. Its clients use the socket.
func (s Storage) member(dir, socket string, e *inside) *embed.Config {
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = filepath.Join(dir, "etcd"), s.Temporary
	logs := zap.NewProductionConfig()
	logs.Level, logs.DisableStacktrace = e.level, true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.Must(logs.Build()))
	c.QuotaBackendBytes = e.quota
	// A lone member elects itself, so it need not wait long for others.
	c.TickMs, c.ElectionMs = 10, 100
	// Nor are there others who have to catch up: etcd would keep 5,000 writes in memory for them, and
	// 10,000 in files. A write has 1.5 MB at most.
	c.SnapshotCatchUpEntries, c.SnapshotCount, c.MaxSnapFiles, c.MaxWalFiles = 10, 200, 1, 1
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	// etcd requires a listener for other members, and URLs that it tells them. There are no
	// others, so these URLs lead nowhere.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer")}}
	nowhere := []url.URL{{Scheme: "unix", Host: "none:0"}}
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = nowhere, nowhere
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	return c
}

// exclusively waits until this process alone has the lock of a directory. etcd has a lock of its own,
// but takes it after it has replaced the sockets of the process that has it.
func exclusively(ctx context.Context, dir string, log *slog.Logger) (lock *fileutil.LockedFile, err error) {
	told := sync.OnceFunc(func() { log.Warn("the API server waits: another process uses its directory", "dir", dir) })
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		lock, err = fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fileutil.ErrLocked) {
			told()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		err = fmt.Errorf("lock directory %s: %w", dir, err)
	}
	return lock, err
}

// upkeepEvery is the time between two looks at the space that etcd takes.
const upkeepEvery = 5 * time.Second

// keep gives back space until ctx ends. It returns an error if etcd ends by itself.
func (e *inside) keep(ctx context.Context) error {
	if e == nil {
		return nil
	}
	for {
		select {
		case <-time.After(upkeepEvery):
			if err := e.giveBack(ctx); err != nil && ctx.Err() == nil {
				e.log.Error("cannot give back the space of deleted objects", "error", err)
			}
		case err := <-e.server.Err():
			return fmt.Errorf("run etcd: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// giveBack shrinks the database if most of it is unused. If etcd is full, it first compacts it, which
// nothing else can do then, and at the end lets etcd accept writes if there is room. Until something is
// deleted, there is no use in another compaction.
func (e *inside) giveBack(ctx context.Context) error {
	server := e.server.Server
	full := slices.ContainsFunc(server.Alarms(), func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
	if full {
		now := server.KV().Rev()
		if now == e.compacted {
			return nil
		}
		_, err := server.Compact(ctx, &pb.CompactionRequest{Revision: now, Physical: true})
		if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
			return fmt.Errorf("compact: %w", err)
		}
		e.compacted = now
	}
	size, used := server.Backend().Size(), server.Backend().SizeInUse()
	if !full && (size < e.quota/4 || used > size/2) {
		return nil
	}
	if err := server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	after := server.Backend().Size()
	e.log.Info("the database of the API server is defragmented", "bytes", after, "before", size)
	if !full || after > e.quota/10*9 {
		return nil
	}
	_, err := server.Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, MemberID: uint64(server.MemberID()), Alarm: pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("disarm alarm: %w", err)
	}
	e.log.Info("the API server accepts writes again")
	return nil
}

// close ends etcd. The lock is the last thing that it gives back.
func (e *inside) close() error {
	if e == nil {
		return nil
	}
	if e.server != nil {
		e.level.SetLevel(zap.FatalLevel) // etcd logs the closing of its own listeners as errors
		e.server.Close()
	}
	if e.lock != nil {
		_ = e.lock.Close()
	}
	if e.remove != "" {
		return os.RemoveAll(e.remove)
	}
	return nil
}
