package compat

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

// plugin is the id of the bundled storage plugin.
const plugin = "local-csi"

// needed are the calls that the commands of the command line make; every one must have been answered well.
var needed = []string{
	"GET /v1/agent/self", "GET /v1/agent/members", "GET /v1/agent/health", "GET /v1/agent/servers",
	"GET /v1/agent/monitor", "GET /v1/event/stream", "GET /v1/status/leader", "GET /v1/status/peers",
	"GET /v1/regions", "GET /v1/metrics", "PUT /v1/search", "PUT /v1/system/gc", "PUT /v1/system/reconcile/summaries",
	"GET /v1/operator/raft/configuration",
	"GET /v1/namespaces", "GET /v1/namespace/*", "PUT /v1/namespace", "DELETE /v1/namespace/*",
	"GET /v1/node/pools", "PUT /v1/node/pools", "GET /v1/node/pool/*", "DELETE /v1/node/pool/*",
	"GET /v1/node/pool/*/jobs", "GET /v1/node/pool/*/nodes",
	"GET /v1/nodes", "GET /v1/node/*", "GET /v1/node/*/allocations",
	"PUT /v1/node/*/eligibility", "GET /v1/client/stats", "GET /v1/client/metadata", "POST /v1/client/metadata",
	"GET /v1/jobs", "PUT /v1/jobs", "PUT /v1/jobs/parse", "GET /v1/job/*", "DELETE /v1/job/*", "PUT /v1/job/*/plan",
	"PUT /v1/job/*/evaluate", "GET /v1/job/*/allocations",
	"GET /v1/job/*/evaluations", "GET /v1/job/*/deployment", "GET /v1/job/*/deployments", "GET /v1/job/*/summary",
	"GET /v1/job/*/versions", "GET /v1/job/*/submission",
	"PUT /v1/validate/job", "GET /v1/evaluations", "GET /v1/evaluation/*", "GET /v1/evaluation/*/allocations",
	"GET /v1/deployments", "GET /v1/allocations", "GET /v1/allocation/*",
	"PUT /v1/allocation/*/stop", "GET /v1/client/allocation/*/stats", "GET /v1/client/allocation/*/checks",
	"PUT /v1/client/allocation/*/restart",
	"PUT /v1/client/allocation/*/signal", "GET /v1/client/allocation/*/exec", "GET /v1/client/fs/ls/*",
	"GET /v1/client/fs/stat/*", "GET /v1/client/fs/cat/*", "GET /v1/client/fs/readat/*",
	"GET /v1/client/fs/stream/*", "GET /v1/client/fs/logs/*", "GET /v1/volumes", "GET /v1/volume/csi/*",
	"PUT /v1/volume/csi/*", "PUT /v1/volume/csi/*/create",
	"DELETE /v1/volume/csi/*", "DELETE /v1/volume/csi/*/delete", "GET /v1/volumes/external", "PUT /v1/volumes/snapshot",
	"GET /v1/volumes/snapshot", "DELETE /v1/volumes/snapshot",
	"GET /v1/services", "GET /v1/service/*", "GET /v1/allocation/*/services",
	"GET /v1/job/*/services", "GET /v1/client/allocation/*/checks",
	"GET /v1/job/*/scale", "PUT /v1/job/*/scale", "GET /v1/scaling/policies", "GET /v1/scaling/policy/*",
	"PUT /v1/job/*/revert", "PUT /v1/job/*/stable", "PUT /v1/deployment/promote/*", "PUT /v1/deployment/pause/*",
	"PUT /v1/deployment/fail/*", "PUT /v1/deployment/allocation-health/*", "GET /v1/deployment/*",
	"PUT /v1/job/*/versions/first/tag", "DELETE /v1/job/*/versions/first/tag",
	"GET /v1/plugins", "GET /v1/plugin/csi/*", "PUT /v1/job/*/dispatch", "PUT /v1/job/*/periodic/force",
	"PUT /v1/acl/bootstrap", "GET /v1/acl/policies", "GET /v1/acl/policy/*", "PUT /v1/acl/policy/*",
	"DELETE /v1/acl/policy/*", "GET /v1/acl/roles", "PUT /v1/acl/role", "GET /v1/acl/role/*", "PUT /v1/acl/role/*",
	"DELETE /v1/acl/role/*", "GET /v1/acl/role/name/*", "GET /v1/acl/tokens", "PUT /v1/acl/token",
	"GET /v1/acl/token/*", "PUT /v1/acl/token/*", "DELETE /v1/acl/token/*",
}

// Given a running agent, when the public client makes every call that the commands need, then each is answered as the
// client expects, and there are at least forty different ones.
func TestThePublicClientDrivesTheAgent(t *testing.T) {
	a := start(t)
	for _, story := range []struct {
		name string
		tell func(*agent)
	}{{"cluster", cluster}, {"nodes", nodes}, {"job", jobLife}, {"small truths", smallTruths}, {"task", taskLife}, {"services", servicesAreFound}, {"variables", variablesAreKept}, {"events", eventsAreFollowed}, {"launches", launched}, {"scaling", scaled}, {"deployments", deployed}, {"locks", locked},
		{"logs from the end", logsFromTheEnd}, {"exec driver", execDriver}, {"blocking", blocking}, {"volumes",
			volumes}, {"refusals", refusals}, {"words of nodes", nodeWords}, {"what agents refuse", agentTruths}, {"access lists", accessLists}, {"partitions", divided}, {"end", theEnd}} {
		t.Run(story.name, func(t *testing.T) {
			one := *a
			one.t = t
			story.tell(&one)
		})
	}
	seen := a.calls.list()
	for _, call := range needed {
		if !slices.Contains(seen, call) {
			t.Errorf("%s was never answered well", call)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d different calls", len(seen))
	}
	t.Logf("%d different calls", len(seen))
}

// Given an agent with a socket, when a client that knows no more than its usual variable is pointed at it, then calls,
// streams, reads that wait and programs in tasks work as over a port.
func TestTheSocketServesThePublicClient(t *testing.T) {
	a := start(t)
	t.Setenv("NOMAD_ADDR", "unix://"+a.socket)
	var err error
	a.plain, err = api.NewClient(api.DefaultConfig())
	a.ok(err)
	a.Client = a.plain
	for _, story := range []struct {
		name string
		tell func(*agent)
	}{
		{"cluster", cluster},
		{"job", jobLife},
		{"task", taskLife},
		{"followed log", followed},
		{"exec driver", execDriver},
		{"blocking", blocking},
		{"end", theEnd},
	} {
		t.Run(story.name, func(t *testing.T) {
			one := *a
			one.t = t
			story.tell(&one)
		})
	}
}

// followed reads a log that goes on until it says something new.
func followed(a *agent) {
	alloc := webAlloc(a)
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := a.AllocFS().Logs(alloc, true, "t", "stdout", "start", 0, stop, nil)
	signalled := false
	for text, deadline := "", time.After(patience); !strings.Contains(text, "got a signal"); {
		select {
		case f := <-frames:
			text += string(f.Data)
		case err := <-errs:
			a.t.Fatal(err)
		case <-deadline:
			a.t.Fatalf("the log says no more than %q", text)
		}
		if strings.Contains(text, "hello") && !signalled {
			signalled = true
			a.ok(a.Allocations().Signal(alloc, nil, "t", "SIGHUP"))
		}
	}
}

func cluster(a *agent) {
	self, err := a.Agent().Self()
	a.ok(err)
	if self.Stats["client"]["node_id"] == "" || self.Member.Name == "" || self.Config["UI"] == nil {
		a.t.Errorf("the agent says of itself %+v", self)
	}
	for group, names := range map[string][]string{
		"client": {"known_servers", "num_allocations", "heartbeat_ttl", "last_heartbeat"},
		"nomad":  {"server", "leader", "leader_addr", "bootstrap", "known_regions"},
	} {
		for _, name := range names {
			if v := self.Stats[group][name]; v == "" || v == "never" || v == "false" {
				a.t.Errorf("the agent says of itself %s.%s = %q", group, name, v)
			}
		}
	}
	members, err := a.Agent().Members()
	a.ok(err)
	for _, tag := range []string{"id", "expect", "bootstrap", "vsn", "rpc_addr", "role"} {
		if members.Members[0].Tags[tag] == "" {
			a.t.Errorf("the server has no tag %s: %v", tag, members.Members[0].Tags)
		}
	}
	leader, err := a.Status().Leader()
	a.ok(err)
	peers, err := a.Status().Peers()
	a.ok(err)
	if len(members.Members) != 1 || members.Members[0].Addr+":"+members.Members[0].Tags["port"] != leader ||
		!slices.Equal(peers, []string{leader}) {
		a.t.Errorf("leader %s, peers %v, members %+v", leader, peers, members)
	}
	health, err := a.Agent().Health()
	a.ok(err)
	if !health.Server.Ok || !health.Client.Ok {
		a.t.Errorf("the health is %+v %+v", health.Server, health.Client)
	}
	servers, err := a.Agent().Servers()
	a.ok(err)
	regions, err := a.Regions().List()
	a.ok(err)
	raft, err := a.Operator().RaftGetConfiguration(nil)
	a.ok(err)
	if len(servers) != 1 || !slices.Equal(regions, []string{"global"}) || len(raft.Servers) != 1 ||
		!raft.Servers[0].Leader {
		a.t.Errorf("servers %v, regions %v, raft %+v", servers, regions, raft)
	}
	metrics, _, err := a.Operator().MetricsSummary(nil)
	a.ok(err)
	if len(metrics.Gauges) == 0 {
		a.t.Error("there are no gauges")
	}
	spaces, _, err := a.Namespaces().List(nil)
	a.ok(err)
	one, _, err := a.Namespaces().Info("default", nil)
	a.ok(err)
	if len(spaces) < 2 || one.Name != "default" {
		a.t.Errorf("namespaces %+v", spaces)
	}
	a.ok(a.System().ReconcileSummaries())
	monitor(a)
}

// monitor reads the agent's log until it says something.
func monitor(a *agent) {
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := a.Agent().Monitor(stop, &api.QueryOptions{Params: map[string]string{"log_level": "debug"}})
	deadline := time.After(patience)
	for {
		_, _, err := a.Jobs().Info("nobody", nil) // something to talk about
		a.refused(err, "job not found")
		select {
		case f := <-frames:
			if strings.Contains(string(f.Data), "[DEBUG] request: ") {
				return
			}
		case err := <-errs:
			a.t.Fatal(err)
		case <-deadline:
			a.t.Fatal("the agent's log says nothing of requests")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func nodes(a *agent) {
	list, meta, err := a.Nodes().List(nil)
	a.ok(err)
	if len(list) != 1 || meta.LastIndex == 0 {
		a.t.Fatalf("%d nodes at index %d", len(list), meta.LastIndex)
	}
	id := list[0].ID
	found, _, err := a.Nodes().PrefixList(id[:6])
	a.ok(err)
	n, _, err := a.Nodes().Info(id, nil)
	a.ok(err)
	if len(found) != 1 || n.Status != "ready" || !n.Drivers["exec"].Healthy || !n.Drivers["raw_exec"].Healthy ||
		n.CSINodePlugins[plugin] == nil || n.CSIControllerPlugins[plugin] == nil ||
		n.NodeResources.Memory.MemoryMB == 0 || n.ReservedResources == nil {
		a.t.Errorf("the node is %+v", n)
	}
	allocs, _, err := a.Nodes().Allocations(id, nil)
	a.ok(err)
	if len(allocs) != 1 || allocs[0].Job == nil || allocs[0].Resources.CPU == nil {
		a.t.Errorf("its allocations are %+v", allocs)
	}
	stats, err := a.Nodes().Stats(id, nil)
	a.ok(err)
	if stats.Memory.Total == 0 || stats.Uptime == 0 {
		a.t.Errorf("its usage is %+v", stats)
	}
	for _, eligible := range []bool{false, true} {
		_, err := a.Nodes().ToggleEligibility(id, eligible, nil)
		a.ok(err)
		n, _, err := a.Nodes().Info(id, nil)
		a.ok(err)
		if (n.SchedulingEligibility == "eligible") != eligible {
			a.t.Errorf("asked for %t, it is %s", eligible, n.SchedulingEligibility)
		}
	}
	// A read that acts is for who may use the socket: an open port takes it from anybody's page.
	local, err := api.NewClient(&api.Config{Address: "unix://" + a.socket})
	a.ok(err)
	a.ok(local.Nodes().GC(id, nil))
}

// parse has the agent turn a job file into a job.
func parse(a *agent, hcl string) *api.Job {
	a.t.Helper()
	j, err := a.Jobs().ParseHCL(hcl, false)
	a.ok(err)
	return j
}

// run submits a job and waits until its first allocation runs.
func run(a *agent, hcl string) *api.Allocation {
	a.t.Helper()
	j := parse(a, hcl)
	reply, _, err := a.Jobs().RegisterOpts(j,
		&api.RegisterOptions{Submission: &api.JobSubmission{Source: hcl, Format: "hcl2"}}, nil)
	a.ok(err)
	var id string
	a.eventually("an allocation of "+*j.ID+" runs", func() error {
		list, _, err := a.Evaluations().Allocations(reply.EvalID, nil)
		for _, s := range list {
			if id = s.ID; s.ClientStatus == "running" {
				return nil
			}
			err = fmt.Errorf("%s is %s: %+v", s.ID, s.ClientStatus, s.TaskStates)
		}
		if err == nil {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	alloc, _, err := a.Allocations().Info(id, nil)
	a.ok(err)
	return alloc
}

const web = `
job "web" {
  group "g" {
    network {
      port "http" {}
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo got a signal' HUP; echo hello; echo oops >&2; echo kept > ${NOMAD_ALLOC_DIR}/data/file; while true; do sleep 0.1; done"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
      kill_timeout = "1s"
    }
  }
}`

func jobLife(a *agent) {
	j := parse(a, web)
	valid, _, err := a.Jobs().Validate(j, nil)
	a.ok(err)
	plan, _, err := a.Jobs().Plan(j, true, nil)
	a.ok(err)
	if len(valid.ValidationErrors) > 0 || plan.Annotations.DesiredTGUpdates["g"].Place != 1 ||
		plan.Diff.Type != "Added" || plan.JobModifyIndex != 0 {
		a.t.Errorf("validation %+v, plan %+v", valid, plan)
	}
	alloc := run(a, web)
	stored, _, err := a.Jobs().Info("web", nil)
	a.ok(err)
	again, _, err := a.Jobs().Register(stored, nil)
	a.ok(err)
	same, _, err := a.Jobs().Info("web", nil)
	a.ok(err)
	if *same.Version != 0 || *same.JobModifyIndex != *stored.JobModifyIndex || again.EvalID == "" {
		a.t.Errorf("the same job again is version %d", *same.Version)
	}
	prio := 60
	stored.Priority = &prio
	_, _, err = a.Jobs().EnforceRegister(stored, 1, nil)
	a.refused(err, "Enforcing job modify index 1: job exists with conflicting job modify index")
	plan, _, err = a.Jobs().Plan(stored, true, nil)
	a.ok(err)
	if plan.Diff.Type != "Edited" {
		a.t.Errorf("the diff of another priority is %+v", plan.Diff)
	}
	_, _, err = a.Jobs().EnforceRegister(stored, *same.JobModifyIndex, nil)
	a.ok(err)
	versions, diffs, _, err := a.Jobs().Versions("web", true, nil)
	a.ok(err)
	if len(versions) != 2 || len(diffs) != 1 || *versions[0].Version != 1 || versions[0].Stable == nil ||
		versions[0].SubmitTime == nil {
		a.t.Errorf("%d versions and %d diffs", len(versions), len(diffs))
	}
	sub, _, err := a.Jobs().Submission("web", 0, nil)
	a.ok(err)
	summary, _, err := a.Jobs().Summary("web", nil)
	a.ok(err)
	list, _, err := a.Jobs().PrefixList("we")
	a.ok(err)
	if sub.Source != web || summary.Summary["g"].Running != 1 || len(list) != 1 || list[0].JobSummary == nil {
		a.t.Errorf("submission %+v, summary %+v, list %+v", sub, summary, list)
	}
	jobReads(a, alloc)
}

func jobReads(a *agent, alloc *api.Allocation) {
	allocs, _, err := a.Jobs().Allocations("web", false, nil)
	a.ok(err)
	evals, _, err := a.Jobs().Evaluations("web", nil)
	a.ok(err)
	if len(allocs) != 1 || len(evals) < 2 {
		a.t.Errorf("%d allocations, %d evaluations", len(allocs), len(evals))
	}
	var latest *api.Deployment
	a.eventually("the newest deployment is the first of all", func() error { // one may begin between two answers
		deployments, _, err := a.Jobs().Deployments("web", true, nil)
		a.ok(err)
		latest, _, err = a.Jobs().LatestDeployment("web", nil)
		a.ok(err)
		if len(deployments) == 0 || latest == nil || latest.ID != deployments[0].ID ||
			latest.TaskGroups[alloc.TaskGroup] == nil || latest.JobID != "web" {
			return fmt.Errorf("%d deployments, %+v", len(deployments), latest)
		}
		return nil
	})
	eval, _, err := a.Evaluations().Info(alloc.EvalID, &api.QueryOptions{Params: map[string]string{"related": "true"}})
	a.ok(err)
	all, _, err := a.Evaluations().PrefixList(alloc.EvalID[:4])
	a.ok(err)
	if eval.Status != "complete" || eval.TriggeredBy != "job-register" || len(all) == 0 {
		a.t.Errorf("the evaluation is %+v among %d", eval, len(all))
	}
	forced, _, err := a.Jobs().ForceEvaluate("web", nil)
	a.ok(err)
	_, _, err = a.Jobs().EvaluateWithOpts("web", api.EvalOptions{ForceReschedule: true}, nil)
	a.ok(err)
	listed, _, err := a.Deployments().List(nil)
	a.ok(err)
	one, _, err := a.Deployments().Info(latest.ID, nil)
	a.ok(err)
	_, _, err = a.Deployments().Allocations(latest.ID, nil)
	a.ok(err)
	if one.ID != latest.ID || one.JobID != "web" || one.CreateIndex == 0 {
		a.t.Errorf("the deployment is %+v", one)
	}
	found, _, err := a.Search().PrefixSearch("web", contexts.All, nil)
	a.ok(err)
	if forced == "" || len(listed) == 0 || !slices.Contains(found.Matches[contexts.Jobs], "web") {
		a.t.Errorf("forced %q, deployments %v, found %v", forced, listed, found.Matches)
	}
}

// webAlloc finds the running allocation of the job web.
func webAlloc(a *agent) *api.Allocation {
	a.t.Helper()
	var id string
	a.eventually("web runs", func() error {
		list, _, err := a.Jobs().Allocations("web", false, nil)
		for _, s := range list {
			if s.ClientStatus == "running" && s.DesiredStatus == "run" {
				id = s.ID
				return nil
			}
		}
		return fmt.Errorf("%d allocations, %v", len(list), err)
	})
	alloc, _, err := a.Allocations().Info(id, nil)
	a.ok(err)
	return alloc
}

func logged(a *agent, alloc *api.Allocation, kind string) string {
	a.t.Helper()
	frames, errs := a.AllocFS().Logs(alloc, false, "t", kind, "start", 0, nil, nil)
	var text strings.Builder
	for {
		select {
		case f, more := <-frames:
			if !more {
				return text.String()
			}
			text.Write(f.Data)
		case err := <-errs:
			a.t.Fatal(err)
		}
	}
}

func taskLife(a *agent) {
	alloc := webAlloc(a)
	if len(alloc.AllocatedResources.Shared.Ports) != 1 || alloc.Job == nil ||
		alloc.TaskStates["t"].State != "running" || *alloc.Resources.MemoryMB != 32 {
		a.t.Errorf("the allocation is %+v", alloc)
	}
	for kind, want := range map[string]string{"stdout": "hello\n", "stderr": "oops\n"} {
		a.eventually("the log holds "+want, func() error {
			if got := logged(a, alloc, kind); got != want {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
	}
	files(a, alloc)
	a.ok(a.Allocations().Signal(alloc, nil, "t", "SIGHUP"))
	a.eventually("the signal arrived", func() error {
		if got := logged(a, alloc, "stdout"); !strings.Contains(got, "got a signal") {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	usage, err := a.Allocations().Stats(alloc, nil)
	a.ok(err)
	checks, err := a.Allocations().Checks(alloc.ID, nil)
	a.ok(err)
	if usage.ResourceUsage.MemoryStats == nil || usage.Tasks["t"] == nil || len(checks) != 0 {
		a.t.Errorf("usage %+v, checks %v", usage, checks)
	}
	command(a, alloc)
	a.ok(a.Allocations().Restart(alloc, "t", nil))
	a.eventually("the task was restarted", func() error {
		now, _, err := a.Allocations().Info(alloc.ID, nil)
		if err == nil && (now.TaskStates["t"].Restarts < 1 || now.TaskStates["t"].State != "running") {
			err = fmt.Errorf("%+v", now.TaskStates["t"])
		}
		return err
	})
	a.ok(a.Allocations().RestartAllTasks(alloc, nil))
	stopped, err := a.Allocations().Stop(alloc, &api.QueryOptions{Params: map[string]string{"reschedule": "true"}})
	a.ok(err)
	next := ""
	a.eventually("a stopped allocation is replaced", func() error {
		now, _, err := a.Allocations().Info(alloc.ID, nil)
		if err == nil && (!*now.DesiredTransition.Reschedule || *now.DesiredTransition.Migrate) {
			a.t.Errorf("it is to be %+v", now.DesiredTransition)
		}
		if err == nil && (now.NextAllocation == "" || now.ClientStatus != "complete") {
			err = fmt.Errorf("%s, next %q", now.ClientStatus, now.NextAllocation)
		}
		if err == nil {
			next = now.NextAllocation
		}
		return err
	})
	if got := webAlloc(a); got.ID != next || got.PreviousAllocation != alloc.ID || stopped.EvalID == "" {
		a.t.Errorf("%s follows %s, want %s", got.ID, got.PreviousAllocation, next)
	}
	list, _, err := a.Allocations().PrefixList(next[:8])
	a.ok(err)
	if len(list) != 1 {
		a.t.Errorf("%d allocations begin with %s", len(list), next[:8])
	}
}

func files(a *agent, alloc *api.Allocation) {
	a.t.Helper()
	list, _, err := a.AllocFS().List(alloc, "/", nil)
	a.ok(err)
	if !slices.ContainsFunc(list, func(f *api.AllocFileInfo) bool { return f.Name == "t" && f.IsDir }) {
		a.t.Errorf("the directory holds %+v", list)
	}
	info, _, err := a.AllocFS().Stat(alloc, "alloc/data/file", nil)
	a.ok(err)
	if info.Size != 5 {
		a.t.Errorf("the file is %+v", info)
	}
	read := func(r io.ReadCloser, err error) string {
		a.ok(err)
		defer r.Close()
		text, err := io.ReadAll(r)
		a.ok(err)
		return string(text)
	}
	if got := read(a.AllocFS().Cat(alloc, "alloc/data/file", nil)); got != "kept\n" {
		a.t.Errorf("the file reads %q", got)
	}
	if got := read(a.AllocFS().ReadAt(alloc, "alloc/data/file", 2, -1, nil)); got != "pt\n" {
		a.t.Errorf("the end of the file reads %q", got)
	}
	if got := read(a.AllocFS().ReadAt(alloc, "alloc/data/file", 1, 2, nil)); got != "ep" {
		a.t.Errorf("the middle of the file reads %q", got)
	}
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := a.AllocFS().Stream(alloc, "alloc/data/file", "start", 0, stop, nil)
	for text := ""; text != "kept\n"; {
		select {
		case f := <-frames:
			text += string(f.Data)
		case err := <-errs:
			a.t.Fatal(err)
		case <-time.After(patience):
			a.t.Fatalf("the stream gave %q", text)
		}
	}
	_, _, err = a.AllocFS().Stat(alloc, "../../../../etc/passwd", nil)
	if err == nil {
		a.t.Error("a path leaves the allocation's directory")
	}
}

// command runs programs in the task.
func command(a *agent, alloc *api.Allocation) {
	a.t.Helper()
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		sizes := make(chan api.TerminalSize, 1)
		sizes <- api.TerminalSize{Height: 24, Width: 80}
		code, err := a.plain.Allocations().Exec(a.t.Context(), alloc, "t", tty,
			[]string{"/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"}, strings.NewReader(""), &out, &errs,
			sizes, nil)
		a.ok(err)
		both := out.String() + errs.String()
		if code != 3 || !strings.Contains(both, "to stdout") || !strings.Contains(both, "to stderr") ||
			!tty && errs.String() != "to stderr\n" {
			a.t.Errorf("tty %t: code %d, %q, %q", tty, code, out.String(), errs.String())
		}
	}
	var out bytes.Buffer
	code, err := a.plain.Allocations().Exec(a.t.Context(), alloc, "t", false, []string{"cat"},
		strings.NewReader("through the pipe"), &out, io.Discard, nil, nil)
	a.ok(err)
	if code != 0 || out.String() != "through the pipe" {
		a.t.Errorf("cat ended with %d and %q", code, out.String())
	}
	a.calls.note("GET /v1/client/allocation/*/exec") // a WebSocket goes past the notes
	_, err = a.plain.Allocations().Exec(a.t.Context(), alloc, "nope", false, []string{"true"}, strings.NewReader(""),
		&out, &out, nil, nil)
	a.refused(err, "unknown task name")
}

func execDriver(a *agent) {
	alloc := run(a,
		strings.NewReplacer(`"web"`, `"boxed"`, `"raw_exec"`, `"exec"`, "${NOMAD_ALLOC_DIR}", "/alloc").Replace(web))
	var out bytes.Buffer
	code, err := a.plain.Allocations().Exec(a.t.Context(), alloc, "t", false,
		[]string{"/bin/sh", "-c", "echo $$ $(cat /alloc/data/file) $(ls -d /local /secrets)"}, strings.NewReader(""),
		&out, &out, nil, nil)
	a.ok(err)
	if code != 0 || !strings.Contains(out.String(), "kept /local /secrets") {
		a.t.Errorf("inside: %d %q", code, out.String())
	}
	eval, _, err := a.Jobs().Deregister("boxed", true, nil)
	a.ok(err)
	a.eventually("a purged job is gone", func() error {
		if _, _, err := a.Jobs().Info("boxed", nil); err == nil || !strings.Contains(err.Error(), "job not found") {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if eval == "" {
		a.t.Error("nothing to follow")
	}
}

// blocking waits for changes with the client's own means.
func blocking(a *agent) {
	_, meta, err := a.Jobs().Summary("web", nil)
	a.ok(err)
	begin := time.Now()
	_, same, err := a.Jobs().Info("web", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 150 * time.Millisecond})
	a.ok(err)
	if took := time.Since(begin); took < 150*time.Millisecond || same.LastIndex != meta.LastIndex {
		a.t.Errorf("after %s index %d, was %d", took, same.LastIndex, meta.LastIndex)
	}
	woken := make(chan uint64, 1)
	go func() {
		_, m, err := a.Jobs().Info("web", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 20 * time.Second})
		if err != nil {
			a.t.Error(err)
			m = &api.QueryMeta{}
		}
		woken <- m.LastIndex
	}()
	time.Sleep(50 * time.Millisecond) // so that it waits
	j := parse(a, strings.Replace(web, `group "g" {`, `meta {
    k = "v"
  }
  group "g" {`, 1))
	_, _, err = a.Jobs().Register(j, nil)
	a.ok(err)
	if index := <-woken; index <= meta.LastIndex {
		a.t.Errorf("woken at %d, was %d", index, meta.LastIndex)
	}
	page, m, err := a.Jobs().List(&api.QueryOptions{PerPage: 1, Namespace: "*"})
	a.ok(err)
	rest, _, err := a.Jobs().List(
		&api.QueryOptions{PerPage: 1, NextToken: m.NextToken, Namespace: "*", Filter: `ID matches "."`})
	a.ok(err)
	if len(page) != 1 || len(rest) != 1 || page[0].ID == rest[0].ID {
		a.t.Errorf("pages %+v and %+v", page, rest)
	}
}

func theEnd(a *agent) {
	eval, _, err := a.Jobs().Deregister("web", false, nil)
	a.ok(err)
	a.eventually("the job is dead", func() error {
		j, _, err := a.Jobs().Info("web", nil)
		if err == nil && *j.Status != "dead" {
			err = fmt.Errorf("it is %s", *j.Status)
		}
		return err
	})
	again, _, err := a.Jobs().Deregister("nobody", false, nil)
	a.ok(err)
	if eval == "" || again != "" {
		a.t.Errorf("evaluations %q and %q", eval, again)
	}
	a.ok(a.System().GarbageCollect())
	a.eventually("the job is collected", func() error {
		if _, _, err := a.Jobs().Info("web", nil); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}
