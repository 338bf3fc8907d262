package endpoint

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// idlers are endpoints of each type. They are suspended when nobody uses them.
var idlers = []string{"first", "reader", "past"}

// idling is the life of endpoints of each type that are suspended when nobody uses them.
var idling = life{writers: []string{"first"}, made: map[string]int{
	"Pod first-compute-0": 5, "Pod reader-compute-0": 5, "Pod past-compute-0": 4,
	"StatefulSet first-compute": 1, "StatefulSet reader-compute": 1, "StatefulSet past-compute": 1,
	"Secret app-password": 1, "Secret first-app": 1, "Secret reader-app": 1, "Secret past-app": 1,
}, phases: []phase{
	{"create", func(w *mortal) {
		w.busy(true)
		w.contents()
		for _, name := range idlers {
			e := endpointOf(name, "trunk")
			e.Spec.SuspendAfterSeconds = 5
			switch name {
			case "reader":
				e.Spec.Type = api.ReadOnly
			case "past":
				e.Spec.Type, e.Spec.LSN = api.Static, "0/1800"
			}
			w.create(e)
		}
	}, func(w *mortal) {
		w.all(func(name string) {
			w.runs(name, nil)
			w.note(name)
		})
	}},
	{"change", func(w *mortal) {
		w.all(func(name string) { w.set(name, "work_mem", "8MB") })
	}, func(w *mortal) {
		w.all(func(name string) {
			w.runs(name, map[string]string{"work_mem": "8MB"})
			w.same(name, "restarted for a change that it takes while it runs")
		})
	}},
	// Those that read follow the one that writes.
	{"roll", func(w *mortal) {
		w.set("first", "max_worker_processes", "64")
	}, func(w *mortal) {
		w.all(func(name string) {
			w.pod(name, w.noted[name])
			w.runs(name, map[string]string{"work_mem": "8MB", "max_worker_processes": "64"})
		})
	}},
	{"suspend", func(w *mortal) {
		w.all(func(name string) { w.modify(name, func(e *api.NeonEndpoint) { e.Spec.Suspended = true }) })
	}, func(w *mortal) {
		w.all(w.suspended)
	}},
	{"resume", func(w *mortal) {
		w.all(func(name string) { w.modify(name, func(e *api.NeonEndpoint) { e.Spec.Suspended = false }) })
	}, func(w *mortal) {
		w.all(func(name string) { w.runs(name, map[string]string{"work_mem": "8MB"}) })
	}},
	{"idle", func(w *mortal) {
		w.busy(false)
	}, func(w *mortal) {
		w.all(w.suspended)
	}},
	{"annotate", func(w *mortal) {
		w.busy(true)
		w.all(func(name string) {
			w.modify(name, func(e *api.NeonEndpoint) {
				e.Annotations = map[string]string{api.Resume: time.Now().UTC().Format(time.RFC3339)}
			})
		})
	}, func(w *mortal) {
		w.all(func(name string) { w.runs(name, map[string]string{"work_mem": "8MB"}) })
	}},
	{"connect", func(w *mortal) {
		w.busy(false)
	}, func(w *mortal) {
		w.all(w.suspended)
		w.busy(true)
		for _, name := range []string{"first", "reader"} {
			w.connect(name)
			w.runs(name, map[string]string{"work_mem": "8MB"})
			w.same(name, "restarted under its client")
		}
		w.suspended("past")
	}},
	deleted(idlers...),
}}

// TestKilledIdling kills the operator at some of its requests, as TestKilled does, in the lives of
// endpoints of each type that are suspended when they are idle and resumed by an annotation or a client.
func TestKilledIdling(t *testing.T) {
	t.Parallel()
	killed(t, idling, func(int) int { return 3 })
}

// TestSoakKilledIdling kills the operator at each of its requests.
func TestSoakKilledIdling(t *testing.T) {
	killed(t, idling, func(most int) int { return most })
}

func (w *mortal) all(do func(name string)) {
	w.Helper()
	for _, name := range idlers {
		do(name)
	}
}

// connect connects to an endpoint through the operator's proxy. A client whose proxy was killed tries
// again.
func (w *mortal) connect(endpoint string) {
	w.Helper()
	var address string
	w.eventually("a client gets in at "+endpoint, func() bool {
		w.mu.Lock()
		op, killer := w.op, w.killer
		w.mu.Unlock()
		ctx, cancel := context.WithCancel(w.soon())
		defer cancel()
		go func() {
			select {
			case <-killer.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
		var err error
		address, err = Waker{op}.Wake(ctx, endpoint+"."+w.namespace)
		return err == nil && killer.Where() == ""
	})
	if w.noted[endpoint] = w.at(address); w.noted[endpoint] == "" {
		w.Errorf("a client of %s was sent to %s, where no compute is", endpoint, address)
	}
}

// login connects to the PostgreSQL of a compute that has replayed the whole history.
func (o *outside) login(address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name, _, _ := strings.Cut(address, ".")
	if _, err := o.compute(ctx, name); err != nil {
		return nil, err
	}
	o.mu.Lock()
	end := o.timeline.LastRecordLSN
	o.mu.Unlock()
	conn, server := net.Pipe()
	go func() {
		defer server.Close()
		b := pgproto3.NewBackend(server, server)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(new(pgproto3.AuthenticationOk))
		for {
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if b.Flush() != nil {
				return
			}
			if m, err := b.Receive(); err != nil {
				return
			} else if _, ok := m.(*pgproto3.Query); !ok {
				return
			}
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("at")}}})
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(end.String())}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		}
	}()
	return conn, nil
}
