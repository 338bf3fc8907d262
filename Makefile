# Every target needs only Go. make test and make lint use more programs if these are
# installed, and print whether they do. Each target prints its steps.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run dev test bench lint api tidy image stranger snippets suites

# With ONCE=1, make run ends by itself once everything was seen working.
# With CLUSTER=current, make run and make dev use the cluster that KUBECONFIG names.
ONCE ?=
CLUSTER ?=
export ONCE CLUSTER

# The checks are one program in a module of its own, outside the workspace.
tools := GOWORK=off go -C tools run .

# Everybody uses the same release. The Go command compiles it once.
golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@echo "make TARGET:"
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

run: ## start a cluster and the operators on it (ONCE=1, CLUSTER=current)
	@echo "run: building the operators and, the first time, Kubernetes: some minutes on two cores"
	@go run ./operators/cmd/run

dev: ## run the operators, and restart one when a source file of it is saved (CLUSTER=current)
	@echo "dev: building the operators and, the first time, Kubernetes: some minutes on two cores"
	@go run ./operators/cmd/dev

test: ## test all modules, with the race detector if there is a C compiler
	@echo "test: building the local cluster; the first time takes some minutes on two cores"
	@go run ./cluster build
	@race=; if command -v "$$(go env CC)" >/dev/null; then race=-race; \
		echo "test: the race detector is on"; \
	else \
		echo "test: the race detector is OFF: it needs a C compiler, and $$(go env CC) is not installed"; \
	fi; \
	light=$$($(tools) light); \
	echo "test: root, cluster and operators"; \
	$(tools) test $$race $$light; \
	if [ -n "$$race" ]; then \
		echo "test: allocations, without the race detector, which allocates memory itself"; \
		CGO_ENABLED=0 go test -trimpath -run '^TestAllocations$$' ./kube/internal/wire ./kube/internal/intent; \
	fi; \
	echo "test: other people's kinds, in a module of its own"; \
	$(tools) test -dir operators/thirdparty ./...; \
	echo "test: the tools"; \
	$(tools) test -dir tools ./...

bench: ## measure stores and operators beside their peers, and print a table
	@echo "bench: measuring; this takes minutes"
	@cd bench && GOWORK=off go run .

lint: ## check style, golden files, leak checks and the documentation's snippets
	@echo "lint: golangci-lint; the first time it is compiled, some minutes on two cores"
	@$(lint) go run $(golangci-lint) run ./... ./cluster/... ./operators/...
	@for dir in tools tools/suites/definitions bench operators/thirdparty; do \
		( cd $$dir && GOWORK=off $(lint) go run $(golangci-lint) run --config $(CURDIR)/.golangci.yml ./... ); \
	done
	@echo "lint: exported API and dependencies, compared with api/"
	@$(tools) api
	@$(tools) deps
	@echo "lint: every module's go.mod, alone"
	@$(tools) tidy
	@echo "lint: goroutine-leak checks"
	@$(tools) leaks
	@echo "lint: the documentation's snippets"
	@$(tools) snippets -static

# The local cluster is built with the same settings, so Kubernetes is not compiled again.
lint = CGO_ENABLED=0 GOFLAGS=-trimpath

api: ## rewrite the golden files in api/ after an intended change
	@$(tools) api -write
	@$(tools) deps -write

image: ## build the images of Foo, Echo and Letter and check their sizes
	@go run ./operators/foo/image
	@go run ./operators/echo/image
	@go run ./operators/letter/image
	@$(tools) image -under 7 $(CURDIR)/bin/foo.tar

tidy: ## complete each module's go.mod and go.sum; go mod tidy cannot before a release
	@$(tools) tidy -write

stranger: ## build and run the committed modules from outside the repository
	@$(tools) stranger

suites: ## run other projects' tests: controller-runtime's, kube-rs's (with cargo), published definitions
	@$(tools) suites

snippets: ## compile and run the documentation's snippets
	@$(tools) snippets
