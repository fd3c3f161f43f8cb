package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/proxy"
)

var (
	crashAll  = flag.Bool("crash", false, "crash at every point of every scenario, instead of at some")
	crashSeed = flag.Uint64("crash-seed", 5, "which points are crashed at; 0: others each time")
)

// stage is what the scenarios play on: one machine with one judged plugin for many crashes.
type stage struct {
	m *machine
	p *judged
	s *stopper
	n int // how many plays there were, for names
}

// act is one play of a scenario. Its steps return when the context ends, which a crash has it do.
type act struct {
	*stage
	ctx context.Context
	id  string // of the volume and the job, unlike those of other plays
	cut string // the snapshot that was made
}

// scenarios are what is crashed in the middle of.
var scenarios = map[string]func(*act) error{
	"start and stop": func(a *act) error {
		return inOrder(a.create, a.run, a.running(1), a.stop, a.free, a.delete)
	},
	"stop while starting": func(a *act) error { return inOrder(a.create, a.run, a.stop, a.free, a.delete) },
	"two sharers": func(a *act) error {
		return inOrder(a.createShared, a.share(2), a.running(2), a.share(1), a.running(1), a.stop, a.free, a.delete)
	},
	"plugin update": func(a *act) error {
		return inOrder(a.create, a.run, a.running(1), a.updatePlugin, a.stop, a.free, a.delete)
	},
	"expansion": func(a *act) error {
		return inOrder(a.create, a.run, a.running(1), a.expand, a.stop, a.free, a.delete)
	},
	"snapshot": func(a *act) error {
		return inOrder(a.create, a.run, a.running(1), a.snapshot, a.deleteSnapshots, a.stop, a.delete)
	},
	"restore": func(a *act) error {
		return inOrder(a.create, a.run, a.running(1), a.snapshot, a.restore, a.deleteClone, a.deleteSnapshots, a.stop,
			a.delete)
	},
	"clone":   func(a *act) error { return inOrder(a.create, a.clone, a.deleteClone, a.delete) },
	"restart": func(a *act) error { return inOrder(a.create, a.run, a.running(1), a.restart, a.stop, a.delete) },
}

// kills are who is killed, and in front of whose points.
var kills = []struct{ of, kill string }{{"agent", "agent"}, {"plugin", "agent"}, {"plugin", "plugin"}}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestACrashInFrontOfAnyPoint: given a scenario, when the agent or the plugin is killed in front of its n-th persisted
// write or mount, then the next run ends what was begun: everything can be stopped and deleted, nothing is left, and
// the oracle finds no call that must not be. With -crash n goes through all of them.
func TestACrashInFrontOfAnyPoint(t *testing.T) {
	if !*crashAll {
		onStage(t, (*stage).some)
		return
	}
	for _, name := range sorted(scenarios) { // each on a machine of its own: a long log makes starts slow
		t.Run(name, func(t *testing.T) { onStage(t, func(st *stage, t *testing.T) { st.all(t, name) }) })
	}
}

// onStage plays on a machine of its own, on which at the end nothing may be left.
func onStage(t *testing.T, play func(*stage, *testing.T)) {
	s := watch(t)
	m := prepare(t, false)
	m.service = true
	m.wrap = s.wrap
	s.m = m
	const rawExec = "plugin \"raw_exec\" {\n config {\n enabled = true\n }\n}"
	m.configure(false, fmt.Sprintf("socket = %q", m.socket()), rawExec)
	st := &stage{m: m, s: s}
	m.start()
	st.p = m.localPlugin("own", "raw_exec")
	st.p.rules()
	play(st, t)
	st.p.atRest()
	// Only the end of an agent for trying out ends the plugin's job, too.
	must(t, m.stop())
	m.service = false
	m.start()
}

// all crashes in front of the first point, the second, and so on, until the scenario is over before.
func (st *stage) all(t *testing.T, name string) {
	for _, k := range kills {
		for n := 0; ; n++ {
			where := st.play(name, k.of, k.kill, n)
			if t.Failed() {
				return
			}
			if where == "" {
				t.Logf("%s: the %s was killed in front of each of %d points of the %s", name, k.kill, n, k.of)
				break
			}
		}
	}
}

// some plays a few crashes, drawn by the seed.
func (st *stage) some(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("repeat it with -crash-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	names := sorted(scenarios)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		k := kills[rng.IntN(len(kills))]
		n := rng.IntN(24)
		if k.of == "plugin" {
			n = rng.IntN(10)
		}
		if where := st.play(name, k.of, k.kill, n); where != "" {
			t.Logf("%s: the %s was killed at point %d, %s", name, k.kill, n, where)
		}
		if t.Failed() {
			return
		}
	}
}

func sorted[T any](of map[string]T) (out []string) {
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// play plays a scenario with a crash, has the next run clean up, and returns where the crash was.
func (st *stage) play(name, of, kill string, n int) string {
	m := st.m
	st.n++
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*patience)
	defer cancel()
	a := &act{stage: st, ctx: ctx, id: fmt.Sprintf("x%d", st.n)}
	fired := st.s.arm(of, kill, n)
	over := make(chan error, 1)
	go func() { over <- scenarios[name](a) }()
	where := ""
	var err error
	select {
	case where = <-fired:
		if kill == "agent" {
			cancel() // what it was asked is not answered any more
		}
		err = <-over
	case err = <-over:
	}
	if late := st.s.disarm(); late != "" {
		where = late
	}
	what := fmt.Sprintf("%s, the %s killed at point %d (%s)", name, kill, n, where)
	if kill == "agent" && where != "" {
		<-m.done
		m.cmd = nil
		m.api.CloseIdle()
		st.p.mark(proxy.CallerCrashed)
		m.start()
	} else if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
	if kill == "plugin" && st.n%4 == 0 && !m.t.Failed() {
		m.run(st.pluginJob()) // one that is killed again and again comes back after half a minute only
	}
	if !m.t.Failed() {
		a.clean(what)
	}
	return where
}

// clean stops and deletes all that the play may have left, and looks that nothing is there any more.
func (a *act) clean(what string) {
	m := a.m
	m.t.Helper()
	a.ctx = m.t.Context()
	m.awaitPlugin(a.p.id)
	for _, id := range []string{a.id, a.id + "c"} {
		_, _, err := m.api.Jobs().Deregister(a.ctx, id, api.JobDeregisterOptions{Purge: true}, nil)
		if err != nil && !api.IsNotFound(err) {
			m.t.Fatalf("%s: purge %s: %v", what, id, err)
		}
	}
	if err := inOrder(a.deleteSnapshots, a.deleteClone, a.delete); err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
	var left string
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if left = a.left(); left == "" {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: left behind: %s", what, left)
		}
	}
}

// left names what is still there of a play; empty: nothing.
func (a *act) left() string {
	var out []string
	m := a.m
	volumes, _, err := m.api.Volumes().List(a.ctx, nil)
	if err != nil {
		return err.Error()
	}
	for _, v := range volumes {
		out = append(out, "volume "+v.ID)
	}
	external, _, err := m.api.Volumes().ListExternal(a.ctx, a.p.id, nil)
	if err != nil {
		return err.Error()
	}
	for _, v := range external.Volumes {
		out = append(out, "volume of the provider "+v.ExternalID)
	}
	for dev, file := range loopDevices(m.root) {
		out = append(out, "loop device "+dev+" on "+file)
	}
	for _, mount := range volumeMounts(m) {
		out = append(out, "mount "+mount)
	}
	if shims := m.shims(); len(shims) != 1 { // the plugin's
		out = append(out, fmt.Sprintf("shims %v", shims))
	}
	return strings.Join(out, ", ")
}

// until reads until the state is as wanted, or the play is over.
func (a *act) until(what string, ok func(context.Context) (bool, error)) error {
	for {
		done, err := ok(a.ctx)
		if done {
			return nil
		}
		select {
		case <-a.ctx.Done():
			return errors.Join(fmt.Errorf("waited for %s: %w", what, a.ctx.Err()), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// from says what a volume is filled from: nothing, another volume, or a snapshot.
type from struct{ volume, snapshot string }

func (a *act) createWith(id, access string, source from) error {
	return a.until("volume "+id, func(ctx context.Context) (bool, error) { // a plugin that was killed comes back
		_, _, err := a.m.api.Volumes().Create(ctx, &api.CSIVolume{
			ID:                    id,
			Name:                  id,
			PluginID:              a.p.id,
			RequestedCapacityMin:  32 << 20,
			CloneID:               source.volume,
			SnapshotID:            source.snapshot,
			RequestedCapabilities: []*api.CSIVolumeCapability{capability(access, "file-system")},
		}, nil)
		return err == nil, err
	})
}

const (
	oneWriter   = "single-node-writer"
	manyWriters = "multi-node-multi-writer"
)

func (a *act) create() error       { return a.createWith(a.id, oneWriter, from{}) }
func (a *act) createShared() error { return a.createWith(a.id, manyWriters, from{}) }
func (a *act) clone() error        { return a.createWith(a.id+"c", oneWriter, from{volume: a.id}) }
func (a *act) restore() error      { return a.createWith(a.id+"c", oneWriter, from{snapshot: a.cut}) }

func (a *act) register(hcl string) error {
	_, err := a.m.register(hcl)
	return err
}

func (a *act) run() error { return a.register(writer{id: a.id, volume: a.id}.hcl()) }

func (a *act) share(count int) func() error {
	w := writer{id: a.id, volume: a.id, count: count, access: manyWriters}
	return func() error { return a.register(w.hcl()) }
}

func (a *act) running(n int) func() error {
	return func() error {
		return a.until("running allocs", func(ctx context.Context) (bool, error) {
			all, _, err := a.m.api.Jobs().Allocations(ctx, a.id, true, nil)
			have := 0
			for _, x := range all {
				if x.ClientStatus == api.AllocClientStatusRunning && x.DesiredStatus == api.AllocDesiredStatusRun {
					have++
				}
			}
			return have == n, err
		})
	}
}

func (a *act) stop() error {
	_, _, err := a.m.api.Jobs().Deregister(a.ctx, a.id, api.JobDeregisterOptions{}, nil)
	return err
}

func (a *act) free() error {
	return a.until("the volume to be free", func(ctx context.Context) (bool, error) {
		v, _, err := a.m.api.Volumes().Get(ctx, a.id, nil)
		return err == nil && len(v.WriteAllocs)+len(v.ReadAllocs) == 0, err
	})
}

func (a *act) deleteWith(id string) error {
	return a.until("volume "+id+" to be deleted", func(ctx context.Context) (bool, error) {
		err := a.m.api.Volumes().Delete(ctx, id, nil, 10*time.Second, nil)
		return err == nil || api.IsNotFound(err), err
	})
}

func (a *act) delete() error      { return a.deleteWith(a.id) }
func (a *act) deleteClone() error { return a.deleteWith(a.id + "c") }

func (a *act) expand() error {
	return a.until("the expansion", func(ctx context.Context) (bool, error) {
		_, _, err := a.m.api.Volumes().Expand(ctx, a.id, &api.CSIVolumeExpandRequest{CapacityMin: 48 << 20}, nil)
		return err == nil, err
	})
}

func (a *act) snapshot() error {
	return a.until("the snapshot", func(ctx context.Context) (bool, error) {
		r, _, err := a.m.api.Volumes().CreateSnapshot(ctx,
			&api.CSISnapshot{SourceVolumeID: a.id, PluginID: a.p.id, Name: a.id}, nil)
		if err == nil {
			a.cut = r.Snapshots[0].ID
		}
		return err == nil, err
	})
}

// deleteSnapshots deletes all that there are: one whose request was answered by nobody, too.
func (a *act) deleteSnapshots() error {
	return a.until("no snapshots", func(ctx context.Context) (bool, error) {
		r, _, err := a.m.api.Volumes().ListSnapshots(ctx, a.p.id, nil, nil)
		if err != nil {
			return false, err
		}
		for _, s := range r.Snapshots {
			err = errors.Join(err, a.m.api.Volumes().DeleteSnapshot(ctx, a.p.id, s.ID, nil, nil))
		}
		return len(r.Snapshots) == 0, err
	})
}

// pluginJob is another version of the plugin's job in each play.
func (st *stage) pluginJob() string {
	return strings.Replace(st.p.hcl(), "cpu    = 20", fmt.Sprintf("cpu    = %d", 20+st.n%10), 1)
}

// updatePlugin replaces the plugin under its user.
func (a *act) updatePlugin() error {
	if err := a.register(a.pluginJob()); err != nil {
		return err
	}
	return a.until("the plugin", func(ctx context.Context) (bool, error) {
		p, _, err := a.m.api.Plugins().Get(ctx, a.p.id, nil)
		return err == nil && p.NodesHealthy == 1, err
	})
}

// restart kills the agent and starts another one, which may be killed at its start.
func (a *act) restart() error {
	if !a.s.between(func() {
		a.m.kill()
		a.p.mark(proxy.CallerCrashed)
		a.m.launch()
	}) {
		return errors.New("the agent was killed before")
	}
	return a.until("the node", func(ctx context.Context) (bool, error) {
		all, _, err := a.m.api.Nodes().List(ctx, nil)
		return err == nil && len(all) == 1 && all[0].Status == api.NodeStatusReady, err
	})
}
