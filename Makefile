# What a person does with this tree. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build helper dev demo demo-cluster cluster check lint test mutants e2e chaos sim crash upgrade \
	upgradecluster bench man deb

# Programs are static and carry neither symbols nor the builder's paths, so that equal sources give equal bytes.
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w'
# What is compiled without the race detector is compiled in one way, so that each step finds what those before it built.
PLAIN := CGO_ENABLED=0 GOFLAGS=-trimpath
HELPER := internal/helperbin/bin/berth-helper
# Those that have a target of their own are left out, and the model of lineage, whose stories the race detector would
# stretch to many minutes: it is played without, as all pairs of mistakes are, of which it sees a few.
PACKAGES = $$(go list ./... | grep -v -e /e2e -e /tools/arch -e /testkit/lineage)
# Runs go test and says how far it is, what took longest, and last of all what failed.
TESTRUN := bin/testrun
BRIEFLY := | { grep -v 'no test files' || true; }
LINT := $(PLAIN) go tool -modfile=tools/lint/go.mod

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: helper ## Build bin/berth
	@$(GOBUILD) -o bin/berth ./cmd/berth

# The helper is embedded in berth, and by that in everything that starts tasks: it is built before all else. Go leaves
# the file alone when nothing changed.
helper:
	@$(GOBUILD) -o $(HELPER) ./cmd/berth-helper

dev: build ## Run a server and a client in one process, state in a temporary directory
	@bin/berth agent -dev

demo: build ## Show a database that keeps its data through crashes (one minute)
	@scripts/install-debian.sh redis-server redis-tools e2fsprogs util-linux procps
	@scripts/demo.sh

demo-cluster: build ## Show three machines that are one cluster: the one that leads is killed, a database moves (one minute)
	@scripts/install-debian.sh redis-server redis-tools e2fsprogs util-linux iproute2 procps
	@CGO_ENABLED=0 go build -o bin/csi-proxy ./internal/conformance/csi/proxy/cmd/csi-proxy
	@scripts/demo-cluster.sh

check: lint ## Before a commit: vet, golangci-lint, architecture, fast tests (under a minute when warm)
	@go test -short $(PACKAGES) $(BRIEFLY)

$(TESTRUN): FORCE
	@go build -o $@ ./tools/testrun
FORCE:

# What needs no test to run, first the quick ones.
lint: helper
	@$(PLAIN) go vet ./...
	@$(PLAIN) go test ./tools/arch
	@$(LINT) golangci-lint run --allow-parallel-runners ./...
	@$(PLAIN) go run ./tools/mutants -compile
	@$(LINT) deadcode -json ./cmd/... ./tools/... | $(PLAIN) go run ./tools/unused

# The race run holds every test of check, so that nothing runs twice. The longest packages wait more than they work: three
# at a time keep two cores busy.
test: $(TESTRUN) ## Everything: Debian packages, vet, golangci-lint, architecture, all tests with the race detector, ten mutants, end to end, compatibility, chaos
	@scripts/install-debian.sh
	@$(MAKE) --no-print-directory build lint
	@$(TESTRUN) -race -p 3 -timeout 15m $(PACKAGES)
	@$(PLAIN) $(TESTRUN) -count=1 -timeout 15m ./internal/testkit/lineage
	@$(PLAIN) $(TESTRUN) -count=1 -timeout 10m -run 'TestTwoMistakes|TestTwoWrong' ./internal/httpapi ./internal/agent
	@$(PLAIN) go run ./tools/mutants -seed 1 -n 10
	@$(MAKE) --no-print-directory e2e
	@$(MAKE) --no-print-directory chaos SEED=7 ROUNDS=1000 SETTLE=2m FLAGS='-for 150s -busy 4m'
	@echo "make test: all is well: vet, golangci-lint, architecture, tests with the race detector, mutants, end to end, compatibility, chaos"

# `go run ./tools/mutants -run NAME -v` makes one and shows which words of a test kill it.
mutants: helper ## Break the program on purpose, an edit at a time: each must be noticed by the test named in tools/mutants/list
	@go run ./tools/mutants

# The tests wait more than they work, and each has a machine of its own: two halves of them run beside each other.
e2e: build $(TESTRUN) ## The real binary on the real kernel, and the public Go client against it
	@$(PLAIN) $(TESTRUN) -count=1 -timeout 20m -run '^TestA' ./e2e/... & first=$$!; second=0; \
	$(PLAIN) $(TESTRUN) -count=1 -timeout 20m -skip '^TestA' ./e2e/... || second=$$?; \
	wait $$first && exit $$second
	@cd compat && $(PLAIN) ../$(TESTRUN) -count=1 -timeout 10m ./...

cluster: build $(TESTRUN) ## Several machines in network namespaces: cables are cut, leaders die and freeze, machines are lost, and the oracle watches
	@$(TESTRUN) -count=1 -timeout 15m -run TestCluster ./e2e -cluster

# Without a seed another one is played each time; a failure prints its own.
SEED ?= 0
ROUNDS ?= 50
SETTLE ?= 40s
FLAGS ?=
chaos: build ## Play rounds of faults on the real program: SEED=, ROUNDS=, SETTLE=
	@CGO_ENABLED=0 go build -o bin/chaos ./tools/chaos
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

bench: build ## Measure and write docs/performance.md; fails when a bar is missed, and lists which
	@go run ./tools/bench
