package endpoint

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/versions"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// runsPlugin is a system job of Berth's own, or of somebody's, that runs a plugin.
func runsPlugin(ns ids.Namespace, id ids.Job, p ids.Plugin) *job.Job {
	return &job.Job{
		Namespace: ns,
		ID:        id,
		Type:      job.TypeSystem,
		Priority:  50,
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*job.Task{{
				Name:            "plugin",
				Driver:          "raw_exec",
				CSIPluginConfig: &job.CSIPluginConfig{ID: string(p), Type: job.PluginMonolith, MountDir: "/csi"},
			}},
		}},
	}
}

// using has so many volumes of the plugin in use on a node where the first job's alloc is its instance.
func using(t *testing.T, c *localstate.Cluster, p ids.Plugin, of *job.Job, volumes int) {
	t.Helper()
	n := nodeWith(map[string]*node.Driver{"raw_exec": healthy(true)})
	c.Must(t, &fsm.NodeRegister{Node: n})
	runs := ids.Alloc(ids.New())
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		j := tx.Job(nil, of.Namespace, of.ID)
		tx.PutAlloc(&alloc.Alloc{
			ID:             runs,
			Namespace:      of.Namespace,
			Job:            of.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			TaskGroup:      "g",
			Node:           n.ID,
		})
		was := *tx.Node(nil, n.ID)
		was.CSI = []*plugin.Instance{
			{Plugin: p, Role: plugin.RoleNode, Alloc: runs, Node: n.ID},
			{Plugin: p, Role: plugin.RoleController, Alloc: runs, Node: n.ID},
		}
		tx.PutNode(&was)
		for i := range volumes {
			tx.PutClaim(&volume.Claim{
				Volume:     volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(fmt.Sprint("data", i))},
				Plugin:     p,
				ExternalID: fmt.Sprint("x", i),
				Alloc:      ids.Alloc(ids.New()),
				Job:        "db",
				Node:       n.ID,
				State:      volume.Held,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Given a plugin whose volumes are in use, when its job is stopped, then the reply warns, names some of them with who
// holds them, counts the rest, and says how it comes back; that way, it does, though nobody may register that job, and
// it is the same job as before.
func TestTheStopOfAPluginInUseIsWarnedOfAndUndone(t *testing.T) {
	e, c := endpoints(t)
	bundled := runsPlugin(ids.ReservedNamespace, "local-csi", "local-csi")
	if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: bundled}); err != nil {
		t.Fatal(err)
	}
	stop := func(purge bool) []string {
		t.Helper()
		out, err := e.jobDeregister(t.Context(), &wire.JobDeregisterRequest{Namespace: ids.ReservedNamespace,
			Job: "local-csi", Purge: purge})
		if err != nil {
			t.Fatal(err)
		}
		return out.Warnings
	}
	start := func() (*wire.JobRegisterReply, error) {
		return e.jobStart(t.Context(), &wire.JobStartRequest{Namespace: ids.ReservedNamespace, Job: "local-csi"})
	}
	if got := stop(false); len(got) > 0 {
		t.Errorf("with nothing in use it warns: %q", got)
	}
	if out, err := start(); err != nil || out.Outcome != fsm.Updated || out.Eval == "" {
		t.Fatalf("started: %+v, %v", out, err)
	}
	using(t, c, "local-csi", bundled, 8)
	got := stop(false)
	if len(got) != 1 || strings.Count(got[0], "held by allocation") != namedInWarning ||
		!strings.Contains(got[0], `of job "db"`) || !strings.Contains(got[0], "and 3 more") ||
		!strings.HasSuffix(got[0], "berth job start -namespace berth local-csi") {
		t.Errorf("it warns %q", got)
	}
	if j := c.Store.Snapshot().Job(nil, ids.ReservedNamespace, "local-csi"); !j.Stop {
		t.Error("it is not stopped")
	}
	if again := stop(false); len(again) > 0 {
		t.Errorf("of one that is stopped it warns: %q", again)
	}
	if _, err := start(); err != nil {
		t.Fatal(err)
	}
	now := c.Store.Snapshot().Job(nil, ids.ReservedNamespace, "local-csi")
	if same, err := versions.Same(now, bundled); err != nil || !same || now.Stop {
		t.Errorf("it runs as %+v, %v", now, err)
	}
	if out, err := start(); err != nil || out.Outcome != fsm.Unchanged {
		t.Errorf("started once more: %+v, %v", out, err)
	}
	if got := stop(true); len(got) != 1 || !strings.Contains(got[0], "an agent with local_csi registers it again") {
		t.Errorf("of a purge it warns %q", got)
	}
	if _, err := start(); !fault.Has(err, fault.NotFound) || !strings.Contains(err.Error(), "when it starts") {
		t.Errorf("of one that is forgotten it says %v", err)
	}
}

// Given a job with a gateway, when it is stopped, then the reply says what stays in Consul, and how it is taken away.
func TestTheStopOfAGatewayNamesWhatStaysInConsul(t *testing.T) {
	e, c := endpoints(t)
	edge := runsPlugin(ids.DefaultNamespace, "edge", "")
	edge.TaskGroups[0].Tasks[0].CSIPluginConfig = nil
	edge.TaskGroups[0].Services = []*job.Service{
		{Name: "plain"},
		{Name: "in", Connect: &job.Connect{Gateway: &job.Gateway{Ingress: &job.IngressGateway{}}}},
		{Name: "between", Connect: &job.Connect{Gateway: &job.Gateway{Mesh: &job.BetweenMeshes{}}}},
	}
	c.Must(t, &fsm.JobRegister{Job: edge})
	out, err := e.jobDeregister(t.Context(), &wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: "edge"})
	if err != nil || len(out.Warnings) != 1 || !strings.HasSuffix(out.Warnings[0],
		`"in", for other gateways of that name; to delete it: consul config delete -kind ingress-gateway -name in`) {
		t.Errorf("%+v, %v", out, err)
	}
}

// namedInWarning is how many uses a warning names.
const namedInWarning = 5

// Given two jobs that run a plugin, when the one is stopped whose instances no volume in use needs, then nobody is
// warned.
func TestTheStopOfAPluginThatAnotherJobServesIsNotWarnedOf(t *testing.T) {
	e, c := endpoints(t)
	one, two := runsPlugin(ids.DefaultNamespace, "one", "ebs"), runsPlugin(ids.DefaultNamespace, "two", "ebs")
	for _, j := range []*job.Job{one, two} {
		if _, err := e.jobRegister(t.Context(), &wire.JobRegisterRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	using(t, c, "ebs", two, 1)
	for id, want := range map[ids.Job]int{"one": 0, "two": 1} {
		out, err := e.jobDeregister(t.Context(), &wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: id})
		if err != nil || len(out.Warnings) != want {
			t.Errorf("the stop of %s warns: %+v, %v", id, out, err)
		}
	}
}
