package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is a request that a stand-in got.
type Request struct {
	Time   time.Time `json:"time"` // when it came
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// Status is 0 for a request that got no answer.
	Status int `json:"status"`
}

// Fault is a rule by which requests go wrong.
type Fault struct {
	// Method and Path select requests. An empty Method is any. Path is a part of the
	// request's path.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Times is the number of requests that go wrong. Zero means all.
	Times int `json:"times,omitempty"`
	// Delay passes before anything else, in nanoseconds. A client that gives up meanwhile has no effect.
	Delay time.Duration `json:"delay,omitempty"`
	// Status is answered without an effect. Zero means that the request is served.
	Status int `json:"status,omitempty"`
	// Lost ends the connection in place of the answer: the effect is there.
	Lost bool `json:"lost,omitempty"`
	// Hang keeps the request until its client gives up, without an effect.
	Hang bool `json:"hang,omitempty"`
}

// Faults holds the rules and the record of one stand-in. Its zero value has none. Faults is
// safe for concurrent use.
type Faults struct {
	mu       sync.Mutex
	rules    []*Fault
	requests []Request
}

// remembered is the number of requests that Faults keeps.
const remembered = 20000

// Add adds a rule. The oldest that matches a request applies.
func (f *Faults) Add(rule Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &rule)
}

// Clear removes all rules.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Requests returns the last 20,000 requests, oldest first.
func (f *Faults) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Request{}, f.requests...)
}

func (f *Faults) next(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, rule := range f.rules {
		if rule.Method != "" && rule.Method != r.Method || !strings.Contains(r.URL.Path, rule.Path) {
			continue
		}
		found := *rule
		if rule.Times > 0 {
			if rule.Times--; rule.Times == 0 {
				f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
			}
		}
		return found
	}
	return Fault{}
}

func (f *Faults) record(r *http.Request, arrived time.Time, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) >= remembered {
		f.requests = f.requests[remembered/2:]
	}
	f.requests = append(f.requests, Request{Time: arrived, Method: r.Method, Path: r.URL.RequestURI(), Status: status})
}

// Wrap returns a handler that goes wrong by the rules, records requests and says that it is a
// stand-in.
func (f *Faults) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		w.Header().Set("Server", Name)
		fault := f.next(r)
		if fault.Delay > 0 || fault.Hang { // net/http notices that a client has given up once the body is read
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if fault.Delay > 0 {
			select {
			case <-r.Context().Done(): // its client has given up
				f.record(r, arrived, 0)
				panic(http.ErrAbortHandler)
			case <-time.After(fault.Delay):
			}
		}
		switch {
		case fault.Hang:
			f.record(r, arrived, 0)
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case fault.Status != 0:
			f.record(r, arrived, fault.Status)
			Write(w, Answer{fault.Status, map[string]string{"msg": "fault that was asked for"}})
		case fault.Lost:
			h.ServeHTTP(nowhere{http.Header{}}, r)
			f.record(r, arrived, 0)
			panic(http.ErrAbortHandler)
		default:
			counted := &statusWriter{ResponseWriter: w, status: http.StatusOK}
			defer func() {
				if r.Context().Err() != nil { // its client has given up, and nothing was refused
					counted.status = 0
				}
				f.record(r, arrived, counted.status)
			}()
			h.ServeHTTP(counted, r)
		}
	})
}

// Admin serves the rules and the record: POST /faults with a [Fault], DELETE /faults, GET
// /requests. It has no authentication and belongs on an address of its own.
func (f *Faults) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /faults", Handler(func(r *http.Request) (Answer, error) {
		var rule Fault
		if err := Decode(r, &rule); err != nil {
			return Answer{}, err
		}
		f.Add(rule)
		return Answer{Status: http.StatusNoContent}, nil
	}))
	mux.Handle("DELETE /faults", Handler(func(*http.Request) (Answer, error) {
		f.Clear()
		return Answer{Status: http.StatusNoContent}, nil
	}))
	mux.Handle("GET /requests", Handler(func(*http.Request) (Answer, error) { return OK(f.Requests()), nil }))
	return mux
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// nowhere loses an answer.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header          { return n.header }
func (nowhere) Write(text []byte) (int, error) { return len(text), nil }
func (nowhere) WriteHeader(int)                {}

// Serve serves until ctx ends. Requests that are under way then are cut off.
func Serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// MustJSON returns the JSON of a value of the stand-ins' own types, which can be encoded.
func MustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode: %v", err))
	}
	return text
}
