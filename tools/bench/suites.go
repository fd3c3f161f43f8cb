package main

import (
	"fmt"
	"slices"
	"strings"
)

// suites are measured in this order. Their bars are those of docs/performance.md.
var suites = []suite{
	{pkg: "./internal/client/csimanager/node", run: "BenchmarkRestart", times: 10, rows: []row{
		{
			name:      "Restart under 250 published volumes: each alloc has its volume again",
			benchmark: "Restart/volumes=250",
			unit:      "ms",
			metrics:   quantiles,
		},
		{
			name:      "Restart under 1,000 published volumes",
			benchmark: "Restart/volumes=1000",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 1 s, no call that changes anything", median: 1000, high: 1000},
		},
	}},
	{pkg: "./internal/client/servicesync", run: "BenchmarkServicesInConsul", times: 1, rows: []row{
		{
			name:      "A task has started: its service is in Consul's catalog",
			benchmark: "ServicesInConsul",
			unit:      "ms",
			metrics:   quantiles,
			p99:       "p99-ms",
			n:         200,
		},
		{
			name:      "Somebody edits a service's tags in the catalog: its agent of Consul has them",
			benchmark: "ServicesInConsul",
			unit:      "ms",
			metrics:   []string{"edit-min-ms", "edit-p50-ms", "edit-max-ms"},
			p99:       "edit-p99-ms",
			n:         200,
			bar:       bar{text: "≤ 250 ms", median: 250, high: 250},
		},
		{
			name:      "Consul answers again: what came meanwhile is registered",
			benchmark: "ServicesInConsul",
			unit:      "ms",
			metrics:   []string{"back-min-ms", "back-p50-ms", "back-max-ms"},
			p99:       "back-p99-ms",
			n:         20,
			bar:       bar{text: "≤ 1 s", median: 1000, high: 1000},
		},
		{
			name:      "1,000 services in Consul: registered in a second, of 800 that come at once",
			benchmark: "ServicesInConsul",
			unit:      "services",
			metrics:   []string{"registered/s"},
		},
		{
			name:      "… compared in a second, by an agent that begins",
			benchmark: "ServicesInConsul",
			unit:      "services",
			metrics:   []string{"synced/s"},
		},
		{
			name:      "… memory of the agent for them",
			benchmark: "ServicesInConsul",
			unit:      "KiB",
			metrics:   []string{"KiB"},
		},
	}},
	{pkg: "./internal/server", run: "BenchmarkRestart", times: 10, rows: []row{{
		name:      "Restart of a server over 8,192 entries that no snapshot holds: it leads",
		benchmark: "Restart",
		unit:      "ms",
		metrics:   quantiles,
		bar:       bar{text: "≤ 2 s", median: 2000, high: 2000},
	}}},
	{pkg: "./internal/client/shim", run: "BenchmarkContainersBesideDocker", times: 1, rows: []row{{
		name:      "200 tasks in containers at once: docker run in a loop takes so much longer",
		benchmark: "ContainersBesideDocker",
		unit:      "times",
		metrics:   []string{"x-docker"},
		bar:       bar{text: "≥ 1 times", least: 1},
	}}},
	{pkg: "./internal/client/shim", run: "BenchmarkDrivers", times: 40, rows: slices.Concat(
		byDriver("raw_exec"), byDriver("exec"), byDriver("docker"), byDriver("plugin"))},
	{pkg: "./internal/client/shim", run: "BenchmarkDriverMemory", times: 1, rows: []row{
		heldBy("raw_exec", "shim and agent"), heldBy("exec", "shim and agent"), heldBy("docker", "shim and agent"),
		heldBy("plugin", "shim, agent and its part of the plugin"),
	}},
	{pkg: "./internal/client/shim", run: "BenchmarkPluginTasks", times: 3, rows: []row{
		{
			name:      "Restart of the agent under 200 tasks of a driver plugin: each is found again",
			benchmark: "PluginTasks",
			unit:      "ms",
			metrics:   quantiles,
		},
	}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkCreate", times: 3, rows: []row{
		{
			name:      "Volume created, one after another",
			benchmark: "Create",
			unit:      "ms",
			metrics:   quantiles,
			p99:       "p99-ms",
			n:         600,
		},
		{
			name:      "… of it the plugin, asked alone",
			benchmark: "Create",
			unit:      "ms",
			metrics:   []string{"plugin-min-ms", "plugin-p50-ms", "plugin-max-ms"},
			p99:       "plugin-p99-ms",
			n:         600,
		},
		{
			name:      "… beyond the plugin's median",
			benchmark: "Create",
			unit:      "ms",
			metrics:   []string{"beyond-min-ms", "beyond-p50-ms", "beyond-max-ms"},
			n:         600,
			bar:       bar{text: "plugin + 1.5 ms", median: 1.5},
		},
		{
			name:      "Volumes created in a second, by 16 callers",
			benchmark: "Create",
			unit:      "/s",
			metrics:   []string{"min-a-second", "p50-a-second", "max-a-second"},
			bar:       bar{text: "≥ 2,000/s", least: 2000},
		},
	}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkStartWithVolumes", times: 20, rows: []row{
		withVolumes("1 volume", "StartWithVolumes/volumes=1"),
		withVolumes("8 volumes", "StartWithVolumes/volumes=8"),
	}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkUsable", times: 20, rows: []row{{
		name:      "A plugin listens on its socket → volumes of it can be placed",
		benchmark: "Usable",
		unit:      "ms",
		metrics:   quantiles,
		bar:       bar{text: "≤ 300 ms", median: 300, high: 300},
	}}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkAttachStorm", times: 1, rows: []row{{
		name:      "1,000 volumes attached at once, 2 s a call, 50 at once: over the ideal of 40 s",
		benchmark: "AttachStorm",
		unit:      "times",
		metrics:   []string{"x-ideal"},
		bar:       bar{text: "≤ 1.2 times", median: 1.2},
	}}},
	{pkg: "./internal/testkit/storage", run: "BenchmarkRelease", times: 1, rows: []row{{
		name:      "Release of 300 volumes, 200 ms a call, 10 at once: over the ideal of 18 s",
		benchmark: "Release",
		unit:      "times",
		metrics:   []string{"x-ideal"},
		bar:       bar{text: "≤ 1.5 times", median: 1.5},
	}}},
	{pkg: "./internal/testkit/verbs", run: "BenchmarkLists", times: 40, rows: []row{
		{
			name:      "List of 500 volumes",
			benchmark: "Lists/volumes=500/page=0",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 3 ms (4.6 and 18 elsewhere; 169 here once)", median: 3},
		},
		{
			name:      "List of 10,000 volumes, whole",
			benchmark: "Lists/volumes=10000/page=0",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 60 ms: linear", median: 60},
		},
		{
			name:      "List of 10,000 volumes, 500 at a time",
			benchmark: "Lists/volumes=10000/page=500",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 90 ms: by the page", median: 90},
		},
		{
			name:      "List of 500 allocations",
			benchmark: "Lists/allocs=500/page=0",
			unit:      "ms",
			metrics:   quantiles,
		},
	}},
	{pkg: "./internal/server/deploy", run: "BenchmarkDeployment", times: 10, rows: []row{
		{
			name:      "Deployment of 500 allocations: the health of each is decided by itself",
			benchmark: "Deployment/allocs=500",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 150 ms", median: 150},
		},
		{
			name:      "Deployment of 5,000 allocations: the health of each is decided by itself",
			benchmark: "Deployment/allocs=5000",
			unit:      "ms",
			metrics:   quantiles,
			bar:       bar{text: "≤ 2 s: linear", median: 2000},
		},
	}},
	{pkg: "./internal/server", run: "BenchmarkSeveralClaims/callers=1$", times: 10, rows: []row{{
		name:      "Three servers: a placement with its claim is committed, one caller",
		benchmark: "SeveralClaims/callers=1",
		unit:      "ms",
		metrics:   quantiles,
		p99:       "p99-ms",
		n:         10_000,
		bar:       bar{text: "1 / 5 ms", median: 1, high: 5},
	}}},
	{pkg: "./internal/server", run: "BenchmarkSeveralClaims/callers=512$", times: 10, rows: []row{{
		name:      "Three servers: claims a second, 512 callers, ten times 10,000 in one state",
		benchmark: "SeveralClaims/callers=512",
		unit:      "/s",
		metrics:   []string{"min-a-second", "p50-a-second", "max-a-second"},
		n:         10,
		bar:       bar{text: "≥ 10,000/s", least: 10_000},
	}}},
	{pkg: "./internal/server", run: "BenchmarkSeveralForwarded", times: 1, rows: []row{
		{
			name:      "Three servers: a job is registered by way of one that does not lead, the last one is placed",
			benchmark: "SeveralForwarded/at_rest",
			unit:      "ms",
			metrics:   quantiles,
			p99:       "p99-ms",
			n:         500,
			bar:       bar{text: "1 / 5 ms", median: 1, high: 5},
		},
		{
			name:      "… one after another, while those before are placed",
			benchmark: "SeveralForwarded/in_a_row",
			unit:      "ms",
			metrics:   quantiles,
			p99:       "p99-ms",
			n:         500,
			bar:       bar{text: "1 / 5 ms", median: 1, high: 5},
		},
	}},
	{pkg: "./internal/server", run: "BenchmarkSeveralFailover", times: 10, rows: []row{{
		name:      "Three servers: the leader crashes → another one has committed a claim",
		benchmark: "SeveralFailover",
		unit:      "ms",
		metrics:   quantiles,
		bar:       bar{text: "≤ 3 s", median: 3000, high: 3000},
	}}},
	{pkg: "./internal/server/worker", run: "BenchmarkOneAmong", times: 2000, rows: []row{
		among("5,000", "OneAmong/5000_nodes"),
		among("10,000", "OneAmong/10000_nodes"),
	}},
	{pkg: "./internal/server/worker", run: "BenchmarkDryRun5000", times: 5, rows: []row{
		scheduled("Dry run of 5,000 allocs", "DryRun5000", 500),
	}},
	{pkg: "./internal/server/worker", run: "BenchmarkMemoryOfNodes", times: 1, rows: []row{{
		name:      "Memory of a state per 1,000 nodes",
		benchmark: "MemoryOfNodes",
		unit:      "MiB",
		metrics:   []string{"MiB/1000-nodes"},
	}}},
	{pkg: "./internal/scheduler", run: "BenchmarkOneNode.000", times: 10, rows: []row{
		scheduled("Scheduling 1,000 allocs on one node", "OneNode1000", 150),
		scheduled("Scheduling 2,000 allocs on one node", "OneNode2000", 300),
	}},
	{pkg: "./internal/scheduler", run: "Benchmark(10000Nodes1200|500NodesSpread300)", times: 10, rows: []row{
		scheduled("Scheduling 1,200 allocs on 10,000 nodes", "10000Nodes1200", 50),
		scheduled("Scheduling 300 allocs with spread on 500 nodes", "500NodesSpread300", 20),
	}},
	{pkg: "./internal/scheduler", run: "Benchmark5000NodesVolumes", times: 10, rows: []row{{
		name:      "Scheduling 5,000 allocs with volumes on 5,000 nodes, each",
		benchmark: "5000NodesVolumes",
		unit:      "ms",
		metrics:   []string{"ns/alloc"},
		scale:     1e-6,
		bar:       bar{text: "≤ 0.2 ms: 5,000/s", median: 0.2},
	}}},
}

// byDriver are the start and the stop of a task of a driver; plugin is the example of one.
func byDriver(name string) []row {
	out := make([]row, 0, 2)
	for what, text := range map[string]string{"start": "it runs", "stop": "nothing of it is left"} {
		out = append(out, row{
			name:      fmt.Sprintf("Driver %s: %s of a task → %s", name, what, text),
			benchmark: fmt.Sprintf("Drivers/%s/%s", name, what),
			unit:      "ms",
			metrics:   quantiles,
		})
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.benchmark, b.benchmark) })
	return out
}

// withVolumes is the start of a task with volumes of a plugin that takes 100 ms a call, without those calls.
func withVolumes(what, benchmark string) row {
	return row{
		name:      "A task with " + what + ", each call 100 ms: registered → API says running, beyond three calls",
		benchmark: benchmark,
		unit:      "ms",
		metrics:   quantiles,
		bar:       bar{text: "3d + 100 ms, judged without 3d", median: 100},
	}
}

// heldBy is the memory of what holds a running alloc.
func heldBy(driver, what string) row {
	return row{
		name:      fmt.Sprintf("Driver %s: memory per alloc of what holds it (%s)", driver, what),
		benchmark: "DriverMemory/" + driver,
		unit:      "MiB",
		metrics:   []string{"MiB/alloc"},
	}
}

// among is the decision for one alloc among so many nodes.
func among(nodes, benchmark string) row {
	return row{
		name:      "Scheduling one alloc among " + nodes + " nodes",
		benchmark: benchmark,
		unit:      "ms",
		metrics:   []string{"ns/op"},
		scale:     1e-6,
		bar:       bar{text: "≤ 0.3 ms, flat", median: 0.3},
	}
}

// scheduled is a decision that takes so many milliseconds at the most.
func scheduled(name, benchmark string, most float64) row {
	return row{
		name:      name,
		benchmark: benchmark,
		unit:      "ms",
		metrics:   []string{"ns/op"},
		scale:     1e-6,
		bar:       bar{text: fmt.Sprintf("≤ %g ms", most), median: most},
	}
}
