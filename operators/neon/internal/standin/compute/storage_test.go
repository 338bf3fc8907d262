package compute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

const (
	tenantID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"
	mainID   = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1"
	branchID = "ccccccccccccccccccccccccccccccc1"
)

// storage is three safekeepers and a pageserver in this process, with one tenant.
type storage struct {
	t       *testing.T
	key     token.Key
	token   string
	base    []byte
	keepers []*keeper
	pages   string // the pageserver's address

	mu      sync.Mutex
	parents map[string]parent
}

type parent struct {
	timeline string
	at       wal.LSN
}

// keeper is one safekeeper, which can be down.
type keeper struct {
	address string
	dir     string

	mu   sync.Mutex
	logs map[string]*wal.Log
	stop func()
}

func startStorage(t *testing.T) *storage {
	t.Helper()
	data, err := sharedBase(t)
	if err != nil {
		t.Fatal(err)
	}
	s := &storage{t: t, key: token.New(), base: data, parents: map[string]parent{}}
	s.token = s.key.Sign(token.Claims{Scope: token.Tenant, TenantID: tenantID})
	for i := range 3 {
		k := &keeper{dir: filepath.Join(t.TempDir(), strconv.Itoa(i)), logs: map[string]*wal.Log{}}
		k.address = testport.Address(t)
		s.keepers = append(s.keepers, k)
		s.start(k)
		t.Cleanup(func() { k.stop() })
	}
	s.create(mainID, parent{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.pages = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(ctx, l, &wal.Pages{
			Verify: s.verify,
			Base:   func(context.Context, string, string) ([]byte, error) { return s.base, nil },
			Pieces: s.pieces,
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

func (s *storage) verify(text, tenant string) error {
	claims, err := s.key.Public().Verify(text)
	if err == nil && (claims.Scope != token.Tenant || claims.TenantID != tenant) {
		err = errors.New("a token of another scope")
	}
	return err
}

// start brings a safekeeper up, with the logs that it had.
func (s *storage) start(k *keeper) {
	s.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.logs {
		log, err := wal.OpenLog(filepath.Join(k.dir, name))
		if err != nil {
			s.t.Fatal(err)
		}
		k.logs[name] = log
	}
	l, err := net.Listen("tcp", k.address)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := &wal.Server{Verify: s.verify, Find: func(_, timeline string) (*wal.Log, error) {
		log := k.log(timeline)
		if log == nil {
			return nil, errors.New("timeline not found, and allow_timeline_creation is false")
		}
		return log, nil
	}}
	go func() { done <- server.Serve(ctx, l) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, log := range k.logs {
			if err := log.Close(); err != nil {
				s.t.Error(err)
			}
		}
	})
}

func (k *keeper) log(timeline string) *wal.Log {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logs[timeline]
}

// create makes a timeline, as a branch if it has a parent.
func (s *storage) create(timeline string, p parent) {
	s.t.Helper()
	start := wal.Start
	if p.timeline != "" {
		start = p.at
	}
	for _, k := range s.keepers {
		log, err := wal.CreateLog(filepath.Join(k.dir, timeline), start, wal.Configuration{})
		if err != nil {
			s.t.Fatal(err)
		}
		k.mu.Lock()
		k.logs[timeline] = log
		k.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parents[timeline] = p
}

// committed returns the log of a timeline that knows of the most committed WAL.
func (s *storage) committed(timeline string) (*wal.Log, wal.LSN) {
	var best *wal.Log
	var commit wal.LSN
	for _, k := range s.keepers {
		if log := k.log(timeline); log != nil && log.State().Commit >= commit {
			best, commit = log, log.State().Commit
		}
	}
	return best, commit
}

func (s *storage) pieces(_ context.Context, _, timeline string) ([]wal.Piece, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, end := s.committed(timeline)
	if log == nil {
		return nil, fmt.Errorf("%w: %s", wal.ErrNoTimeline, timeline)
	}
	var pieces []wal.Piece
	for {
		own := log
		pieces = append([]wal.Piece{{End: end, Read: func(_ context.Context, from wal.LSN) ([]byte, error) {
			bytes := make([]byte, min(1<<20, own.State().Commit-from))
			n, err := own.ReadAt(bytes, int64(from))
			return bytes[:n], err
		}}}, pieces...)
		p := s.parents[timeline]
		if p.timeline == "" {
			return pieces, nil
		}
		timeline, end = p.timeline, p.at
		log, _ = s.committed(timeline)
	}
}

// input is the configuration of a compute on a timeline.
func (s *storage) input(timeline string, mode spec.Mode) spec.Input {
	s.t.Helper()
	verifier := spec.Verifier("secret")
	host, port, err := net.SplitHostPort(s.pages)
	if err != nil {
		s.t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		s.t.Fatal(err)
	}
	in := spec.Input{
		Tenant: tenantID, Timeline: timeline, Project: "p", Branch: "b", Endpoint: "ep-1",
		Mode: mode, PostgresVersion: 15,
		Shards:                []spec.Place{{Pageserver: 1, Host: host, Port: number}},
		SafekeepersGeneration: 1,
		Token:                 s.token, Keys: []token.JWK{s.key.Public().JWK()},
		Roles:     []spec.Role{{Name: "app", EncryptedPassword: &verifier}},
		Databases: []spec.Database{{Name: "appdb", Owner: "app"}},
		Port:      testport.Port(s.t), Memory: 128 << 20,
	}
	for _, k := range s.keepers {
		in.Safekeepers = append(in.Safekeepers, k.address)
	}
	return in
}

func sharedBase(t *testing.T) ([]byte, error) {
	t.Helper()
	bin, account := pgtest.Bin(t), pgtest.Account(t)
	made.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		made.base, made.err = wal.NewBase(ctx, bin, account)
	})
	return made.base, made.err
}

// made is the base of all tests: it takes a second.
var made struct {
	sync.Once
	base []byte
	err  error
}
