// Package page is a web page at the operator's own port that shows its plans to people:
// the owners, for each of them the graph of its nodes coloured by state, and the causes
// and errors of its last reconciles. The page follows changes while it is open.
//
//	shown := page.New(op.shops, func(s *Shop) *plan.Status { return &s.Status.Status })
//	err := controller.Run(ctx, controller.Options{Address: ":8080", Routes: shown.Routes("/plans/")},
//		controller.Controller[Shop]{
//			For:       op.shops,
//			Reconcile: shown.Remember(op.reconcile),
//			Cleanup:   shown.Remember(op.cleanup),
//		})
//
// kubectl port-forward brings the port to a person's machine, and a browser shows
// http://localhost:8080/plans/. The page asks for a token of the cluster, as kubectl create
// token prints one. The token's user must be allowed to get the path of the data:
//
//	kind: ClusterRole
//	rules:
//	- {nonResourceURLs: [/plans/data], verbs: [get]}
//
// The page shows owners of one kind. A program with several kinds has a Page with a path of
// its own for each. The counterpart is the resource tree of Argo CD; controller-runtime and
// kube-rs have none.
//
// # From the store to the screen
//
// page.go has the routes. view.go waits for changes in the owners' store, and makes the
// JSON that the browser gets. recent.go remembers reconciles. In the browser, page.js asks
// for the JSON again and again, and fills page.html. layout.js finds places for nodes.
//
// # Guarantees
//
// The page sends no request to the API server, besides the reviews of its tokens. The
// browser asks no other host. HTML, styles and scripts hold no data and need no token.
// The browser keeps the token until the tab is closed. Names and messages are shown as
// text, whatever they contain.
//
// # Caveats
//
// Without TLS, everybody on the network path sees the token. The reconciles are those of
// the answering process, since it started: a replica that waits for the lease has none.
package page

import (
	"embed"
	"net/http"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// Page shows the plans of the owners of type T. [New] makes one.
type Page[T any] struct {
	// Open shows the plans to everybody who reaches the port. Default: a request for them
	// needs a token, as that of a [controller.Route] with Authorize.
	Open bool

	owners  kube.Handle[T]
	status  func(*T) *plan.Status
	recent  recent
	viewers chan struct{} // as many as there are requests under way

	mu   sync.Mutex
	rows map[types.UID]knownRow
}

// maxViewers is how many browsers can follow at the same time. Each holds a connection of
// the port.
const maxViewers = 32

// New returns the page of some owners. The handle must be the For of a controller of the
// program, because the page reads from that controller's store. status returns the part
// of an owner's status that the plan keeps.
func New[T any](owners kube.Handle[T], status func(*T) *plan.Status) *Page[T] {
	return &Page[T]{
		owners: owners, status: status,
		viewers: make(chan struct{}, maxViewers),
		rows:    make(map[types.UID]knownRow),
	}
}

// Routes returns the page's routes, for [controller.Options]. The page itself is at the
// path, such as "/plans/". The data is at the path's "data". A Page has one path.
func (p *Page[T]) Routes(at string) []controller.Route {
	at = strings.TrimSuffix(path.Join("/", at), "/") + "/"
	data := http.HandlerFunc(p.data)
	return []controller.Route{
		{Pattern: "GET " + at + "{$}", Handler: file("page.html", "text/html; charset=utf-8")},
		{Pattern: "GET " + at + "page.css", Handler: file("page.css", "text/css; charset=utf-8")},
		{Pattern: "GET " + at + "page.js", Handler: file("page.js", "text/javascript; charset=utf-8")},
		{Pattern: "GET " + at + "layout.js", Handler: file("layout.js", "text/javascript; charset=utf-8")},
		{Pattern: "GET " + at + "data", Handler: data, Authorize: !p.Open},
	}
}

//go:embed page.html page.css page.js layout.js
var files embed.FS

// policy lets the page load its own files and nothing else, and lets nobody frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file serves one of the files.
func file(name, contentType string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded(w, contentType)
		w.Header().Set("Cache-Control", "no-cache") // the next release may have other files
		w.Header().Set("Content-Security-Policy", policy)
		http.ServeFileFS(w, r, files, name)
	})
}

// guarded sets the headers of all answers.
func guarded(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
}
