# SPDX-License-Identifier: Apache-2.0
# The schema of the records. Needs nothing but Go: buf and protoc-gen-go are
# built into .cache/bin, protoc-gen-go in the version of go.mod's runtime.

GO          ?= go
TOOLS       ?= $(CURDIR)/.cache/bin
BUF_VERSION := v1.73.0
BUF         := cd pkg/wire && PATH="$(TOOLS):$$PATH" BUF_CACHE_DIR="$(TOOLS)/../buf" buf-$(BUF_VERSION)
BUF_TOOLS   := $(TOOLS)/buf-$(BUF_VERSION) $(TOOLS)/protoc-gen-go

.PHONY: proto proto-check proto-check-now proto-baseline

proto: $(BUF_TOOLS) ## generate the Go of the schema
	$(BUF) format --write proto
	$(BUF) generate

# All that decides what proto-check finds. What it found last is in CHECKED, so that
# nobody compiles buf, which takes minutes, to hear the same about the same.
CHECKED      := pkg/wire/proto.checked
SCHEMA_FILES := find pkg/wire/wire.mk pkg/wire/buf*.yaml pkg/wire/proto pkg/wire/berthv1 -type f | LC_ALL=C sort
SCHEMA_SUM   := { $(SCHEMA_FILES); $(SCHEMA_FILES) | xargs git hash-object --no-filters; $(GO) list -m google.golang.org/protobuf; } | git hash-object --stdin

proto-check: ## lint the schema, refuse what breaks old records, refuse stale generated code
	@if [ "$$($(SCHEMA_SUM))" = "$$(cat $(CHECKED) 2>/dev/null)" ]; then echo 'the schema is the one that was checked last: $(CHECKED)'; \
	else $(MAKE) proto-check-now; fi

proto-check-now: $(BUF_TOOLS) ## proto-check, whatever was checked before
	$(BUF) format --diff --exit-code proto
	$(BUF) lint
	$(BUF) breaking --against proto/berth.v1.binpb
	@tmp="$$(mktemp -d)" && trap 'rm -rf "$$tmp"' EXIT && ($(BUF) generate --output "$$tmp") && \
	diff -ru --exclude=doc.go pkg/wire/berthv1 "$$tmp/berthv1" || \
	{ echo 'pkg/wire/berthv1 is not what the schema gives: run "make proto" and commit it'; exit 1; }
	@$(SCHEMA_SUM) >$(CHECKED)

proto-baseline: $(BUF_TOOLS) ## at a release: from now on this schema must not be broken
	$(BUF) build --exclude-source-info --output proto/berth.v1.binpb

$(TOOLS)/buf-$(BUF_VERSION):
	GOBIN="$(TOOLS)" $(GO) install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)
	mv "$(TOOLS)/buf" "$@"

$(TOOLS)/protoc-gen-go: go.mod
	GOBIN="$(TOOLS)" $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	touch "$@"
