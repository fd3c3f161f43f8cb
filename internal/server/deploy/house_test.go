package deploy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
	"berth/internal/server/health"
	"berth/internal/server/worker"
	"berth/internal/testkit/localstate"
)

// house is a cluster in which jobs are scheduled, health is decided and deployments are kept. Its nodes do
// what the servers ask for; versions whose command is in broken never become healthy.
type house struct {
	*localstate.Cluster
	t    *testing.T
	stop func()

	mu       sync.Mutex
	commands []string // that were proposed by the servers
	broken   map[string]bool
	guard    func(context.Context, fsm.Command) (any, uint64, error) // in front of the state; nil: none
}

// Propose implements fsm.Proposer for what leads.
func (h *house) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	k, _ := fsm.KindOf(cmd)
	h.mu.Lock()
	h.commands = append(h.commands, k.Name)
	h.mu.Unlock()
	if h.guard != nil {
		return h.guard(ctx, cmd)
	}
	return h.Cluster.Propose(ctx, cmd)
}

// since lists the commands that the servers proposed since the last call.
func (h *house) since() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.commands)
	out := strings.Join(h.commands, " ")
	h.commands = nil
	return out
}

func inHouse(t *testing.T, story func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{Cluster: localstate.New(t), t: t, broken: map[string]bool{}}
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			h.node(n)
		}
		h.lead()
		defer func() { h.stop() }()
		story(h)
	})
}

// node registers a node that offers directories under these names.
func (h *house) node(name string, disks ...string) {
	offers := map[string]*node.HostVolume{}
	for _, d := range disks {
		offers[d] = &node.HostVolume{Name: d}
	}
	h.Must(h.t, &fsm.NodeRegister{Seed: ids.New(), Node: &node.Node{
		ID:          ids.Node(name),
		Name:        name,
		Datacenter:  "dc1",
		SecretHash:  "h",
		Attributes:  map[string]string{},
		Meta:        map[string]string{},
		Drivers:     map[string]*node.Driver{"exec": {Detected: true, Healthy: true}},
		HostVolumes: offers,
		Resources:   node.Resources{CPUShares: 4000, MemoryMB: 4000, DiskMB: 10000, IP: "127.0.0.1"},
	}})
}

// lead begins a term; stop ends it.
func (h *house) lead() {
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error)
	runs := []func(context.Context) error{
		worker.New(h.Store, h, 2, log).Run,
		health.New(health.Config{Store: h.Store, Proposer: h, Log: log}).Run,
		New(Config{Store: h.Store, Proposer: h, Log: log}).Run,
	}
	for _, run := range runs {
		go func() { ended <- run(ctx) }()
	}
	synctest.Wait()
	h.stop = func() {
		cancel()
		for range runs {
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		}
	}
}

// web is a service of which version what runs a command, and is healthy after 10 s, within a minute.
func web(command string, count int, edit ...func(*job.UpdateStrategy)) *job.Job {
	u := &job.UpdateStrategy{
		MaxParallel:      1,
		HealthCheck:      "checks",
		MinHealthyTime:   10 * time.Second,
		HealthyDeadline:  time.Minute,
		ProgressDeadline: 5 * time.Minute,
	}
	for _, e := range edit {
		e(u)
	}
	return &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          "web",
		Name:        "web",
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Count: count,
			Tasks: []*job.Task{{
				Name:      "t",
				Driver:    "exec",
				Config:    map[string]any{"command": command},
				Resources: &job.Resources{CPU: 100, MemoryMB: 100},
			}},
			ReschedulePolicy: &job.ReschedulePolicy{
				Unlimited:     true,
				Delay:         30 * time.Second,
				DelayFunction: "constant",
			},
			EphemeralDisk: &job.EphemeralDisk{SizeMB: 10},
			Update:        u,
			Scaling:       &job.ScalingPolicy{Type: job.ScalingHorizontal, Min: 1, Max: 4, Enabled: true},
		}},
	}
}

func (h *house) run(j *job.Job) { h.Must(h.t, &fsm.JobRegister{Job: j, Seed: ids.New()}) }

// live lists the allocs of the job that should run, by name and age.
func (h *house) live() []*alloc.Alloc {
	out := slices.DeleteFunc(slices.Collect(h.Store.Snapshot().AllocsByJob(nil, ids.DefaultNamespace, "web")),
		func(a *alloc.Alloc) bool { return a.Terminal() })
	slices.SortFunc(out, func(a, b *alloc.Alloc) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.JobVersion, b.JobVersion),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// nodes have every node do what is asked of it, until nothing is left to do.
func (h *house) nodes() {
	for moved := true; moved; {
		synctest.Wait()
		moved = false
		for a := range h.Store.Snapshot().AllocsByJob(nil, ids.DefaultNamespace, "web") {
			r := *a
			switch {
			case a.ServerTerminal() && !a.ClientTerminal():
				r.ClientStatus = alloc.ClientComplete
				r.TaskStates = map[string]*alloc.TaskState{"t": {State: alloc.TaskDead}}
			case !a.Terminal() && a.ClientStatus == alloc.ClientPending && !h.breaks(a):
				r.ClientStatus = alloc.ClientRunning
				r.TaskStates = map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning, StartedAt: time.Now()}}
			default:
				continue
			}
			moved = true
			h.Must(h.t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{&r}, Seed: ids.New()})
		}
	}
}

func (h *house) breaks(a *alloc.Alloc) bool {
	j := h.Store.Snapshot().JobOf(nil, a)
	return h.broken[j.TaskGroups[0].Tasks[0].Config["command"].(string)]
}

// fails has an alloc end with a failure.
func (h *house) fails(a *alloc.Alloc) {
	r := *a
	r.ClientStatus = alloc.ClientFailed
	r.TaskStates = map[string]*alloc.TaskState{"t": {State: alloc.TaskDead, Failed: true, FinishedAt: time.Now()}}
	h.Must(h.t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{&r}, Seed: ids.New()})
}

// pass lets time pass, second by second, while nodes do what is asked of them.
func (h *house) pass(d time.Duration) {
	h.nodes()
	for range d / time.Second {
		time.Sleep(time.Second)
		h.nodes()
	}
}

// deployments of the job, by version.
func (h *house) deployments() []*deployment.Deployment {
	return slices.SortedFunc(h.Store.Snapshot().DeploymentsByJob(nil, ids.DefaultNamespace, "web"),
		func(a, b *deployment.Deployment) int { return cmp.Compare(a.JobVersion, b.JobVersion) })
}

// shown says how the deployments stand, and what should run: by index, version, and whether it is a canary.
func (h *house) shown() string {
	var out []string
	for _, d := range h.deployments() {
		out = append(out, fmt.Sprintf("v%d %s: %s", d.JobVersion, d.Status, d.StatusDescription))
	}
	var runs []string
	for _, a := range h.live() {
		text := fmt.Sprintf("%d:v%d", a.Index, a.JobVersion)
		if a.Canary {
			text += "?"
		}
		if a.Healthy() {
			text += "+"
		}
		runs = append(runs, text)
	}
	return strings.Join(append(out, strings.Join(runs, " ")), "\n")
}

func (h *house) want(text string) {
	h.t.Helper()
	synctest.Wait()
	want := strings.ReplaceAll(strings.TrimSpace(text), "\t", "")
	if got := strings.TrimSpace(h.shown()); got != want {
		h.t.Fatalf("after %s\n%s\n\nwant:\n%s", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), got, want)
	}
}

func (h *house) newest() ids.Deployment {
	all := h.deployments()
	return all[len(all)-1].ID
}

func (h *house) promote() error {
	_, _, err := h.Propose(h.t.Context(), &deployments.Promote{Deployment: h.newest(), Seed: ids.New()})
	return err
}

func (h *house) version(n uint64) *job.Job {
	j := h.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web")
	return h.Store.Snapshot().JobVersion(nil, ids.DefaultNamespace, "web", j.CreateIndex, n)
}
