# SPDX-License-Identifier: Apache-2.0
# Berth. `make demo` shows it, `make test` tests it in minutes; `make test-all` and `make lint` are what CI asks of every change.

GO       ?= go
BIN      := bin/berth
TOOLS    := $(CURDIR)/.cache/bin
STATICCHECK_VERSION := v0.8.2
GOVULNCHECK_VERSION := v1.8.0
GOSEC_VERSION := v2.30.0
NFPM_VERSION := v2.45.2
CYCLONEDX_VERSION := v1.10.0

.PHONY: build release image demo dev test test-all sim sim-teeth bugs-named mutate chaos chaos-full upgrade fuzz vuln gosec graphs reference lint fmt proto proto-check clean

build: ## the one binary
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/berth

RELEASE ?= bin/release
ARCH    ?= amd64 arm64

release: $(TOOLS)/nfpm $(TOOLS)/cyclonedx-gomod ## binaries, deb, rpm, SBOM and checksums of this commit into RELEASE, which must be new
	GO=$(GO) deploy/release/release $(RELEASE) $(ARCH)

image: ## the container image, berth:latest; needs a Docker engine
	docker build -f deploy/Dockerfile -t berth .

demo: build ## everything in one process, 20 simulated hosts, no set-up
	$(BIN) demo

dev: build ## the same, and it stays up
	$(BIN) dev

# Packages that take longest begin, so that none of them runs alone at the end.
SLOW   := ./pkg/celltest ./cmd/berth/measure ./compute-agent/hypervisor/qemu ./compute-agent/hypervisor/libvirt ./deploy ./cmd/berth ./pkg/kafka/share ./pkg/lab/sim ./pkg/ui \
	./pkg/kafka/read ./pkg/kafka/loop ./pkg/follow ./pkg/kafka/admin ./pkg/publish
# Clients of Kafka are tested on real Kafka by make test too; what else runs on it is whole cells and benches, and takes long.
CLIENT := ./pkg/kafka/... ./pkg/follow/... ./pkg/publish/... ./pkg/kafkatest
# Nothing here runs beside anything else (cores, commands that end at once, checks of files): the race detector would only be slow.
# What cmd/berth and pkg/ui start and measure, the API node and everything in one process, has its races looked for in pkg/api and
# pkg/celltest, and the pools of pkg/unpack in pkg/kafka.
SINGLE := . ./cmd/berth ./cmd/berth/measure ./deploy ./compute-agent/offer ./compute-agent/task ./conductor/admit ./conductor/quota ./flavors/catalog \
	./queues/advise ./queues/plan ./queues/ring ./pkg/cli ./pkg/twins ./pkg/lab/fleet ./pkg/lab/house ./pkg/lab/mutate ./pkg/lab/size ./pkg/lab/testrun ./pkg/ui ./pkg/unpack

test: ## what shows within minutes that a change is sound; no guests, no whole cells on real Kafka, no race detector
	cd docs/graphs && $(GO) test ./...
	GO=$(GO) $(GO) run ./pkg/lab/testrun -takes "At most 8 minutes on two idle cores, compiling them included." \
		-first "$(SLOW)" -without "-short=$(CLIENT)" -- -short -p 3 -timeout 10m ./...

# Nothing is vetted here: make lint does that, with all analyzers.
# A process that ends well under the race detector sleeps for a second first, by its default, and tests start hundreds.
test-all: export GORACE ?= atexit_sleep_ms=0

test-all: ## everything, with the race detector; CI runs it
	cd docs/graphs && $(GO) test ./...
	GO=$(GO) $(GO) run ./pkg/lab/testrun -takes "About 25 minutes on two idle cores." \
		-first "$(SLOW)" -without "-race=$(SINGLE)" -again -- -race -vet=off -p 3 -timeout 25m ./...
	$(GO) test -count=1 -tags synctests -run '^(TestSimulation|TestScheduleFiles|TestObserversFollowLeaders)$$' ./pkg/lab/sim # -race leaves time for a few schedules only; the tag is for worlds of several brokers

N     ?= 500
COUNT ?= 1

sim: ## N simulated schedules, from SEED on or anywhere, each COUNT times; docs/SIMULATION.md
	$(GO) test -tags synctests -c -o bin/sim.test ./pkg/lab/sim
	cd pkg/lab/sim && SIM_N=$(N) SIM_SEED=$(SEED) SIM_COUNT=$(COUNT) ../../../bin/sim.test -test.run '^TestManySchedules$$' -test.timeout 0

sim-teeth: ## plants each bug of pkg/lab/sim/testdata/bugs in a copy and says after how many of N schedules it was seen
	pkg/lab/sim/testdata/bugs/try $(N)

bugs-named: ## plants each of these bugs that has a test of its own, or those that BUGS names, and says which of the tests see theirs
	pkg/lab/sim/testdata/bugs/named $(BUGS)

PKG ?= ./compute-agent/offer

mutate: ## plants small faults in PKG, one at a time, and says which its own tests let pass
	$(GO) run ./pkg/lab/mutate $(PKG)

chaos: ## three brokers, killed, frozen and cut off under load; a few minutes
	BERTH_CHAOS=short $(GO) test -count=1 -v -timeout 30m -run 'TestChaos$$' ./pkg/celltest

upgrade: ## the version before beside this one, there and back under load (about 5 min)
	BERTH_TEST_LONG=1 $(GO) test -count=1 -v -timeout 30m -run 'TestUpgradeAndBack$$' ./pkg/celltest

chaos-full: ## every fault, a hundred agents, 50 boots/s; the table goes to docs/CHAOS.md
	BERTH_CHAOS=full BERTH_CHAOS_ON=jars BERTH_CHAOS_REPORT=$(CURDIR)/docs/CHAOS.md $(GO) test -count=1 -v -timeout 90m -run 'TestChaos$$' ./pkg/celltest

FUZZTIME ?= 30s

fuzz: ## every fuzz target for FUZZTIME, one after another
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z]+' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
		done; \
	done

vuln: $(TOOLS)/govulncheck ## known vulnerabilities that this code can reach; needs https://vuln.go.dev
	$(TOOLS)/govulncheck ./...

$(TOOLS)/govulncheck:
	GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

# What gosec is not asked: whole rules, what only tests run, rules in some folders. docs/GOSEC.md has a reason for each.
GOSEC_RULES   := G115,G204,G304
GOSEC_FOLDERS := [a-z]test(/|$$) /testdata pkg/localkafka docs/graphs
GOSEC_WITHIN  := pkg/lab/.*:G404,G703

gosec: $(TOOLS)/gosec ## faults of security that show in the source; some minutes
	@$(TOOLS)/gosec -quiet -terse -exclude-generated -nosec-require-rules -nosec-require-justification -exclude=$(GOSEC_RULES) \
		$(GOSEC_FOLDERS:%=-exclude-dir='%') -exclude-rules='$(GOSEC_WITHIN)' ./...

$(TOOLS)/gosec:
	GOBIN=$(TOOLS) $(GO) install github.com/securego/gosec/v2/cmd/gosec@$(GOSEC_VERSION)

reference: ## writes docs/cli, docs/API.md and docs/API-BODIES.md, from the commands and the API as they are
	BERTH_UPDATE=1 $(GO) test -count=1 -run '^TestPages?Of' ./cmd/berth

GRAPHS := $(wildcard docs/graphs/data/*.json)

graphs: ## draws every docs/graphs/data/*.json as docs/graphs/*.svg; docs/BENCH.md
ifeq ($(GRAPHS),)
	@echo "nothing to draw: there is no docs/graphs/data/*.json"
else
	cd docs/graphs && $(GO) run . $(GRAPHS:docs/graphs/%=%)
endif

lint: proto-check
	@out="$$(gofmt -l cmd pkg flavors queues conductor compute-agent deploy docs *.go)"; if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(TOOLS)/staticcheck ./...
	cd docs/graphs && $(GO) vet ./... && $(TOOLS)/staticcheck ./...

lint: $(TOOLS)/staticcheck

$(TOOLS)/staticcheck:
	GOBIN=$(TOOLS) $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)

$(TOOLS)/nfpm:
	GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)

$(TOOLS)/cyclonedx-gomod:
	GOBIN=$(TOOLS) $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

fmt:
	gofmt -w cmd pkg flavors queues conductor compute-agent deploy docs *.go

clean:
	rm -rf bin .cache

include pkg/wire/wire.mk
