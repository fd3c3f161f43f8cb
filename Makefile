# What a person does with this tree. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build helper dev demo demo-cluster demo-docker demo-consul cluster check lint test mutants e2e chaos sim crash \
	upgrade upgradecluster vm bench man deb consul test-consul consul-soak

# The pages of gRPC's traces, which nothing serves, would find methods by name, and keep each that there is in the program.
TAGS := -tags=grpcnotrace
# Programs are static and carry neither symbols nor the builder's paths, so that equal sources give equal bytes.
GOBUILD := CGO_ENABLED=0 go build -trimpath $(TAGS) -buildvcs=false -ldflags '-s -w'
# All is compiled in one way without the race detector and in one with it, so that each step finds what those before it
# built, also what tests build themselves.
SHARED := GOFLAGS='-trimpath $(TAGS)'
PLAIN := CGO_ENABLED=0 $(SHARED)
HELPER := internal/helperbin/bin/berth-helper.gz
# Those that have a target of their own are left out, and the model of lineage, whose stories the race detector would
# stretch to many minutes: it is played without, as all pairs of mistakes are, of which it sees a few.
PACKAGES = $$(go list ./... | grep -v -e /e2e -e /tools/arch -e /testkit/lineage)
# Runs go test and says how far it is, what took longest, and last of all what failed.
TESTRUN := bin/testrun
# What lint has vetted whole is not vetted once more, in part, as go test does.
VETTED := -vet=off
# What steps below need; nothing where one that calls them, more than one at a time, has made it.
BUILT := build $(TESTRUN)
BRIEFLY := | { grep -v 'no test files' || true; }
LINT := $(PLAIN) go tool -modfile=tools/lint/go.mod

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A file that the linker has laid out page by page is mapped page by page; what was written in one go, as a package
# manager does, starts two milliseconds sooner.
build: helper ## Build bin/berth
	@$(GOBUILD) -o bin/.berth ./cmd/berth
	@cp bin/.berth bin/berth.new && mv bin/berth.new bin/berth

# The helper is embedded in berth, compressed, and by that in everything that starts tasks: it is built before all else.
helper:
	@$(GOBUILD) -o bin/berth-helper ./cmd/berth-helper
	@gzip -9nc bin/berth-helper > $(HELPER).new && rm -f internal/helperbin/bin/berth-helper && mv $(HELPER).new $(HELPER)

dev: build ## Run a server and a client in one process, state in a temporary directory
	@bin/berth agent -dev

demo: build ## Show a database that keeps its data through crashes (one minute)
	@scripts/install-debian.sh redis-server redis-tools e2fsprogs util-linux procps
	@scripts/demo.sh

demo-cluster: build ## Show three machines that are one cluster: the one that leads is killed, a database moves (one minute)
	@scripts/install-debian.sh redis-server redis-tools e2fsprogs util-linux iproute2 procps
	@$(PLAIN) go build -o bin/csi-proxy ./internal/conformance/csi/proxy/cmd/csi-proxy
	@scripts/demo-cluster.sh

demo-docker: build ## Show containers: a storage plugin in one, a program in another, daemon and agent are killed (one minute)
	@scripts/install-debian.sh docker.io busybox-static e2fsprogs util-linux procps curl
	@scripts/demo-docker.sh

demo-consul: build consul ## Show services in Consul: tags that others change, and two that speak through its mesh (a minute and a half)
	@scripts/install-debian.sh python3 curl jq util-linux iproute2 procps
	@BERTH_CONSUL=$(CONSUL) scripts/demo-consul.sh

check: lint ## Before a commit: vet, golangci-lint, architecture, fast tests (under a minute when warm)
	@$(PLAIN) go test -short $(VETTED) $(PACKAGES) $(BRIEFLY)

$(TESTRUN): FORCE
	@$(PLAIN) go build -o $@ ./tools/testrun
FORCE:

# What needs no test to run, first the quick ones.
lint: helper
	@$(PLAIN) go vet ./...
	@cd examples/driver && $(PLAIN) go vet ./...
	@cd examples/device && $(PLAIN) go vet ./...
	@$(PLAIN) go test ./tools/arch
	@$(LINT) golangci-lint run --allow-parallel-runners ./...
	@$(PLAIN) go run ./tools/mutants -compile
	@$(LINT) deadcode -json ./cmd/... ./tools/... | $(PLAIN) go run ./tools/unused

# The race run holds every test of check, so that nothing runs twice. The longest packages wait more than they work: three
# at a time keep two cores busy.
# What tests need of Consul is built meanwhile, by what the tests leave of the machine, and waited for at their end.
# The model of lineage keeps one core busy, and what is beside it the other. Consul and chaos wait more than they work.
test: $(TESTRUN) ## Everything: Debian packages, vet, golangci-lint, architecture, all tests with the race detector, ten mutants, end to end, compatibility, chaos
	@scripts/install-debian.sh
	@$(MAKE) --no-print-directory consul NICE=19 > bin/consul.log 2>&1 < /dev/null &
	@$(MAKE) --no-print-directory build lint
	@CONSUL_TESTS=later $(SHARED) $(TESTRUN) -race $(VETTED) -p 3 -timeout 15m $(PACKAGES)
	@$(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 20m ./internal/testkit/lineage & model=$$!; others=0; \
	{ $(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 10m -run 'TestTwoMistakes|TestTwoWrong' \
		./internal/httpapi ./internal/agent && \
	$(PLAIN) go run ./tools/mutants -seed 1 -n 10; } || others=$$?; \
	wait $$model && exit $$others
	@$(MAKE) --no-print-directory e2e BUILT= E2E_LEFT_OUT=Consul
	@$(MAKE) --no-print-directory test-consul BUILT= & consul=$$!; others=0; \
	$(MAKE) --no-print-directory chaos BUILT= SEED=7 ROUNDS=1000 SETTLE=2m FLAGS='-for 180s -busy 4m' || others=$$?; \
	wait $$consul && exit $$others
	@echo "make test: all is well: vet, golangci-lint, architecture, tests with the race detector, mutants, end to end, compatibility, Consul, chaos"

# `go run ./tools/mutants -run NAME -v` makes one and shows which words of a test kill it.
mutants: helper ## Break the program on purpose, an edit at a time: each must be noticed by the test named in tools/mutants/list
	@go run ./tools/mutants

# The tests wait more than they work, and each has a machine of its own: two halves of them run beside each other. What
# the first takes less is what the public client takes.
E2E_LEFT_OUT ?= ^$$
e2e: $(BUILT) ## The real binary on the real kernel, and the public Go client against it
	@{ $(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 20m -run '^TestA' -skip '$(E2E_LEFT_OUT)' ./e2e/... && \
	cd compat && $(PLAIN) ../$(TESTRUN) -count=1 -timeout 10m ./...; } & first=$$!; second=0; \
	$(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 20m -skip '^TestA|$(E2E_LEFT_OUT)' ./e2e/... || second=$$?; \
	wait $$first && exit $$second

cluster: build $(TESTRUN) ## Several machines in network namespaces: cables are cut, leaders die and freeze, machines are lost, and the oracle watches
	@$(TESTRUN) -count=1 -timeout 20m -run TestCluster ./e2e -cluster

# Without a seed another one is played each time; a failure prints its own.
SEED ?= 0
ROUNDS ?= 50
SETTLE ?= 40s
FLAGS ?=
chaos: $(BUILT) ## Play rounds of faults on the real program: SEED=, ROUNDS=, SETTLE=
	@$(PLAIN) go build -o bin/chaos ./tools/chaos
	@bin/chaos -seed $(SEED) -rounds $(ROUNDS) -settle $(SETTLE) $(FLAGS)

# Schedules are drawn by seeds that follow one another; ROUNDS of them are played, whatever time they take.
sim: helper ## Play schedules of faults on several servers and nodes in one bubble of time: SEED=, ROUNDS=
	@go test -count=1 -timeout 12h -run TestAnyScheduleComesToRest -v ./internal/testkit/lineage \
		-sim.seed $(SEED) -sim.rounds $(ROUNDS) -sim.for 12h | grep -v -e '^=== ' -e '^ *--- PASS'

crash: build $(TESTRUN) ## Kill agent and plugin in front of every persisted write and mount, and cut the power (long)
	@$(TESTRUN) -count=1 -timeout 3h -run 'PowerLoss|Survives' $(POWERLOSS) -powerloss-all
	@$(TESTRUN) -count=1 -timeout 3h -v -run TestACrashInFrontOfAnyPoint ./e2e -crash

# Who keeps something on disk, on one that loses its power.
POWERLOSS = ./internal/base/durable ./internal/port/kv ./internal/port/raftlog ./internal/localcsi/store \
	./internal/localcsi ./e2e

# The last commit whose stores and logs of the earlier encoding must be taken over.
FROM ?= 9ead982
upgrade: build ## Have this program take over volumes in use from that of commit FROM
	@scripts/upgrade.sh $(FROM)

# The last commit of the version before this one.
PREVIOUS ?= 5d7f28d
upgradecluster: build ## Upgrade three servers of commit PREVIOUS one by one, and a node and back, under a running task
	@scripts/upgrade.sh $(PREVIOUS) TestAClusterIsUpgradedServerByServer

man: build ## Write the man pages of all commands into bin/man
	@go run ./tools/man bin/man bin/berth

deb: build ## Build the Debian package in bin
	@scripts/deb.sh bin/berth bin

# The real Consul that tests talk to: built once, which takes minutes, and kept outside of this tree.
CONSUL_VERSION := 1.22.3
CONSUL = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/berth/consul-$(CONSUL_VERSION)
NICE ?= 10
consul: $(CONSUL) ## Build the program of Consul for tests, once (minutes)
# Whoever comes while it is being built waits for that, and says so.
$(CONSUL):
	@mkdir -p $(dir $@)
	@flock --nonblock $@.lock true || echo "waiting for the program of Consul, which is being built: $@"
	@flock $@.lock bash -c 'test -x $@ || { echo "building the program of Consul, once, which takes minutes: $@"; \
		cd tools/consul && CGO_ENABLED=0 nice -n $(NICE) go build -trimpath -buildvcs=false -ldflags="-s -w" -o $@.new \
		github.com/hashicorp/consul && mv $@.new $@; }'

# Sequences on the real program, which hold the model of it to the truth, are shorter here than consul-soak's.
SEQUENCES := TestTheLastWritersTagsStayOnTheRealConsul
# Sequences and the end-to-end tests wait more than they work: they run beside each other.
test-consul: consul $(BUILT) ## Test services in the real Consul
	@CONSUL_TESTS=must $(SHARED) $(TESTRUN) -race $(VETTED) -count=1 -timeout 20m -skip $(SEQUENCES) \
		./internal/port/consul/... ./internal/client/servicesync ./internal/derive/envoy
	@export CONSUL_TESTS=must; \
	$(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 10m -run $(SEQUENCES) ./internal/client/servicesync \
		-rapid.checks=40 -rapid.steps=6 & first=$$!; second=0; \
	$(PLAIN) $(TESTRUN) $(VETTED) -count=1 -timeout 20m -run Consul ./e2e || second=$$?; \
	wait $$first && exit $$second

# Sequences of all that befalls services, on a model of Consul and on Consul itself.
consul-soak: consul
	@$(PLAIN) go test -count=1 -timeout 10m ./internal/model/consul -run Whatever -rapid.checks=20000
	@$(PLAIN) go test -count=1 -timeout 2h ./internal/client/servicesync -run $(SEQUENCES) \
		-rapid.checks=300 -sequences=300

# What is checked in it runs on machines of both sorts everywhere else; this one has control groups v2 alone.
vm: helper ## Run the tests of exec on a kernel of Debian with cgroups v2 alone, in an emulated machine (ten minutes)
	@scripts/install-debian.sh qemu-system-x86 linux-image-amd64 busybox-static cpio kmod
	@$(PLAIN) go test -c -o bin/vm/shim.test ./internal/client/shim
	@scripts/vm.sh bin/vm

bench: build ## Measure and write docs/performance.md; fails when a bar is missed, and lists which
	@go run ./tools/bench
