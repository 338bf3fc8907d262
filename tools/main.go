// Command tools checks the promises of this repository. The exported API and the
// dependencies change only on purpose. Every package with goroutines is checked for
// leaks. The modules work for a stranger who downloads them. The code in the
// documentation compiles and runs, and comments and documents are in plain English.
//
// It is a module of its own, outside the workspace, so that its dependencies never become
// dependencies of the checked modules. The Makefile calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// A check is one subcommand. It prints its findings on standard output and returns an
// error if the repository does not pass.
type check struct {
	name string
	does string
	run  func(ctx context.Context, repo *Repo, args []string) error
}

func checks() []check {
	return []check{
		{"api", "compare the exported API with api/*.txt (-write replaces them)", checkAPI},
		{"deps", "compare the root module's dependencies with api/deps.txt (-write replaces it)", checkDeps},
		{"tidy", "check that each module builds alone with its go.mod (-write completes go.mod and go.sum)", checkTidy},
		{"english", "find text that is hard to read in comments and documents (-v prints shares)", checkEnglish},
		{"leaks", "find packages that start goroutines without a goroutine-leak check", checkLeaks},
		{
			"light", "print the packages of the workspace that do not link Kubernetes or CoreDNS; the others have no tests",
			listLight,
		},
		{"mac", "type-check packages of the workspace for macOS", checkMac},
		{"test", "run tests with gotestsum, and judge the failures", runTests},
		{"gotest", "run go test for gotestsum", goTest},
		{"canary", "run tests that must fail, and compare the verdicts", runCanaries},
		{"soak", "run the tests that make test leaves out or shortens (-limit, -seed)", runSoak},
		{"pack", "write the modules into a directory that serves as GOPROXY", packModules},
		{"stranger", "build and run the modules as a user outside the repository does", checkStranger},
		{"snippets", "compile and run the snippets of the documentation", checkSnippets},
		{
			"messages", "check that the messages in docs/troubleshooting.md are in the sources (-list prints those)",
			checkMessages,
		},
		{"links", "check the links of the documentation, and with -site of its web site", checkLinks},
		{"counts", "compare the numbers in the documents with the sources", checkCounts},
		{"record", "record a session of a terminal as a picture", recordSession},
		{"suites", "run other projects' tests against the cluster and the definitions (-only STEP)", runSuites},
		{"image", "check the compressed size of an image archive", checkImage},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) && !errors.Is(err, errTold) {
			fmt.Fprintln(os.Stderr, "tools:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range checks() {
			if c.name != args[0] {
				continue
			}
			repo, err := FindRepo(".")
			if err != nil {
				return err
			}
			return c.run(ctx, repo, args[1:])
		}
		fmt.Fprintf(os.Stderr, "tools: there is no check %q\n", args[0])
	}
	fmt.Fprintln(os.Stderr, "usage: tools CHECK [flags]")
	for _, c := range checks() {
		fmt.Fprintf(os.Stderr, "  %-9s %s\n", c.name, c.does)
	}
	return flag.ErrHelp
}
