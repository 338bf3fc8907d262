package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/operators/internal/program"
)

// operator is a program that this command runs, with all that this command knows about it.
type operator struct {
	name  string   // of its package, and of its process
	kinds []string // plurals
	crd   string   // the name of its definition
	args  func(place) []string
	// definition is the file of its definition, empty if it installs that itself when its
	// controller begins to run.
	definition string
	// sample is the file of its samples, empty if its demonstration applies them.
	sample string
	// served says that kube-apiserver connects to it.
	served bool
	// local says that it runs on the local cluster only: its pods are processes of this machine.
	local bool
	// missing returns the reason why it cannot run on this machine. Default: it can.
	missing func(settings) error
	// steps are its demonstrations, in their order.
	steps []step
	// page is the path of its page of plans, which is open.
	page string
	// try are further arguments of kubectl that people can try.
	try []string
}

// step is a demonstration of one thing.
type step struct {
	what string
	do   func(settings, context.Context, *local.Cluster, running) error
}

// shows returns a step that needs no settings.
func shows(what string, do func(context.Context, *local.Cluster, running) error) step {
	return step{what, func(_ settings, ctx context.Context, c *local.Cluster, ops running) error { return do(ctx, c, ops) }}
}

// place is where an operator runs.
type place struct {
	namespace, dir string
	payments       string // the address of the payment service
	neon           neonPlace
}

// list returns the operators in the order in which they start and are shown.
func list() []operator {
	own := func(place) []string { return []string{"-addr=127.0.0.1:0"} }
	return []operator{
		{
			name: "book", kinds: []string{"books"}, crd: "books.example.technosophos.com", definition: "book/crd.yaml",
			sample: "book/sample.yaml", args: func(place) []string { return nil },
			steps: []step{
				shows("book prints an added Book with its title", showAdded),
				shows("book prints a modified Book", showModified),
				shows("book prints a deleted Book", showDeleted),
			},
			try: []string{`patch book moby-dick --type=merge -p '{"spec":{"title":"The Whale"}}'`},
		}, {
			name: "foo", kinds: []string{"foos"}, crd: "foos.clux.dev", definition: "foo/deploy/crd.yaml", sample: "foo/sample.yaml",
			args: func(p place) []string { return []string{"-addr=127.0.0.1:0", "-namespace=" + p.namespace} },
			steps: []step{
				shows("foo is ready and serves the samples over HTTP", showServed), shows("foo has metrics", showMetrics),
				shows("a pod on a simulated node is Running and Ready", showPod),
			},
		}, {
			name: "echo", kinds: []string{"echoes"}, crd: "echoes.example.com", sample: "echo/sample.yaml", args: own,
			steps: []step{
				shows("an Echo has its servers", showEcho),
				shows("a Deployment that was changed by hand is restored", showBack),
			},
			try: []string{"scale echo/hello --replicas=5"},
		}, {
			name: "letter", kinds: []string{"letters"}, crd: "letters.example.com", sample: "letter/sample.yaml", args: own,
			steps: []step{shows("all letters of a template are written again when it changes", showLetters)},
		}, {
			name: "shop", kinds: []string{"shops"}, crd: "shops.shop.example.com", sample: "shop/sample.yaml",
			args: func(p place) []string {
				return []string{"-addr=127.0.0.1:0", "-payments=" + p.payments, "-page", "-open"}
			},
			page: "/plans/",
			steps: []step{
				shows("shop has a page of its plans", showPage),
				{"a Shop has all its parts", settings.showShop},
				{"a Shop's application waits for its settings", settings.showWaiting},
			},
			try: []string{`patch shop corner --type=merge -p '{"spec":{"gifts":false,"regions":["north"]}}'`},
		}, {
			name: "farm", kinds: []string{"llamas", "farmpods"}, served: true,
			args: func(p place) []string {
				return []string{"-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data=" + filepath.Join(p.dir, "llamas")}
			},
			steps: []step{{"llamas and farm pods are served without a definition", settings.showFarm}},
		}, {
			name: "neon", kinds: []string{"nd", "neonclusters", "neonbranches", "neonendpoints"}, local: true,
			args: func(p place) []string { return p.neon.args() }, missing: neonMissing,
			page:  "/plans/databases/",
			steps: []step{{"a NeonDatabase is made, and answers", settings.showNeon}},
			try:   []string{`get secret orders-connection -o go-template='{{.data.uri | base64decode}}'`},
		},
	}
}

// crds returns the names of the definitions.
func crds() string {
	var names []string
	for _, op := range list() {
		if op.crd != "" {
			names = append(names, op.crd)
		}
	}
	return strings.Join(names, " ")
}

// running has the running operators by name.
type running map[string]*program.Program

// ended returns a channel that gets the name of an operator that has ended.
func (ops running) ended() <-chan string {
	names := make(chan string, len(ops))
	for name, p := range ops {
		go func() {
			<-p.Done()
			names <- name
		}()
	}
	return names
}
