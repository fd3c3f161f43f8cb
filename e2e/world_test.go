package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"

	"github.com/moby/sys/mountinfo"
)

// testify answers what the proxy in the plugin's task asks, until the test ends.
func (p *judged) testify() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.m.t.Context()))
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("witness", func() error { return proxy.Testify(gctx, p.file("witness"), p.witness) })
	p.m.t.Cleanup(func() {
		cancel()
		must(p.m.t, g.Wait())
	})
}

// witness looks at the kernel's processes and at the claims that the API shows.
func (p *judged) witness(begin proxy.Entry) *proxy.Observation {
	switch csi.RPC(begin.RPC) {
	case csi.NodeUnpublishVolume:
		return &proxy.Observation{Living: p.living(begin)}
	case csi.DeleteVolume:
		return &proxy.Observation{Holders: p.holders(begin.Volume)}
	case csi.ControllerPublishVolume, csi.NodeStageVolume, csi.NodePublishVolume:
		return &proxy.Observation{Writers: p.writers(begin.Volume)}
	}
	return &proxy.Observation{}
}

// living are the tasks' processes of the alloc whose target this is: a target lies in a directory of its volume and
// its alloc.
func (p *judged) living(begin proxy.Entry) []string {
	out := []string{}
	own := filepath.Base(filepath.Dir(begin.Target))
	for _, x := range processes(func(x process) bool { return x.env["NOMAD_ALLOC_ID"] != "" }) {
		if ids.Segment(begin.Volume, x.env["NOMAD_ALLOC_ID"]) == own {
			out = append(out, x.String())
		}
	}
	return out
}

// crew are the machines of a cluster, by the storage nodes that they are.
type crew struct {
	mu  sync.Mutex
	all map[string]*machine
}

// joins takes a machine in.
func (c *crew) joins(node string, m *machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*machine{}
	}
	c.all[node] = m
}

func (c *crew) machines() map[string]*machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// writers are the tasks' processes on all machines of the cluster that may write to a provider's volume: those of an
// alloc that has a target of it, which is not read-only.
func (p *judged) writers(externalID string) []proxy.Writer {
	out := []proxy.Writer{}
	if p.crew == nil {
		return out
	}
	tasks := processes(func(x process) bool { return x.env["NOMAD_ALLOC_ID"] != "" })
	for node, m := range p.crew.machines() {
		for _, x := range tasks {
			own := ids.Segment(externalID, x.env["NOMAD_ALLOC_ID"])
			if m.writable(own) {
				out = append(out, proxy.Writer{Node: node, What: x.String()})
			}
		}
	}
	return out
}

// writable reports whether a machine has a target in a directory of that name, and it is not mounted read-only.
func (m *machine) writable(own string) bool {
	dirs, err := filepath.Glob(filepath.Join(m.data, "csi", "*", "p", own))
	if err != nil || len(dirs) == 0 {
		return false
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dirs[0]))
	return err != nil || !slices.ContainsFunc(mounts, func(i *mountinfo.Info) bool {
		return slices.Contains(strings.Split(i.Options, ","), "ro")
	})
}

// holders are the allocs that claim a provider's volume, and registrations of it beyond the one that is deleted. An
// agent that does not answer is asked again for a while: it may be starting.
func (p *judged) holders(externalID string) []string {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if out, err := p.askHolders(externalID); err == nil {
			return out
		}
	}
	return nil
}

// agent is the machine whose agent is asked.
func (p *judged) agent() *machine {
	if m := p.asked.Load(); m != nil {
		return m
	}
	return p.m
}

func (p *judged) askHolders(externalID string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.m.t.Context()), 30*time.Second)
	defer cancel()
	volumes := p.agent().api.Volumes()
	all, _, err := volumes.List(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := []string{}
	registered := 0
	for _, stub := range all {
		if stub.ExternalID != externalID || stub.PluginID != p.id {
			continue
		}
		if registered++; registered > 1 {
			out = append(out, "registration "+stub.ID)
		}
		v, _, err := volumes.Get(ctx, stub.ID, nil)
		if err != nil {
			return nil, err
		}
		for alloc := range v.WriteAllocs {
			out = append(out, "claim of alloc "+alloc)
		}
		for alloc := range v.ReadAllocs {
			out = append(out, "claim of alloc "+alloc)
		}
	}
	return out, nil
}

// world are the facts that every test of a judged plugin begins with.
func (p *judged) world() oracle.Facts {
	const inside = "a test from outside does not see it; the rig of servers and nodes in one process feeds it"
	return oracle.Facts{
		Processes: oracle.Witnessed(),
		Holders:   oracle.Witnessed(),
		Writers:   p.otherNodes(),
		Tasks:     oracle.None[oracle.TaskStart](inside),
		Shown:     oracle.None[oracle.Shown](inside),
		Works:     oracle.None[oracle.Work](inside),
		Secrets:   oracle.Feed[string](),
		Texts:     oracle.None[oracle.Text]("TestSecretsAreNowhere hunts for them in far more places"),
		Strays:    oracle.None[oracle.Stray](inside),
		Ends:      oracle.None[oracle.End](inside),
		Obeyed:    oracle.None[oracle.Obeyed]("one agent runs at a time"),
		Quiet:     oracle.Feed[oracle.Quiet](),
		Provider:  oracle.None[oracle.Thing]("the plugin runs in a task; what its calls made tells what it has"),
		Rest:      oracle.None[oracle.Rest]("the test did not come to rest"),
		Release:   30 * time.Second,
	}
}

// otherNodes says whether there is another node that could write.
func (p *judged) otherNodes() oracle.Around {
	if p.crew == nil {
		return oracle.Nobody("the plugin runs on one node")
	}
	return oracle.Witnessed()
}

// records are the volumes and snapshots that the API shows, where an agent runs that can be asked.
func (p *judged) records() (out oracle.Fed[oracle.Record]) {
	p.m.t.Helper()
	m := p.agent()
	if m.cmd == nil {
		return oracle.None[oracle.Record]("no agent runs any more that could be asked")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.m.t.Context()), 30*time.Second)
	defer cancel()
	out = oracle.Feed(p.forgotten...)
	all, _, err := m.api.Volumes().List(ctx, nil)
	must(p.m.t, err)
	for _, v := range all {
		out.Add(oracle.Record{ID: v.ExternalID, Name: v.Name})
	}
	cuts, _, err := m.api.Volumes().ListSnapshots(ctx, p.id, nil, nil)
	if err != nil {
		return out // a plugin that has none cannot list them
	}
	for _, s := range cuts.Snapshots {
		out.Add(oracle.Record{ID: s.ID, Name: s.Name})
	}
	return out
}

// TestTheWitnessSeesProcessesAndClaims: what feeds the oracle is itself held to a task that uses a volume.
func TestTheWitnessSeesProcessesAndClaims(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	m.pid(user.ID, "write", "/bin/sh")
	i := slices.IndexFunc(p.entries(), func(e proxy.Entry) bool {
		return e.Kind == proxy.CallBegins && e.RPC == "NodePublishVolume"
	})
	if i < 0 {
		t.Fatal("nothing was published")
	}
	publish := p.entries()[i]
	publish.RPC = "NodeUnpublishVolume"
	if seen := p.witness(publish); len(seen.Living) == 0 {
		t.Errorf("no process at %s", publish.Target)
	}
	publish.RPC = "DeleteVolume"
	seen := p.witness(publish)
	if !slices.Contains(seen.Holders, fmt.Sprintf("claim of alloc %s", user.ID)) {
		t.Errorf("the holders are %s", strings.Join(seen.Holders, ", "))
	}
	m.stopJob("user")
	p.atRest("a")
	m.remove("a")
}
