# Holdfast. `make` lists what there is; every target is also plain go, to be read here.

GO            ?= go
BIN           ?= bin/holdfast
VERSION       ?=
FUZZTIME      ?= 30s
BENCHCOUNT    ?= 6
LINT          := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT     := $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
HOLDFAST_URL  ?= http://127.0.0.1:7420

.DEFAULT_GOAL := help
.PHONY: help check fmt vet lint layers test short race fuzz bench e2e cover dev demo build image release containers clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: fmt vet lint layers test ## all that must be clean before a change is handed in

fmt: ## write every file as gofumpt and gci do
	$(LINT) fmt

vet: ## go vet
	$(GO) vet ./...

lint: ## golangci-lint with the rules of .golangci.yaml
	$(LINT) run

layers: ## imports point down only
	$(GO) test -count=1 -run '^TestLayers_' ./integration

test: ## every test that needs no container engine
	$(GO) test ./...

short: ## the tests that take seconds
	$(GO) test -short ./...

race: ## the race detector over all packages, in random order
	$(GO) test -race -shuffle=on ./...

fuzz: ## each fuzz target for FUZZTIME (30s)
	@$(GO) list ./... | while read -r pkg; do \
		for target in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz'); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" || exit 1; \
		done; \
	done

bench: ## benchmarks, BENCHCOUNT times each, summed up by benchstat
	@out="$$(mktemp)"; trap 'rm -f "$$out"' EXIT; \
	$(GO) test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) ./... | tee "$$out" && $(BENCHSTAT) "$$out"

e2e: ## the whole program against a real etcd: kill, freeze, cut (minutes)
	$(GO) test -count=1 -timeout 30m ./integration/... ./cmd/...

cover: ## coverage of the short tests, by function
	@out="$$(mktemp)"; trap 'rm -f "$$out"' EXIT; \
	$(GO) test -short -coverpkg=./... -coverprofile="$$out" ./... && $(GO) tool cover -func="$$out" | tail -n 40

dev: ## a development server with sample limits, on loopback
	$(GO) run ./cmd/holdfast dev

demo: ## send the bodies of docs/examples to a running `make dev`
	@GO="$(GO)" HOLDFAST_URL="$(HOLDFAST_URL)" bash docs/examples/demo.sh

build: ## one static binary at BIN (bin/holdfast)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w$(if $(VERSION), -X main.version=$(VERSION))' -o $(BIN) ./cmd/holdfast

IMAGE         ?= holdfast:dev

image: ## the container image IMAGE (holdfast:dev) from this checkout; nothing is pulled
	rm -rf bin/image && mkdir -p bin/image/state
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags '-s -w$(if $(VERSION), -X main.version=$(VERSION))' -o bin/image/holdfast ./cmd/holdfast
	docker build --quiet --network none --file Dockerfile --tag $(IMAGE) bin/image

release: ## the files of a release in dist/: binaries, bills of materials, checksums; RELEASE_IMAGE=name adds the image
	VERSION="$(VERSION)" IMAGE="$(RELEASE_IMAGE)" bash .ci/release dist

containers: ## the tests that need a container engine
	HOLDFAST_TEST_CONTAINERS=1 $(GO) test -count=1 -run '^TestCompose_' -v ./integration

clean: ## remove what build made
	rm -rf bin
