package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func serve(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(l) // it ends with ctx
}

// handler returns the calls. With keys it asks for tokens, except for /metrics.
func (n *node) handler(keys bool) http.Handler {
	calls := http.NewServeMux()
	call := func(method, path string, h http.HandlerFunc) {
		calls.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method {
				w.Header().Set("Allow", method)
				w.WriteHeader(http.StatusMethodNotAllowed) // upstream writes no body
				return
			}
			h(w, r)
		})
	}
	call(http.MethodGet, "/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, n.state()) })
	call(http.MethodPost, "/configure", n.configure)
	call(http.MethodPost, "/terminate", n.terminate)
	call(http.MethodPost, "/promote", n.promote)
	call(http.MethodPost, "/check_writability", n.checkWritability)
	call(http.MethodGet, "/dbs_and_roles", n.databasesAndRoles)
	all := http.NewServeMux()
	all.HandleFunc("GET /metrics", n.metrics)
	all.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if keys {
			if status, why := n.admit(r); status != 0 {
				refuse(w, status, why)
				return
			}
		}
		calls.ServeHTTP(w, r)
	})
	return all
}

// admit returns a status other than 0 for requests that are not allowed.
func (n *node) admit(r *http.Request) (status int, why string) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return http.StatusBadRequest, "invalid authorization token"
	}
	n.mu.Lock()
	keys := n.config.ComputeCtl.JWKS.Keys
	n.mu.Unlock()
	for _, key := range keys {
		public, err := key.Public()
		if err != nil {
			continue
		}
		claims, err := public.Verify(text)
		if err != nil {
			continue
		}
		if claims.ComputeID == n.options.id || claims.Scope == token.Compute && slices.Contains(claims.Audience, "compute") {
			return 0, ""
		}
		return http.StatusUnauthorized, "invalid claims in authorization token"
	}
	return http.StatusUnauthorized, "failed to verify authorization token"
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

// state is the answer to /status.
type state struct {
	StartTime  string  `json:"start_time"`
	Tenant     string  `json:"tenant"`
	Timeline   string  `json:"timeline"`
	Status     string  `json:"status"`
	LastActive *string `json:"last_active"`
	Error      *string `json:"error"`
}

func (n *node) state() state {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := state{
		StartTime: n.started.Format("2006-01-02T15:04:05.000000000Z"), Tenant: n.config.Spec.TenantID,
		Timeline: n.config.Spec.TimelineID, Status: n.status, Error: n.failure,
	}
	if n.lastActive != nil {
		text := n.lastActive.Format("2006-01-02T15:04:05.000000000+00:00")
		s.LastActive = &text
	}
	return s
}

func (n *node) invalidStatus(w http.ResponseWriter) {
	refuse(w, http.StatusPreconditionFailed, "invalid compute status: "+n.state().Status)
}

// configure takes another configuration and answers when it is in effect.
func (n *node) configure(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	config, err := decode(text)
	if err != nil {
		http.Error(w, "Failed to deserialize the JSON body into the target type: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	if !n.setStatus(statusRunning, statusConfiguration) {
		n.invalidStatus(w)
		return
	}
	// The work goes on when the client gives up.
	done := make(chan error, 1)
	work := context.WithoutCancel(r.Context())
	go func() { done <- n.reconfigure(work, config) }()
	select {
	case err = <-done:
	case <-r.Context().Done():
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, `compute configuration failed: "unknown error"`)
		return
	}
	answer(w, http.StatusOK, n.state())
}

func (n *node) reconfigure(ctx context.Context, c spec.Config) error {
	c.ComputeCtl = n.config.ComputeCtl // read at the start only
	err := writeSettings(n.options.data, c)
	if err == nil {
		n.server().signal(syscall.SIGHUP)
		if n.proposer != nil {
			n.proposer.Reconfigure(c.Spec.Safekeepers, c.Spec.SafekeepersGeneration)
			err = n.apply(ctx, c)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		// Upstream tells nobody why, and stays so.
		n.log.Error("configuration failed", "error", err)
		n.status = statusFailed
		return err
	}
	n.config, n.status = c, statusRunning
	return nil
}

// terminate stops PostgreSQL, and later the process.
func (n *node) terminate(w http.ResponseWriter, r *http.Request) {
	mode := r.URL.Query().Get("mode")
	if mode == "" {
		mode = "fast"
	}
	if mode != "fast" && mode != "immediate" {
		http.Error(w, "Failed to deserialize query string: unknown variant `"+mode+"`", http.StatusBadRequest)
		return
	}
	if !n.setStatus(statusRunning, statusPending+mode) {
		n.invalidStatus(w)
		return
	}
	p := n.server()
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-r.Context().Done():
		return // it hangs, as upstream does when the WAL has nowhere to go
	}
	var lsn *string
	if n.proposer != nil {
		text := n.proposer.Commit().String()
		lsn = &text
	}
	n.setStatus(statusPending+mode, statusTerminated)
	after := n.timing.afterImmediate
	if mode == "fast" {
		after = n.timing.afterFast
	}
	go n.exit(context.WithoutCancel(r.Context()), after, 0)
	answer(w, http.StatusOK, map[string]*string{"lsn": lsn})
}

// promote refuses as upstream does. It does not promote.
func (n *node) promote(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		http.Error(w, "Expected request with `Content-Type: application/json`", http.StatusUnsupportedMediaType)
		return
	}
	var body struct {
		Spec *json.RawMessage `json:"spec"`
		LSN  string           `json:"wal_flush_lsn"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Spec == nil {
		http.Error(w, "Failed to deserialize the JSON body into the target type: spec: invalid type: null, expected struct ComputeSpec",
			http.StatusUnprocessableEntity)
		return
	}
	refuse(w, http.StatusInternalServerError, "the stand-in for compute_ctl does not promote")
}

func (n *node) checkWritability(w http.ResponseWriter, r *http.Request) {
	if n.state().Status != statusRunning {
		n.invalidStatus(w)
		return
	}
	const write = "create table if not exists health_check (id int primary key, at timestamptz); " +
		"insert into health_check values (1, now()) on conflict (id) do update set at = now()"
	if err := n.inside(r.Context(), "postgres", write); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer(w, http.StatusOK, true)
}

func (n *node) databasesAndRoles(w http.ResponseWriter, r *http.Request) {
	conn, err := n.connect(r.Context(), "")
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }() // it was only read from
	var found json.RawMessage
	const query = `select json_build_object(
		'roles', (select json_agg(json_build_object('name', rolname, 'encrypted_password', rolpassword, 'options', null)) from pg_authid),
		'databases', (select json_agg(json_build_object('name', datname, 'owner', rolname, 'restrict_conn', not datallowconn,
			'invalid', false, 'options', null)) from pg_database d join pg_roles r on r.oid = d.datdba))::text::bytea`
	if err := conn.QueryRow(r.Context(), query).Scan(&found); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer(w, http.StatusOK, found)
}

func (n *node) metrics(w http.ResponseWriter, _ *http.Request) {
	s := n.state()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE compute_ctl_up gauge\ncompute_ctl_up{build_tag=\"standin\",status=%q} 1\n", s.Status)
	fmt.Fprint(w, "# TYPE compute_pg_current_downtime_ms gauge\ncompute_pg_current_downtime_ms 0\n"+
		"# TYPE compute_pg_downtime_ms_total counter\ncompute_pg_downtime_ms_total 0\n"+
		"# TYPE pg_cctl_pagestream_request_errors_total counter\npg_cctl_pagestream_request_errors_total 0\n")
}
