package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

// A Status is the status that a running cluster reports.
type Status struct {
	Name       string            `json:"name"`
	Phase      string            `json:"phase"`
	PID        int               `json:"pid"` // the supervisor's process id
	Dir        string            `json:"dir"`
	Kubeconfig string            `json:"kubeconfig"`
	Server     string            `json:"server"`
	Started    time.Time         `json:"started"`
	ReadyAfter string            `json:"readyAfter,omitempty"` // the API server, from the supervisor's start
	Components []ComponentStatus `json:"components"`
	// NotReady has the nodes that were not Ready when the command status asked for them, and why.
	NotReady []string `json:"notReady,omitempty"`
}

// A ComponentStatus is the status of one program.
type ComponentStatus struct {
	Name     string `json:"name"`
	State    string `json:"state"` // running, paused, down or failed
	PID      int    `json:"pid,omitempty"`
	Restarts int    `json:"restarts"` // restarts after it ended by itself
	LastEnd  string `json:"lastEnd,omitempty"`
}

func (s *supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{
		Name: s.Settings.Name, Phase: s.phase, PID: os.Getpid(), Dir: string(s.Dir),
		Kubeconfig: s.Dir.Kubeconfig(), Server: s.plane.Server(), Started: s.started,
	}
	if s.Owner.PID != 0 && s.Keep == 0 && !s.Owner.Alive() { // watchOwner is about to see it
		status.Phase = Stopping
	}
	if s.readyAfter > 0 {
		status.ReadyAfter = s.readyAfter.Round(time.Millisecond).String()
	}
	for _, c := range s.components {
		status.Components = append(status.Components, c.status())
	}
	for _, n := range s.Nodes {
		if a, ok := n.(Actor); ok {
			status.Components = append(status.Components, a.Status()...)
		}
	}
	return status
}

type serving struct {
	server *http.Server
	done   chan struct{}
}

// listen serves the control socket. Only this user can open it, because its directory is
// closed to others.
func (s *supervisor) listen() (*serving, error) {
	socket, err := s.Dir.Socket()
	if err != nil {
		return nil, err
	}
	// The process that left it is gone: this process holds the supervisor's lock.
	if err := state.RemoveSocket(socket); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect control socket: %w", err), listener.Close())
	}
	v := &serving{
		server: &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}, done: make(chan struct{}),
	}
	go func() {
		defer close(v.done)
		_ = v.server.Serve(listener) // it returns when the listener is closed
	}()
	return v, nil
}

func (v *serving) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if v.server.Shutdown(ctx) != nil {
		_ = v.server.Close() // closes connections that do not end by themselves
	}
	<-v.done
}

func (s *supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.status()) // the client may have disconnected
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		s.Log.Info("received a request to stop")
		s.stop()
	})
	mux.HandleFunc("POST /owner", func(w http.ResponseWriter, r *http.Request) {
		var by Ownership
		err := json.NewDecoder(r.Body).Decode(&by)
		if err == nil {
			err = s.requestAdoption(r.Context(), by)
		}
		switch {
		case errors.Is(err, ErrOwned):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.Is(err, ErrEnding):
			http.Error(w, err.Error(), http.StatusGone)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /compact", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.probe.compact(r.Context()))
	})
	mux.HandleFunc("POST /components/{name}/{action}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.act(r.Context(), r.PathValue("name"), r.PathValue("action")))
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// act performs an action on a component. A start is complete when the component is ready.
func (s *supervisor) act(ctx context.Context, name, action string) error {
	i := slices.IndexFunc(s.components, func(c *component) bool { return c.Spec.Name == name })
	var names []string
	for _, c := range s.components {
		names = append(names, c.Spec.Name)
	}
	for _, n := range s.Nodes {
		a, ok := n.(Actor)
		if !ok {
			continue
		}
		names = append(names, a.Programs()...)
		if i < 0 && slices.Contains(a.Programs(), name) {
			s.Log.Info("received a request to act on a node", "program", name, "action", action)
			return a.Act(ctx, name, action)
		}
	}
	if i < 0 {
		return fmt.Errorf("this cluster has no component %q: it has %s", name, strings.Join(names, ", "))
	}
	if !slices.Contains(Actions, action) {
		return fmt.Errorf("unknown action %q: want one of %v", action, Actions)
	}
	c := s.components[i]
	s.Log.Info("received a request to act on a component", "component", name, "action", action)
	if err := c.do(ctx, action); err != nil {
		return err
	}
	if action == start || action == restart {
		ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
		defer cancel()
		return c.awaitReady(ctx, false)
	}
	return nil
}

// Actions are the actions that [Client.Act] accepts.
var Actions = []string{start, stop, kill, restart, pause, resume}
