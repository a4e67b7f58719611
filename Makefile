# SPDX-License-Identifier: Apache-2.0
# Berth. `make demo` shows it, `make test` proves it, `make lint` is what CI asks of every change.

GO       ?= go
BIN      := bin/berth
TOOLS    := $(CURDIR)/.cache/bin
STATICCHECK_VERSION := v0.8.2
GOVULNCHECK_VERSION := v1.8.0

.PHONY: build demo dev test sim sim-teeth mutate chaos chaos-full upgrade fuzz vuln graphs lint fmt proto proto-check clean

build: ## the one binary
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/berth

demo: build ## everything in one process, 20 simulated hosts, no set-up
	$(BIN) demo

dev: build ## the same, and it stays up
	$(BIN) dev

test: ## everything; needs Java and Maven for the parts on real Kafka
	GO=$(GO) $(GO) run ./pkg/lab/testrun -again -- -race -timeout 40m ./...
	$(GO) test -count=1 -tags synctests -run '^(TestSimulation|TestScheduleFiles)$$' ./pkg/lab/sim # -race leaves time for a few schedules only; the tag is for worlds of several brokers
	cd docs/graphs && $(GO) test ./...

N     ?= 500
COUNT ?= 1

sim: ## N simulated schedules, from SEED on or anywhere, each COUNT times; docs/SIMULATION.md
	$(GO) test -tags synctests -c -o bin/sim.test ./pkg/lab/sim
	cd pkg/lab/sim && SIM_N=$(N) SIM_SEED=$(SEED) SIM_COUNT=$(COUNT) ../../../bin/sim.test -test.run '^TestManySchedules$$' -test.timeout 0

sim-teeth: ## plants each bug of pkg/lab/sim/testdata/bugs in a copy and says after how many of N schedules it was seen
	pkg/lab/sim/testdata/bugs/try $(N)

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

fmt:
	gofmt -w cmd pkg flavors queues conductor compute-agent deploy docs *.go

clean:
	rm -rf bin .cache

include pkg/wire/wire.mk
