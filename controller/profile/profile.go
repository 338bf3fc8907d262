// Package profile serves the profiles of a program at a controller's port:
//
//	controller.Options{Address: "127.0.0.1:8080", Profiles: profile.Handler()}
//
// Then go tool pprof http://127.0.0.1:8080/debug/pprof/heap shows one. It is a package of
// its own so that a program without profiles does not link the code.
package profile

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// Handler serves the profiles of net/http/pprof below /debug/pprof/, for go tool pprof.
// Unlike an import of net/http/pprof, it does not register itself with every server of
// the program. Its counterpart is PprofBindAddress of controller-runtime.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/debug/pprof/")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch name {
	case "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%s %d\n", p.Name(), p.Count())
		}
		fmt.Fprint(w, "profile?seconds=30\ntrace?seconds=1\n")
	case "profile":
		record(w, r, 30, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case "trace":
		record(w, r, 1, func() error { return trace.Start(w) }, trace.Stop)
	default:
		p := pprof.Lookup(name)
		if p == nil {
			http.NotFound(w, r)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug")) // the default is the binary form
		if debug > 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		} else {
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		_ = p.WriteTo(w, debug) // the client may have gone
	}
}

// longest is the longest time that a recording may take, in seconds.
const longest = 600

// record records for the time that the request asks for.
func record(w http.ResponseWriter, r *http.Request, seconds int, start func() error, stop func()) {
	if n, err := strconv.Atoi(r.FormValue("seconds")); err == nil && n > 0 {
		seconds = min(n, longest)
	}
	// The time-outs of the server begin when the recording has ended.
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		deadlines, ends := http.NewResponseController(w), time.Now().Add(time.Duration(seconds)*time.Second)
		if server.ReadTimeout > 0 {
			_ = deadlines.SetReadDeadline(ends.Add(server.ReadTimeout)) // a writer without deadlines has no time-outs
		}
		if server.WriteTimeout > 0 {
			_ = deadlines.SetWriteDeadline(ends.Add(server.WriteTimeout)) // the same
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another recording is under way
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	}
}
