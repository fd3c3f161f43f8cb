// Package gc owns the forgetting: evaluations, allocs, jobs and nodes that are over are removed from the state when
// they have been over for a while, when there are too many of them, or at once when a person asks. What a claim, an
// attachment or an inventory names stays. Only package server runs it.
package gc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/node"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/collection"
	"berth/internal/server/fsm/departure"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Ages say for how long something stays after it is over. Zero fields take the defaults.
type Ages struct {
	Evals, Jobs, Nodes time.Duration
	Deployments        time.Duration // of versions that are not the present one
	Every              time.Duration // between two rounds
	Most               Most
}

// Most is how much of what is over stays, however young: beyond it the oldest goes. So a crowd of short jobs takes no
// more of the servers' memory in an hour than this. Zero fields take the defaults.
type Most struct {
	Jobs   int
	Allocs int // of jobs that stay, too
	Evals  int
	Text   int // bytes of the files that jobs were submitted with
}

// DefaultMost bounds what is over to some 200 MiB of the servers' memory: a job that has run once takes 22 to 36 KiB
// with its alloc and its evaluation, besides its file.
var DefaultMost = Most{Jobs: 4000, Allocs: 10_000, Evals: 20_000, Text: 32 << 20}

// everyCount is how often it is looked whether there is too much.
const everyCount = 15 * time.Second

// DefaultAges keep an hour of history, and a day of nodes that are gone.
var DefaultAges = Ages{
	Evals:       time.Hour,
	Jobs:        4 * time.Hour,
	Nodes:       24 * time.Hour,
	Deployments: time.Hour,
	Every:       5 * time.Minute,
}

// maxBatch bounds the ids in one command.
const maxBatch = 2000

// Collector finds what is over and proposes to forget it.
type Collector struct {
	store    *state.Store
	proposer fsm.Proposer
	ages     *Held
	log      *slog.Logger
}

// New returns a collector.
func New(store *state.Store, p fsm.Proposer, ages *Held, log *slog.Logger) *Collector {
	return &Collector{store: store, proposer: p, ages: ages, log: log}
}

// Held are ages that may change while a collector runs.
type Held struct {
	mu      sync.Mutex
	ages    Ages
	changed chan struct{} // closed with the next change
}

// Hold returns ages that are held.
func Hold(ages Ages) *Held { return &Held{ages: ages.filled(), changed: make(chan struct{})} }

// Set has a collector go by other ages from now on, and returns them with the defaults filled in.
func (h *Held) Set(ages Ages) Ages {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ages = ages.filled()
	close(h.changed)
	h.changed = make(chan struct{})
	return h.ages
}

func (h *Held) now() (Ages, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ages, h.changed
}

func (ages Ages) filled() Ages {
	if ages.Evals <= 0 {
		ages.Evals = DefaultAges.Evals
	}
	if ages.Jobs <= 0 {
		ages.Jobs = DefaultAges.Jobs
	}
	if ages.Nodes <= 0 {
		ages.Nodes = DefaultAges.Nodes
	}
	if ages.Deployments <= 0 {
		ages.Deployments = DefaultAges.Deployments
	}
	if ages.Every <= 0 {
		ages.Every = DefaultAges.Every
	}
	ages.Most = ages.Most.filled()
	return ages
}

func (m Most) filled() Most {
	m.Jobs = cmp.Or(m.Jobs, DefaultMost.Jobs)
	m.Allocs = cmp.Or(m.Allocs, DefaultMost.Allocs)
	m.Evals = cmp.Or(m.Evals, DefaultMost.Evals)
	m.Text = cmp.Or(m.Text, DefaultMost.Text)
	return m
}

// Run collects by age and by number until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	ages, changed := c.ages.now()
	tick, count := time.NewTicker(ages.Every), time.NewTicker(everyCount)
	defer tick.Stop()
	defer count.Stop()
	for {
		by := ages
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			ages, changed = c.ages.now()
			tick.Reset(ages.Every)
			continue
		case <-tick.C:
		case <-count.C:
			by = Ages{Evals: forever, Jobs: forever, Nodes: forever, Most: ages.Most}
			by.Deployments = forever
		}
		err := errors.Join(c.expireTokens(ctx), c.expireDepartures(ctx, time.Now()),
			c.collectDeployments(ctx, by.Deployments))
		if _, failed := c.collect(ctx, by); failed != nil {
			err = failed
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("collecting what is over failed; trying again at the next round", logkey.Error, err)
		}
	}
}

const forever = time.Duration(math.MaxInt64)

// Force collects everything that is over, however young, and returns the index at which that was done. Nodes go where a
// person could purge them: no day has passed.
func (c *Collector) Force(ctx context.Context) (uint64, error) {
	if err := c.collectDeployments(ctx, 0); err != nil {
		return 0, err
	}
	return c.collect(ctx, Ages{})
}

// collect goes over the state until a round finds nothing more: what one round removes may free what the next finds.
func (c *Collector) collect(ctx context.Context, ages Ages) (uint64, error) {
	for {
		snap := c.store.Snapshot()
		cmd := find(snap, ages, time.Now())
		if len(cmd.Evals)+len(cmd.Allocs)+len(cmd.Jobs)+len(cmd.Nodes) == 0 {
			return snap.Index(), nil
		}
		done, index, err := fsm.Propose[collection.Collected](ctx, c.proposer, cmd)
		if err != nil {
			return 0, err
		}
		c.log.Debug("forgot what is over", "evals", done.Evals, "allocs", done.Allocs, "jobs", done.Jobs, "nodes",
			done.Nodes)
		if done == (collection.Collected{}) {
			return index, nil
		}
	}
}

// candidate is something that is over, and when that was, in nanoseconds since the epoch.
type candidate[T any] struct {
	name T
	at   int64
	text int // bytes of its files
}

// excess picks what is older than age, and the oldest of what is beyond the bounds.
func excess[T any](over []candidate[T], now time.Time, age time.Duration, most, text int) (out []T) {
	slices.SortStableFunc(over, func(a, b candidate[T]) int { return cmp.Compare(b.at, a.at) })
	sum := 0
	for i, c := range over {
		if sum += c.text; i >= most || sum > text || now.UnixNano()-c.at >= int64(age) {
			out = append(out, c.name)
		}
	}
	slices.Reverse(out) // the oldest first
	return out[:min(len(out), maxBatch)]
}

func find(s *state.Snap, ages Ages, now time.Time) *collection.Collect {
	cmd := &collection.Collect{}
	var jobs []candidate[collection.JobName]
	for j := range s.Jobs(nil, wire.AllNamespaces, "") {
		if k := (collection.JobName{Namespace: j.Namespace, Job: j.ID}); collection.JobOver(s, k) {
			c := candidate[collection.JobName]{name: k, at: jobTouched(s, k)}
			for sub := range s.Submissions(nil, k.Namespace, k.Job) {
				c.text += len(sub.Source) + len(sub.Variables)
			}
			jobs = append(jobs, c)
		}
	}
	cmd.Jobs = excess(jobs, now, ages.Jobs, ages.Most.Jobs, ages.Most.Text)
	var allocs []candidate[ids.Alloc]
	for a := range s.Allocs(nil, "") {
		if collection.AllocOver(s, a) {
			allocs = append(allocs, candidate[ids.Alloc]{name: a.ID, at: a.ModifyTime})
		}
	}
	cmd.Allocs = excess(allocs, now, ages.Evals, ages.Most.Allocs, math.MaxInt)
	going := map[ids.Alloc]bool{}
	for _, id := range cmd.Allocs {
		going[id] = true
	}
	var evals []candidate[ids.Eval]
	for e := range s.Evals(nil, "") {
		if e.Terminal() && !needed(s, e.ID, going) {
			evals = append(evals, candidate[ids.Eval]{name: e.ID, at: e.ModifyTime})
		}
	}
	cmd.Evals = excess(evals, now, ages.Evals, ages.Most.Evals, math.MaxInt)
	for n := range s.Nodes(nil, "") {
		if n.Status == node.StatusDown && now.Unix()-n.StatusUpdatedAt >= int64(ages.Nodes/time.Second) &&
			collection.NodeOver(s, n.ID) && (ages.Nodes > 0 || len(departure.Obstacles(s, n)) == 0) {
			cmd.Nodes = append(cmd.Nodes, n.ID)
		}
	}
	return cmd
}

// jobTouched is the time of the last change of anything of a job, in nanoseconds since the epoch.
func jobTouched(s *state.Snap, k collection.JobName) int64 {
	last := int64(0)
	if j := s.Job(nil, k.Namespace, k.Job); j != nil {
		last = j.SubmitTime
	}
	for a := range s.AllocsByJob(nil, k.Namespace, k.Job) {
		last = max(last, a.ModifyTime)
	}
	for e := range s.EvalsByJob(nil, k.Namespace, k.Job) {
		last = max(last, e.ModifyTime)
	}
	return last
}

// needed tells whether an alloc that stays was made by the evaluation: people follow the one to the other.
func needed(s *state.Snap, id ids.Eval, going map[ids.Alloc]bool) bool {
	for a := range s.AllocsByEval(nil, id) {
		if !going[a.ID] {
			return true
		}
	}
	return false
}
