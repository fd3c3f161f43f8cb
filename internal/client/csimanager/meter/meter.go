// Package meter owns what the plugins of this node say of the volumes that are published here: how full each is, and
// in which condition, which for a file system that is dead the node says itself. It asks again and again, and keeps the
// last answers in memory alone: they are shown, and decide nothing. Only the client's composition imports it.
package meter

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/retry"
	"berth/internal/client/csimanager"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// DefaultPeriod is how often a volume is measured, unless the configuration says otherwise.
const DefaultPeriod = time.Minute

// Bounds of measuring. A plugin may not stop at a question that was given up, so that one which hangs is asked less and
// less often.
const (
	deadline    = 10 * time.Second // of one question
	parallel    = 4                // questions to one plugin at once
	busyPause   = 2 * time.Second  // after another call of the volume had the right of way
	longestRest = 15 * time.Minute // after failures
)

// Volumes is what is measured; the node keeper implements it.
type Volumes interface {
	// Published lists what allocs of this node use.
	Published() []csimanager.PublishedVolume
	// Measure asks the plugin. Busy: another call of the volume had the right of way.
	Measure(ctx context.Context, key volume.StagingKey) (csi.Stats, error)
}

// Tasks hears of conditions; the client's allocs implement it.
type Tasks interface {
	// VolumeCondition tells the tasks that use an alloc's volume in which condition it is. To say the same again
	// changes nothing.
	VolumeCondition(alloc ids.Alloc, alias string, c volume.Condition)
}

// Config wires a meter.
type Config struct {
	Volumes Volumes
	Tasks   Tasks
	// Dead says of which volumes in use the file system is dead, why, and what is to be done.
	Dead func() (map[volume.StagingKey]string, error)
	// AtOnce is how many calls of a kind a plugin takes at once; 0: it does not say it.
	AtOnce func(ids.Plugin) int
	Period time.Duration // 0: DefaultPeriod
	Log    *slog.Logger
}

// Meter measures.
type Meter struct {
	cfg      Config
	loop     *reconcile.Loop[volume.StagingKey]
	mu       sync.Mutex
	readings map[volume.StagingKey]*reading
}

// reading is what is known of one volume.
type reading struct {
	of       csimanager.PublishedVolume
	last     volume.Measured
	dead     string             // why its file system is; empty: the mount table shows nothing of that
	answered bool               // the plugin has, or is known to say nothing
	failures int                // in a row
	heard    map[ids.Alloc]bool // abnormal or not, as each alloc heard last
}

// New returns a meter that measures nothing before Run.
func New(cfg Config) *Meter {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	m := &Meter{cfg: cfg, readings: map[volume.StagingKey]*reading{}}
	m.loop = reconcile.New(reconcile.Config{Name: "volume usage", Parallel: parallel}, m.measure).
		GroupBy(func(key volume.StagingKey) string { return string(key.Plugin) }).
		ParallelBy(func(id string) int { return min(parallel, cfg.AtOnce(ids.Plugin(id))) })
	return m
}

// Run measures until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"measure": m.loop.Run, "look": m.look})
}

// look takes up what was published, and drops what is not any more. It finds the file systems that have died.
func (m *Meter) look(ctx context.Context) error {
	for retry.Sleep(ctx, jittered(min(m.cfg.Period, DefaultPeriod)/4)) {
		m.follow(m.cfg.Volumes.Published())
		dead, err := m.cfg.Dead()
		if err != nil {
			m.cfg.Log.Error("it is not known whether the file systems of volumes live", logkey.Error, err)
			continue
		}
		m.tell(m.find(dead))
	}
	return nil
}

func jittered(d time.Duration) time.Duration { return retry.Backoff{Min: d, Max: d}.Jittered(1) }

// find notes which file systems are dead, and returns which allocs have not heard of it.
func (m *Meter) find(dead map[volume.StagingKey]string) map[ids.Alloc]news {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[ids.Alloc]news{}
	for key, r := range m.readings {
		if dead[key] != "" && r.dead == "" {
			m.cfg.Log.Warn("the file system of a volume in use is dead", logkey.Plugin, key.Plugin, logkey.Volume,
				key.ExternalID, "reason", dead[key])
		}
		r.dead = dead[key]
		maps.Copy(out, r.unheard())
	}
	return out
}

func (m *Meter) tell(unheard map[ids.Alloc]news) {
	for id, n := range unheard {
		m.cfg.Tasks.VolumeCondition(id, n.alias, n.condition)
	}
}

func (m *Meter) follow(list []csimanager.PublishedVolume) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[volume.StagingKey]bool{}
	for _, v := range list {
		there[v.Key] = true
		r := m.readings[v.Key]
		if r == nil {
			r = &reading{heard: map[ids.Alloc]bool{}}
			m.readings[v.Key] = r
			m.loop.Mark(v.Key)
		}
		r.of = v
		maps.DeleteFunc(r.heard, func(id ids.Alloc, _ bool) bool { _, uses := v.Users[id]; return !uses })
	}
	for key := range m.readings {
		if !there[key] {
			delete(m.readings, key)
			m.loop.Forget(key)
		}
	}
}

// measure measures one volume and says when it is measured next.
func (m *Meter) measure(ctx context.Context, key volume.StagingKey) (reconcile.Result, error) {
	qctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	out, err := m.cfg.Volumes.Measure(qctx, key)
	if ctx.Err() != nil {
		return reconcile.Done(), ctx.Err()
	}
	next, unheard := m.take(key, out, err)
	m.tell(unheard)
	return reconcile.Again(next, "it is measured then"), nil
}

// news is what an alloc has not heard.
type news struct {
	alias     string
	condition volume.Condition
}

// take keeps an answer. It returns how long the volume rests, and which allocs have not heard in which condition it is.
func (m *Meter) take(key volume.StagingKey, out csi.Stats, err error) (rest time.Duration, tell map[ids.Alloc]news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest = jittered(m.cfg.Period)
	r := m.readings[key]
	switch {
	case r == nil:
		return rest, nil // it is forgotten
	case fault.Has(err, fault.Busy):
		return min(rest, busyPause), nil
	case fault.Has(err, fault.Unsupported):
		r.last, r.failures = volume.Measured{}, 0 // an earlier instance of the plugin may have offered it
		r.answered = true
		return rest, r.unheard()
	case fault.Has(err, fault.NotReady):
		r.last.Error = err.Error()
		return rest, nil
	case err != nil:
		r.last.Error = err.Error()
		if r.failures++; r.failures == 1 {
			m.cfg.Log.Warn("a volume cannot be measured", logkey.Plugin, key.Plugin, logkey.Volume, key.ExternalID,
				logkey.Error, err)
		}
		return retry.Backoff{Min: m.cfg.Period, Max: max(m.cfg.Period, longestRest)}.Jittered(r.failures), nil
	}
	r.failures, r.answered = 0, true
	r.last = volume.Measured{Bytes: amount(out.Bytes), Inodes: amount(out.Inodes), At: time.Now().UTC()}
	if out.Condition != nil {
		r.last.Condition = &volume.Condition{Abnormal: out.Condition.Abnormal, Message: out.Condition.Message}
	}
	return rest, r.unheard()
}

// condition is the volume's: dead if its file system is, else what its plugin says. A plugin that says nothing of it
// leaves it normal, as far as the node sees; nil: it is not known yet.
func (r *reading) condition() *volume.Condition {
	switch {
	case r.dead != "":
		return &volume.Condition{Abnormal: true, Message: r.dead, Seen: true}
	case r.last.Condition == nil && r.answered:
		return &volume.Condition{Seen: true}
	}
	return r.last.Condition
}

// measured is what is shown of the volume: that it is well only when its plugin says so.
func (r *reading) measured() volume.Measured {
	out := r.last
	if r.dead != "" {
		out.Condition = r.condition()
	}
	return out
}

// unheard picks the allocs that have not heard of the condition, and counts them as such that have.
func (r *reading) unheard() map[ids.Alloc]news {
	out := map[ids.Alloc]news{}
	c := r.condition()
	if c == nil {
		return out
	}
	for id, alias := range r.of.Users {
		if was, any := r.heard[id]; !any || was != c.Abnormal {
			r.heard[id] = c.Abnormal
			out[id] = news{alias: alias, condition: *c}
		}
	}
	return out
}

func amount(u *csi.Usage) *volume.Amount {
	if u == nil {
		return nil
	}
	return &volume.Amount{Total: u.Total, Used: u.Used, Available: u.Available}
}

// Reading is what is known of a published volume.
type Reading struct {
	Volume csimanager.PublishedVolume
	volume.Measured
}

// Of tells what is known of one volume; false: it is not published here, or that has not been noticed yet.
func (m *Meter) Of(key volume.StagingKey) (Reading, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.readings[key]
	if r == nil {
		return Reading{}, false
	}
	return Reading{Volume: r.of, Measured: r.measured()}, true
}

// All tells what is known of every published volume, in the order of their names.
func (m *Meter) All() []Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Reading, 0, len(m.readings))
	for _, r := range m.readings {
		out = append(out, Reading{Volume: r.of, Measured: r.measured()})
	}
	slices.SortFunc(out, func(a, b Reading) int {
		return strings.Compare(a.Volume.Volume.String(), b.Volume.Volume.String())
	})
	return out
}
