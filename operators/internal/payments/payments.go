// Package payments is a stand-in for a payment service: a server with accounts in memory,
// for tests and for make run. Like many such services it has no idempotency tokens: each
// POST makes another account, even if there is one of that name.
package payments

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// Account is an account in the service.
type Account struct {
	Name  string `json:"name"`
	Limit int64  `json:"limit"`
	// Key is in the answer to the request that has created the account, and in no other.
	Key string `json:"key,omitempty"`
}

// Service is a payment service. The zero value is ready for use.
//
//	POST   /accounts/NAME   makes an account
//	GET    /accounts/NAME   shows the account that was made last
//	PUT    /accounts/NAME   changes the limit
//	DELETE /accounts/NAME   deletes all accounts of the name
type Service struct {
	// Hold, if it is set, is called before an account is made, and again before that is
	// answered. A client may have gone when it returns.
	Hold func(made bool)

	mu       sync.Mutex
	accounts map[string][]Account
	created  map[string]int
	calls    int
	most     int
}

// Accounts returns the accounts by their names. There is more than one of a name if a
// client has made a mistake.
func (s *Service) Accounts() map[string][]Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.accounts)
}

// Most returns how many accounts of a name there were at most at a time.
func (s *Service) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Created returns how often an account of a name was made.
func (s *Service) Created(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.created[name]
}

// Calls returns how many requests were answered.
func (s *Service) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Listen serves the service at a free port of this machine until stop is called.
func (s *Service) Listen(ctx context.Context) (url string, stop func(context.Context) error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the stand-in of the payment service: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // it ends when it is closed
	}()
	stop = func(context.Context) error {
		err := server.Close()
		<-ended
		return err
	}
	return "http://" + l.Addr().String(), stop, nil
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{name}", s.post)
	mux.HandleFunc("GET /accounts/{name}", s.get)
	mux.HandleFunc("PUT /accounts/{name}", s.put)
	mux.HandleFunc("DELETE /accounts/{name}", s.remove)
	mux.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *Service) post(w http.ResponseWriter, r *http.Request) {
	a, ok := read(w, r)
	if !ok {
		return
	}
	a.Key = rand.Text()
	s.hold(false)
	s.mu.Lock()
	if s.accounts == nil {
		s.accounts, s.created = make(map[string][]Account), make(map[string]int)
	}
	s.accounts[a.Name] = append(s.accounts[a.Name], a)
	s.created[a.Name]++
	s.most = max(s.most, len(s.accounts[a.Name]))
	s.mu.Unlock()
	s.hold(true)
	write(w, http.StatusCreated, a)
}

func (s *Service) hold(made bool) {
	if s.Hold != nil {
		s.Hold(made)
	}
}

func (s *Service) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.accounts[r.PathValue("name")]
	if len(all) == 0 {
		http.NotFound(w, r)
		return
	}
	a := all[len(all)-1]
	a.Key = ""
	write(w, http.StatusOK, a)
}

func (s *Service) put(w http.ResponseWriter, r *http.Request) {
	want, ok := read(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.accounts[want.Name]
	if len(all) == 0 {
		http.NotFound(w, r)
		return
	}
	last := &all[len(all)-1]
	last.Limit = want.Limit
	write(w, http.StatusOK, Account{Name: last.Name, Limit: last.Limit})
}

func (s *Service) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.accounts, r.PathValue("name"))
	w.WriteHeader(http.StatusNoContent)
}

// read reads the account in a request.
func read(w http.ResponseWriter, r *http.Request) (a Account, ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&a); err != nil || a.Limit <= 0 {
		http.Error(w, "an account needs a limit", http.StatusBadRequest)
		return a, false
	}
	a.Name = r.PathValue("name")
	return a, true
}

func write(w http.ResponseWriter, code int, a Account) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // the client has gone
}
