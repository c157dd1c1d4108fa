# Everything a person or a machine does with this tree. `make run` and `make test` install what they need (apt-get, as
# root or with sudo), start a Docker daemon if none answers, and end what they started.

GO      ?= go
BIN     := bin/viiwork
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# Leaves the tailnet library's listener for files and the like out, which it opens on all of the host's addresses.
TAGS    := ts_omit_peerapiserver
# Our own packages are tested with the race detector, which needs cgo and gcc; the product is built without.
# Most tests of whole nodes wait: more of them at a time than there are cores.
TESTFLAGS ?= -race -parallel 4 -timeout 28m
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help run build test test-headscale test-systemd faults lint bench screens images appliance-image release reproduce fmt clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

run: build ## a demo mesh on real engines, with lines to try
	.ci/with-services $(BIN) demo $(DEMOFLAGS)

build: ## the program, without cgo, as bin/viiwork
	CGO_ENABLED=0 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN) ./appliance/viiwork

test: ## all tests, raced, on real engines and a real Docker daemon
	.ci/with-services $(GO) test $(TESTFLAGS) ./...

test-headscale: ## the tailnet's tests on a real Headscale, built the first time; where it cannot be had they skip
	.ci/headscale $(GO) test $(TESTFLAGS) -count=1 -v -run Headscale ./tsnode ./appliance

test-systemd: ## the service under a real systemd, on a bare Debian in a container, which is made the first time; as root
	.ci/with-services bash -c '.ci/machine image && $(GO) test $(TESTFLAGS) -count=1 -v -run UnderSystemd ./appliance/viiwork'

faults: ## nodes that die, freeze or are cut off, the mesh halved, under load and by the clock; as root, about 6 minutes
	VIIWORK_FAULTS=full $(GO) test $(TESTFLAGS) -count=1 -v ./appliance/faults

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l appliance engine images serf tsnode ui update); [ -z "$$bad" ] || { echo "not gofmt'ed: $$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

bench: ## what the gateway costs, as ratios to the engine alone, and what its routing is worth; BENCHTIME=1000x BENCHFLAGS=-short for a short look
	$(GO) test $(BENCHFLAGS) -run '^$$' -bench . -benchtime $(or $(BENCHTIME),10000x) -timeout 30m ./appliance ./appliance/gateway ./appliance/route ./ui/top
	$(GO) test $(BENCHFLAGS) -run '^$$' -bench . -benchtime 1x ./appliance/route/sim
	$(GO) test $(BENCHFLAGS) -run '^$$' -bench . -benchtime 5x ./appliance/kvshare/replica ./appliance/kvshare/store ./appliance/kvshare/transfer
	$(GO) test $(BENCHFLAGS) -run '^$$' -bench . -benchtime 1x -timeout 30m ./appliance/kvshare

screens: ## pictures of the pages of a mesh under load, into docs/screens
	mkdir -p docs/screens
	VIIWORK_TEST_SCREENS=$(CURDIR)/docs/screens .ci/with-services $(GO) test -count=1 -run TestScreens ./appliance

images: ## the CPU engine image viiwork-engine:cpu
	.ci/with-services true

appliance-image: build ## the node as an image, viiwork:latest, from bin/viiwork; needs Docker, no base image
	cp $(or $(CA_CERTIFICATES),/etc/ssl/certs/ca-certificates.crt) bin/ca-certificates.crt
	docker build --target prebuilt -t viiwork:latest .

# Version and publisher reach the program as stamps; all else that a release is made of stands in update/build/build.json.
release: build ## VERSION=v1.2.3 [PUBLISHER=github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml]: a release, in dist/VERSION
	@[ "$(origin VERSION)" = "command line" ] || { echo "say VERSION=v1.2.3"; exit 2; }
	$(BIN) release build '$(VERSION)' --publisher '$(PUBLISHER)'

reproduce: build ## VERSION=v1.2.3 [FROM=…] [REPRODUCE=--publisher=…]: builds a published release again and compares
	@[ "$(origin VERSION)" = "command line" ] || { echo "say VERSION=v1.2.3"; exit 2; }
	$(BIN) release reproduce '$(VERSION)' --from '$(FROM)' $(REPRODUCE)

fmt: ## gofmt
	gofmt -w appliance engine images serf tsnode ui update

clean: ## removes what build and release made; caches stay
	rm -rf bin dist
