# The two commands a newcomer needs are `make demo` and `make test`.
GO  ?= go
P4C ?= p4c-bm2-ss
P4C_CHIPS ?= p4c-barefoot
BFAS ?= bfas

.PHONY: all dist verbs demo test test-system attacks system-packages bench p4 p4-chips generate lint ci clean mininet mininet-clean experiments
all: bin/ethereal

bin/ethereal: FORCE
	$(GO) build -o $@ ./cmd/ethereal
FORCE:

# What gives RDMA programs a host's device in software, and what labels their queue pairs on a real one;
# needs libibverbs-dev.
VERBS = roce/device/interpose
RNIC = hostagent/verbs/rnic
VERBS_FLAGS = -O2 -g -fPIC -Wall -Wextra -Werror -Wno-missing-field-initializers $(VERBS_CFLAGS)
verbs: bin/libethereal-verbs.so bin/libethereal-rnic.so
bin/libethereal-verbs.so: $(wildcard $(VERBS)/*)
	mkdir -p bin
	$(CC) -std=c11 $(VERBS_FLAGS) -shared -Wl,-soname,libethereal-verbs.so -Wl,--version-script=$(VERBS)/exports.map \
		-o $@ $(VERBS)/*.c -Wl,--no-as-needed -libverbs -lpthread
bin/libethereal-rnic.so: $(wildcard $(RNIC)/*)
	mkdir -p bin
	$(CC) -std=gnu11 $(VERBS_FLAGS) -shared -Wl,-z,nodelete -Wl,-soname,libethereal-rnic.so -Wl,--version-script=$(RNIC)/exports.map \
		-o $@ $(RNIC)/*.c -Wl,--no-as-needed -libverbs -lpthread

demo: bin/ethereal
	bin/ethereal run testbed/scenarios/demo.yaml --html report.html --out demo.jsonl

# What everybody can run: it needs Go alone. Tests that start the program take the one that is built here. PACKAGES, if
# given, are the packages to test.
PACKAGES ?= ./...
test: bin/ethereal
	ETHEREAL_BINARY=$(CURDIR)/bin/ethereal $(GO) test -timeout 20m $(TESTFLAGS) $(PACKAGES)

# Tests that need real time, root, namespaces, a browser, a compiler or another program; each says what it misses, and
# skips. internal/systemtest says why, and how a test becomes one of them.
test-system: bin/ethereal
	ETHEREAL_SYSTEM_TESTS=1 ETHEREAL_BINARY=$(CURDIR)/bin/ethereal $(GO) test -p 1 -timeout 30m $(TESTFLAGS) $$($(MAKE) -s system-packages)

# The attacks of docs/security.md, as root on Linux for all of them: some minutes on two cores.
attacks:
	bash .ci/attacks

# The packages that have such tests.
system-packages:
	@$(GO) list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./... | grep internal/systemtest | cut -d' ' -f1 | sort -u

# A fabric in Mininet (Debian, Ubuntu: apt-get install mininet ethtool); MININET
# takes options of ethereal mininet run, such as --switch bmv2 or --cli. As root.
mininet: bin/ethereal
	bin/ethereal mininet run $(MININET)

# All experiments in one world, with a table at the end: virtual, live (namespaces
# of its own), or mininet, where MININET takes options as above. The last two as root.
WORLD       ?= virtual
EXPERIMENTS ?= $(wildcard mininet/experiments/*.yaml)
experiments: bin/ethereal
ifeq ($(WORLD),mininet)
	bin/ethereal mininet run $(MININET) $(EXPERIMENTS)
else
	bin/ethereal run --quiet --world $(WORLD) $(EXPERIMENTS)
endif

# Remove what a run that crashed left behind.
mininet-clean: bin/ethereal
	bin/ethereal mininet clean

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# Rebuild the committed P4 artefacts; needs p4c (its BMv2 back end).
p4:
	cd p4src && $(P4C) --arch v1model --std p4-16 -o build/ethereal.json \
		--p4runtime-files build/ethereal.p4info.txtpb v1model/ethereal.p4
	cd p4src && $(P4C) --arch v1model --std p4-16 -DETHEREAL_CSIG -o build/ethereal-csig.json \
		--p4runtime-files build/ethereal-csig.p4info.txtpb v1model/ethereal.p4
	cd p4src && sha256sum shared/*.p4 v1model/*.p4 build/*.json build/*.txtpb > build/SHA256SUMS

# Compile and assemble the programs for Tofino, into p4src/build/tna/out, and rebuild
# what is committed of that: what the controller needs to know, and what the chip's
# resources are used for. Needs p4c's Tofino back end: its compiler and assembler.
# Without --no-clot the assembler finds no length for the CLOTs of Tofino 2's ingress. Those with CSIG only show what
# resources it costs and what a controller sees of it.
p4-chips:
	cd p4src && for chip in tofino=tna tofino2=t2na tofino-csig=tna tofino2-csig=t2na; do \
		name=$${chip%=*}; target=$${name%-csig}; out=build/tna/out/$$name; bfrt=build/tna/$$name.bf-rt.json; csig=; \
		if [ $$name != $$target ]; then csig=-DETHEREAL_CSIG; bfrt=$$out/bf-rt.json; fi; \
		rm -rf $$out && mkdir -p $$out && \
		$(P4C_CHIPS) --target $$target --arch $${chip#*=} --std p4-16 -g --no-clot $$csig $(P4C_CHIPS_FLAGS) -o $$out \
			--p4runtime-files build/tna/$$name.p4info.txtpb --p4runtime-force-std-externs \
			--bf-rt-schema $$bfrt tna/ethereal.p4 && \
		$(BFAS) --no-warn --target $$target -o $$out/pipe $$out/pipe/ethereal.bfa && \
		$(GO) run ./chipreport $$out/pipe/logs > build/tna/$$name.resources.txt || exit 1; \
	done
	cd p4src && sha256sum shared/*.p4 tna/*.p4 build/tna/*.json build/tna/*.txt* > build/tna/SHA256SUMS

# Rebuild the committed protobuf code and eBPF object; needs protoc with its Go
# plug-ins, clang and libbpf-dev.
generate:
	$(GO) generate ./fabric/statepb ./fabric/staterpc ./hostagent/tagger

lint:
	$(GO) vet ./...
	$(GO) tool -modfile=.ci/tools/go.mod golangci-lint run ./...

# What a release has, into build/dist: static programs, packages, checksums.
dist:
	scripts/dist/build

ci:
	bash .ci/run

clean:
	rm -rf bin build
	rm -f *.html *.jsonl *.pcap *.prof
