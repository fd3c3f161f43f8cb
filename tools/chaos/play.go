package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/tools/chaos/task"
)

// snapshot is what was ordered of one.
type snapshot struct {
	id    string // the provider's
	lines string // whose lines it has; empty: nobody knows, its request was given up
	least uint64 // how many of them were acknowledged before it was made

}

// play is one run: what was ordered so far, and what is drawn next.
type play struct {
	m       *machine
	opts    options
	rng     *rand.Rand
	jobs    []*job
	volumes []*volume
	snaps   []*snapshot
	copies  int // how many there ever were, for names
	doubts  int // requests for snapshots whose answers were lost: each may have made one

	pending *lifecycle.Group // an order under way, to be joined before the next one
	touched map[string]bool  // jobs that were ordered about in this round
	actions int
	slowest time.Duration
}

func newPlay(m *machine, o options) *play {
	return &play{m: m, opts: o, rng: rand.New(rand.NewPCG(o.seed, o.seed))}
}

// end waits for what is under way.
func (p *play) end() {
	if p.pending != nil {
		p.pending.Stop()
		_ = p.pending.Wait() // the run is over: its own error is the one that tells
	}
}

func (p *play) job(id string) *job {
	i := slices.IndexFunc(p.jobs, func(j *job) bool { return j.id == id })
	return p.jobs[i]
}

// prologue starts the agent, makes the volumes and runs the jobs.
func (p *play) prologue(ctx context.Context) error {
	if err := p.m.awake(ctx, patience); err != nil {
		return err
	}
	for _, v := range []*volume{
		{id: "solo", access: single},
		{id: "pair", access: multi},
		{id: "grow", access: single},
		{id: "batch", access: single},
	} {
		v.name = v.id
		v.size = 32 << 20
		v.life = 1
		v.exists = true
		if err := p.create(ctx, v); err != nil {
			return err
		}
		p.volumes = append(p.volumes, v)
		p.jobs = append(p.jobs, &job{id: v.id, volume: v, count: 1, batch: v.id == "batch"})
	}
	p.job("pair").count = 2
	p.jobs = append(p.jobs, &job{id: "plain", count: 1})
	for _, j := range p.jobs {
		if err := p.register(ctx, j); err != nil {
			return err
		}
	}
	_, err := p.settle(ctx)
	return err
}

// round plays a few actions and waits until all is as it was ordered.
func (p *play) round(ctx context.Context, n int) error {
	p.touched = map[string]bool{}
	for range 1 + p.rng.IntN(4) {
		a := p.draw()
		p.actions++
		if err := a.do(p, ctx, n); err != nil {
			return err
		}
		if pause := p.rng.IntN(4); pause > 0 {
			retry.Sleep(ctx, time.Duration(p.rng.IntN(400*pause))*time.Millisecond)
		}
	}
	took, err := p.settle(ctx)
	if err != nil {
		return err
	}
	p.slowest = max(p.slowest, took)
	say("round %d: at rest after %s", n, took.Round(10*time.Millisecond))
	return nil
}

// report says what is done in a round.
func report(round int, format string, args ...any) {
	say("round %d: %s", round, fmt.Sprintf(format, args...))
}

// ordered gives an order, at times in the background, so that what follows falls into its middle. One is under way at
// a time, for of two nobody could tell which the agent took last.
func (p *play) ordered(ctx context.Context, round int, what string, fn func(context.Context) error) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	if p.rng.IntN(2) == 0 {
		report(round, "%s", what)
		return fn(ctx)
	}
	report(round, "%s, without waiting for the answer", what)
	var in context.Context
	p.pending, in = lifecycle.NewGroup(ctx)
	p.pending.Go(what, func() error { return fn(in) })
	if pause := p.rng.IntN(300); pause > 30 {
		retry.Sleep(ctx, time.Duration(pause)*time.Millisecond)
	}
	return nil
}

// join waits for the order under way, for which an agent must run.
func (p *play) join(ctx context.Context) error {
	if err := p.m.awake(ctx, p.opts.bound()); err != nil {
		return err
	}
	if p.pending == nil {
		return nil
	}
	err := p.pending.Wait()
	p.pending = nil
	return err
}

// epilogue stops and deletes everything, and looks for what is left.
func (p *play) epilogue(ctx context.Context) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	say("the end: everything is checked, stopped and deleted")
	if err := p.checkAll(ctx); err != nil {
		return err
	}
	for _, j := range p.jobs {
		j.count, j.purged = 0, true
		if err := p.deregister(ctx, j); err != nil {
			return err
		}
	}
	for _, s := range p.snaps {
		if err := p.dropSnapshot(ctx, s); err != nil {
			return err
		}
	}
	p.snaps = nil
	for _, v := range p.volumes {
		if v.exists {
			if err := p.remove(ctx, v); err != nil {
				return err
			}
			v.exists = false
		}
	}
	if _, err := p.settle(ctx); err != nil {
		return err
	}
	if err := p.forget(ctx); err != nil {
		return err
	}
	if err := p.m.stop(); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	// Only the end of an agent for trying out ends the storage plugin, too.
	if err := p.m.start("-dev"); err != nil {
		return err
	}
	if err := p.m.awake(ctx, patience); err != nil {
		return err
	}
	if err := p.m.stop(); err != nil {
		return fmt.Errorf("stop the agent for good: %w", err)
	}
	left, err := p.m.left()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
	}
	return p.violated()
}

// forget has garbage collected, and waits until the directories of the allocs are gone.
func (p *play) forget(ctx context.Context) error {
	for begun := time.Now(); ; {
		if err := order(ctx, "collect garbage", p.m.api.Cluster().CollectGarbage); err != nil {
			return err
		}
		retry.Sleep(ctx, 250*time.Millisecond)
		left, err := p.m.forgotten()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Since(begun) > p.opts.bound() || ctx.Err() != nil {
			return fmt.Errorf("directories of allocs that were collected as garbage:\n  %s", strings.Join(left, "\n  "))
		}
	}
}

// checkAll has every volume that was written read once more, by jobs that take the writers' places.
func (p *play) checkAll(ctx context.Context) error {
	var checks []*job
	for _, j := range p.jobs {
		if j.volume == nil || j.check || !j.volume.exists {
			continue
		}
		j.count = 0
		if err := p.deregister(ctx, j); err != nil {
			return err
		}
		names := []string{j.volume.lines()}
		if j.volume.access != single {
			names = []string{j.volume.lines() + "-0"}
		}
		for _, name := range names {
			least, err := task.Acknowledged(filepath.Join(p.m.rig, name+".ack"))
			if err != nil {
				return err
			}
			c := &job{
				id:     "last-" + j.id,
				volume: j.volume,
				count:  1,
				batch:  true,
				check:  true,
				source: name,
				least:  least,
			}
			checks = append(checks, c)
			if err := p.register(ctx, c); err != nil {
				return err
			}
		}
	}
	p.jobs = append(p.jobs, checks...)
	_, err := p.settle(ctx)
	return err
}

// violated tells what tasks have found that must never be.
func (p *play) violated() error {
	text, err := os.ReadFile(filepath.Join(p.m.rig, task.Violations))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("tasks found what must never be:\n%s", text))
}

// lines is how many were acknowledged in all.
func (p *play) lines() (sum uint64) {
	files, _ := filepath.Glob(filepath.Join(p.m.rig, "*.ack")) // the pattern is well-formed
	for _, f := range files {
		n, err := task.Acknowledged(f)
		if err != nil {
			return 0
		}
		sum += n
	}
	return sum
}
