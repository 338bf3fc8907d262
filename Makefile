# Every target needs only Go. make test and make lint use more programs if these are
# installed, and print whether they do. Each target prints its steps.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run dev test test-neon soak suites bench bench-quick lint canary api tidy image stranger snippets site recording neon-e2e

# With ONCE=1, make run ends by itself once everything was seen working.
# With CLUSTER=current, make run and make dev use the cluster that KUBECONFIG names.
ONCE ?=
MINUTES ?= 30
CLUSTER ?=
export ONCE CLUSTER

# With MARKDOWN=1, make bench-quick prints Markdown. With WRITE=README.md, it also writes
# the table into that file.
MARKDOWN ?=
WRITE ?=

# The checks are one program in a module of its own, outside the workspace.
tools := GOWORK=off go -C tools run .

# Everybody uses the same releases. The Go command compiles them once.
hugo := github.com/gohugoio/hugo@v0.163.3
golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The go command prints nothing while it compiles these.
compile = while sleep 15 >/dev/null 2>&1; do echo "$@: still compiling, $$SECONDS s"; done & trap "kill $$!" EXIT; \
	go build -o /dev/null ./cluster; GOWORK=off go build -C tools -o /dev/null .

# The operators are built with the same settings, so their packages are not compiled again.
shipped = CGO_ENABLED=0 go build -trimpath

help: ## list the targets
	@echo "make TARGET:"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## start a cluster and the operators on it (ONCE=1, CLUSTER=current)
	@echo "run: building the operators and, the first time, Kubernetes: some minutes on two cores"
	@$(shipped) -o bin/run ./operators/cmd/run
	@exec bin/run # go run would report an error after Ctrl-C

dev: ## run the operators, and restart one when a source file of it is saved (CLUSTER=current)
	@echo "dev: building the operators and, the first time, Kubernetes: some minutes on two cores"
	@$(shipped) -o bin/dev ./operators/cmd/dev
	@exec bin/dev # go run would report an error after Ctrl-C

# The tests of Neon take as long as all others together.
test: ## test all modules but Neon, with the race detector if there is a C compiler
	@echo "test: building the local cluster; the first time takes some minutes on two cores"
	@$(compile)
	@go run ./cluster build kubernetes kubectl node
	@race=; if command -v "$$(go env CC)" >/dev/null; then race=-race; \
		echo "test: the race detector is on"; \
	else \
		echo "test: the race detector is OFF: it needs a C compiler, and $$(go env CC) is not installed"; \
	fi; \
	light=$$($(tools) light | grep -v /operators/neon); \
	echo "test: root, aggregate, cluster and operators; beside them other people's kinds, the page of plans in"; \
	echo "test: Chromium, the measurements and the tools, which are modules outside the workspace"; \
	command -v chromium >/dev/null || echo "test: the tests of the page are SKIPPED: chromium is not installed"; \
	$(tools) test $$race -beside operators/thirdparty -beside bench -beside tools $$light; \
	if [ -n "$$race" ]; then \
		echo "test: allocations, without the race detector, which allocates memory itself"; \
		$(lint) go test -vet=off -run '^TestAllocations$$' ./kube/internal/wire ./kube/internal/intent; \
	fi

test-neon: ## test the Neon operator, with the race detector if there is a C compiler
	@echo "test-neon: building the local cluster; the first time takes some minutes on two cores"
	@$(compile)
	@go run ./cluster build kubernetes kubectl node
	@race=; if command -v "$$(go env CC)" >/dev/null; then race=-race; fi; \
	$(tools) test $$race $$($(tools) light | grep /operators/neon)

soak: ## run the long and the random tests and fuzzing, in random order (MINUTES=30)
	@echo "soak: building the local cluster; the first time takes some minutes on two cores"
	@$(compile)
	@go run ./cluster build kubernetes kubectl node
	@race=; if command -v "$$(go env CC)" >/dev/null; then race=-race; fi; \
	$(tools) soak $$race -limit $(MINUTES)m

bench: ## measure stores and operators beside their peers, and print a table
	@echo "bench: measuring; this takes minutes"
	@cd bench && GOWORK=off go run .

bench-quick: ## measure the README's figures beside controller-runtime and kube-rs (MARKDOWN=1, WRITE=README.md)
	@echo "bench-quick: measuring; this takes five minutes, and some more the first time"
	@cd bench && GOWORK=off go run . -quick $(if $(MARKDOWN),-markdown) $(if $(WRITE),-write $(abspath $(WRITE)))

canary: ## run tests that must fail, and check that the verdict on each is right
	@echo "canary: tests that leak, panic, race or fail once: the verdict on each"
	@$(tools) canary

lint: ## check style, golden files, leak checks, and the documentation's snippets and links
	@echo "lint: golangci-lint; the first time it is compiled, some minutes on two cores"
	@$(lint) go run $(golangci-lint) run ./... ./aggregate/... ./cluster/... ./operators/...
	@for dir in tools tools/suites/definitions bench operators/thirdparty; do \
		( cd $$dir && GOWORK=off $(lint) go run $(golangci-lint) run --config $(CURDIR)/.golangci.yml ./... ); \
	done
	@echo "lint: exported API and dependencies, compared with api/"
	@$(tools) api
	@$(tools) deps
	@echo "lint: the versions of all modules of the workspace can be found, or go doc fails"
	@go list -m all >/dev/null
	@echo "lint: every module's go.mod, alone"
	@$(tools) tidy
	@echo "lint: goroutine-leak checks"
	@$(tools) leaks
	@echo "lint: messages that the documentation explains"
	@$(tools) messages
	@echo "lint: the English of comments and documents"
	@$(tools) english
	@echo "lint: the documentation's snippets"
	@$(tools) snippets -static
	@echo "lint: the links of the documentation, its counted numbers, and its recording"
	@$(tools) links
	@$(tools) counts
	@$(tools) record -check -o docs/recording.svg docs/recording.txt

# The local cluster is built with the same settings, so Kubernetes is not compiled again. The
# linter's cache lies beside Go's: it is as warm as that.
lint = CGO_ENABLED=0 GOFLAGS='-trimpath -gcflags=all=-dwarf=false' \
	GOLANGCI_LINT_CACHE="$$(go env GOCACHE)/golangci-lint"

api: ## rewrite the golden files in api/ after an intended change
	@$(tools) api -write
	@$(tools) deps -write

image: ## build the images of Foo, Echo, Letter and Neon and check their sizes
	@go run ./operators/foo/image
	@go run ./operators/echo/image
	@go run ./operators/letter/image
	@go run ./operators/neon/image
	@$(tools) image -under 7.1 $(CURDIR)/bin/foo.tar

neon-e2e: ## test the Neon operator on a real node (NEON_IMAGE_REF= COMPUTE_IMAGE_REF=, or NEON_DIRECTORY=)
	@go run ./cluster build kubernetes kubectl node
	@if [ -n "$(NEON_IMAGE_REF)$(NEON_DIRECTORY)" ]; then echo "neon-e2e: Neon's programs"; else \
		echo "neon-e2e: STAND-INS for Neon's programs; NEON_IMAGE_REF= and COMPUTE_IMAGE_REF= name images,"; \
		echo "neon-e2e: NEON_DIRECTORY= a directory with their files, POSTGRES_VERSION= the compute's version"; \
	fi
	@PINTLE_REQUIRE_REAL_NODE=1 NEON_IMAGE_REF="$(NEON_IMAGE_REF)" COMPUTE_IMAGE_REF="$(COMPUTE_IMAGE_REF)" \
		NEON_DIRECTORY="$(NEON_DIRECTORY)" POSTGRES_VERSION="$(POSTGRES_VERSION)" \
		go test -count=1 -v -timeout=20m ./operators/neon/e2e

tidy: ## complete each module's go.mod and go.sum; go mod tidy cannot before a release
	@$(tools) tidy -write

stranger: ## build and run the committed modules from outside the repository, and follow docs/tutorial.md
	@$(tools) stranger

suites: ## run other projects' tests: controller-runtime's, kube-rs's (with cargo), published definitions
	@$(tools) suites

snippets: ## compile and run the documentation's snippets
	@$(tools) snippets

site: ## build the web site of the documentation in bin/site
	@echo "site: Hugo; the first time it is compiled, some minutes on two cores"
	@$(lint) go run $(hugo) --config site/hugo.toml --destination bin/site --noBuildLock \
		--cleanDestinationDir --panicOnWarning
	@$(tools) links -site $(CURDIR)/bin/site

recording: ## record the README's terminal again, and take its pictures of the page of plans, with Chromium
	@$(tools) record -o docs/recording.svg docs/recording.txt
	@cd operators/thirdparty && GOWORK=off PINTLE_REQUIRE_BROWSER=1 PINTLE_PICTURES=$(CURDIR)/docs \
		go test -count=1 -run '^TestPicture$$' ./browser
