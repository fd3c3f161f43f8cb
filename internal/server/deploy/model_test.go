package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/deploying"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
	"berth/internal/server/fsm/scaling"
	"berth/internal/testkit/localstate"
)

// TestWhateverHappensDeploymentsKeepTheirWord: versions that work and such that do not, canaries, promotions, pauses,
// failures by hand, ways back, other counts, by new files and by scaling, allocs that fail, nodes that go and come, and
// leaders that change. No plan takes more healthy allocs away than max_parallel allows, one deployment is under way at
// most, nothing is scaled meanwhile or out of bounds, no canary outlives its own, and in the end every one has ended
// and as many run as the job says.
func TestWhateverHappensDeploymentsKeepTheirWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		acts := rapid.SliceOfN(rapid.IntRange(0, 1<<16-1), 4, 14).Draw(rt, "acts")
		var broken string
		synctest.Test(t, func(t *testing.T) { broken = playModel(t, acts) })
		if broken != "" {
			rt.Fatal(broken)
		}
	})
}

// model is a house whose laws are watched.
type model struct {
	*house
	story  []string
	broken string
}

func playModel(t *testing.T, acts []int) string {
	m := &model{house: &house{Cluster: localstate.New(t), t: t, broken: map[string]bool{"bad": true}}}
	m.house.guard = m.guard
	for _, n := range []string{"n1", "n2", "n3"} {
		m.node(n)
	}
	m.lead()
	m.run(web("a", 2))
	for _, act := range acts {
		m.act(act)
		m.watch()
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		m.node(n)
	}
	for range 4 { // whoever is asked promotes; what is held goes on
		m.decide(0)
		m.decide(2)
		m.let(11 * time.Minute)
	}
	m.watch()
	for _, d := range m.deployments() {
		if d.Active() {
			m.breaks("the deployment of version %d has not ended", d.JobVersion)
		}
	}
	count := m.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web").TaskGroups[0].Count
	if n := len(m.live()); n != count {
		m.breaks("in the end %d allocs should run, and the job says %d", n, count)
	}
	m.stop()
	if m.broken != "" {
		return m.broken + "\n" + strings.Join(m.story, "\n") + "\n" + m.shown()
	}
	return ""
}

func (m *model) breaks(format string, args ...any) {
	if m.broken == "" {
		m.broken = fmt.Sprintf(format, args...)
	}
}

// let lets time pass.
func (m *model) let(d time.Duration) {
	m.nodes()
	for range d / (5 * time.Second) {
		time.Sleep(5 * time.Second)
		m.nodes()
	}
}

func (m *model) act(n int) {
	what, arg := n%8, n/8
	m.story = append(m.story, fmt.Sprintf("%d %d", what, arg))
	live := m.live()
	switch what {
	case 0, 1:
		m.run(web([]string{"a", "b", "c", "bad"}[arg%4], 1+arg/4%4, func(u *job.UpdateStrategy) {
			u.MaxParallel = 1 + arg/16%2
			u.AutoRevert = arg/32%2 == 0
			if arg/64%2 == 0 {
				u.Canary = 1 + arg/128%2
				u.AutoPromote = arg/256%2 == 0
			}
			if arg/512%4 == 0 {
				u.ProgressDeadline = 0
			}
		}))
	case 2:
		m.decide(arg)
	case 3:
		if len(live) > 0 {
			m.fails(live[arg%len(live)])
		}
	case 4:
		name := fmt.Sprintf("n%d", 1+arg%3)
		if arg/4%2 == 0 {
			m.Must(m.t, &fsm.NodeStatus{Nodes: []ids.Node{ids.Node(name)}, Status: node.StatusDown, Seed: ids.New()})
		} else {
			m.node(name)
		}
	case 5:
		m.house.stop()
		m.lead()
	case 6:
		m.scale(int64(arg % 6))
	}
	m.let([]time.Duration{0, 5 * time.Second, 15 * time.Second, 2 * time.Minute, 6 * time.Minute}[arg%5])
}

// scale gives the group another count, which is refused out of its bounds and while a deployment is under way.
func (m *model) scale(count int64) {
	synctest.Wait()
	before := m.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	active := deploying.Active(m.Store.Snapshot(), nil, ids.DefaultNamespace, "web")
	_, _, err := m.Cluster.Propose(m.t.Context(), &scaling.Scale{
		Namespace: ids.DefaultNamespace,
		Job:       "web",
		Group:     "g",
		Count:     &count,
		Seed:      ids.New(),
	})
	now := m.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	allowed := active == nil && count >= 1 && count <= 4
	switch is := int64(now.TaskGroups[0].Count); {
	case allowed && (err != nil || is != count):
		m.breaks("a scaling to %d within the bounds came to %d: %v", count, is, err)
	case !allowed && (err == nil || now.Version != before.Version):
		m.breaks("a scaling to %d is taken, with deployment %+v", count, active)
	}
}

// decide is what a person says to the newest deployment; it may be refused.
func (m *model) decide(n int) {
	all := m.deployments()
	if len(all) == 0 {
		return
	}
	d := all[len(all)-1].ID
	var cmd fsm.Command
	switch n % 4 {
	case 0:
		cmd = &deployments.Promote{Deployment: d, Seed: ids.New()}
	case 1:
		cmd = &deployments.Pause{Deployment: d, Pause: true, Seed: ids.New()}
	case 2:
		cmd = &deployments.Pause{Deployment: d, Seed: ids.New()}
	default:
		cmd = &deployments.Fail{Deployment: d, Seed: ids.New()}
	}
	_, _, _ = m.Cluster.Propose(m.t.Context(), cmd)
}

// watch holds what must be true whenever nothing moves.
func (m *model) watch() {
	synctest.Wait()
	active := map[ids.Deployment]*deployment.Deployment{}
	for _, d := range m.deployments() {
		if d.Active() {
			active[d.ID] = d
		}
	}
	if len(active) > 1 {
		m.breaks("%d deployments are under way", len(active))
	}
	for _, a := range m.live() {
		if d := active[a.Deployment]; a.Canary && (d == nil || !d.Groups["g"].Canarying()) {
			m.breaks("canary %s of version %d has outlived its trial", a.Name, a.JobVersion)
		}
	}
}

// guard holds each plan against the law of max_parallel: it takes no healthy alloc away, unless as many stay as the job
// allows. Where several share an index they count once.
func (m *model) guard(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	p, is := cmd.(*fsm.PlanApply)
	if !is {
		return m.Cluster.Propose(ctx, cmd)
	}
	j := m.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	g := j.TaskGroups[0]
	before := m.healthy(g.Count)
	by := map[ids.Alloc]string{}
	for _, s := range p.Stop {
		by[s.Alloc] = s.Description
	}
	stale := p.Eval == nil || p.Eval.SnapshotIndex < j.JobModifyIndex
	updates := false
	for _, why := range by {
		updates = updates || strings.HasPrefix(why, "replaced by a newer")
	}
	v, at, err := m.Cluster.Propose(ctx, cmd)
	if after := m.healthy(g.Count); updates && !stale && after < before && after < g.Count-g.Update.MaxParallel {
		m.breaks("a plan left %d healthy allocs of %d; there were %d", after, g.Count, before)
	}
	return v, at, err
}

func (m *model) healthy(count int) int {
	indexes := map[int]bool{}
	for _, a := range m.live() {
		if a.Healthy() && !a.Canary && a.Index < count && a.ClientStatus == alloc.ClientRunning {
			indexes[a.Index] = true
		}
	}
	return len(indexes)
}
