package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/api"
	"berth/internal/base/retry"
	"berth/tools/chaos/task"
)

// action is something that may be drawn.
type action struct {
	weight int
	can    func(*play) bool // nil: always
	do     func(*play, context.Context, int) error
}

// table is what there is to draw from.
var table = []action{
	{weight: 5, do: (*play).killAgent},
	{weight: 2, do: (*play).restartAgent},
	{weight: 2, do: (*play).freezeAgent},
	{weight: 3, do: (*play).killShim},
	{weight: 3, do: (*play).killTask},
	{weight: 2, do: (*play).killPlugin},
	{weight: 2, do: (*play).killMany},
	{weight: 4, do: (*play).stopJob},
	{weight: 3, do: (*play).purgeJob},
	{weight: 5, do: (*play).runJob},
	{weight: 4, do: (*play).updateJob},
	{weight: 2, do: (*play).scale},
	{weight: 2, do: (*play).restartAlloc},
	{weight: 2, do: (*play).stopAlloc},
	{weight: 3, do: (*play).expand},
	{weight: 3, can: (*play).mayRefuse, do: (*play).deleteInUse},
	{weight: 2, do: (*play).remake},
	{weight: 2, do: (*play).rename},
	{weight: 2, do: (*play).replace},
	{weight: 3, can: func(p *play) bool { return len(p.snaps) < 3 }, do: (*play).snapshot},
	{weight: 2, can: func(p *play) bool { return len(p.snaps) > 0 }, do: (*play).deleteSnapshot},
	{weight: 2, can: func(p *play) bool { return len(p.snaps) > 0 && p.living() < 4 }, do: (*play).restore},
	{weight: 2, can: func(p *play) bool { return p.living() < 4 }, do: (*play).clone},
	{weight: 2, can: func(p *play) bool { return p.living() > 0 }, do: (*play).dropCopy},
	{weight: 1, do: (*play).gc},
}

func (p *play) draw() action {
	var can []action
	for _, a := range table {
		if a.can == nil || a.can(p) {
			for range a.weight {
				can = append(can, a)
			}
		}
	}
	return can[p.rng.IntN(len(can))]
}

// some draws one of the jobs that stay through a run.
func (p *play) some(match func(*job) bool) *job {
	var of []*job
	for _, j := range p.jobs {
		if !j.check && (match == nil || match(j)) {
			of = append(of, j)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[p.rng.IntN(len(of))]
}

func (p *play) pause(ctx context.Context, most int) time.Duration {
	d := time.Duration(p.rng.IntN(most)) * time.Millisecond
	retry.Sleep(ctx, d)
	return d
}

func (p *play) killAgent(ctx context.Context, round int) error {
	report(round, "kill the agent")
	if err := p.m.kill(); err != nil {
		return err
	}
	if p.rng.IntN(3) == 0 {
		p.pause(ctx, 3000)
	}
	return p.m.start()
}

func (p *play) restartAgent(_ context.Context, round int) error {
	report(round, "restart the agent in order")
	if err := p.m.stop(); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return p.m.start()
}

// freezeAgent stops the agent's clock for a while; at times it is killed before it runs again.
func (p *play) freezeAgent(ctx context.Context, round int) error {
	report(round, "freeze the agent")
	if err := p.m.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.pause(ctx, 5000)
	if p.rng.IntN(3) == 0 {
		report(round, "kill the frozen agent")
		return errors.Join(p.m.kill(), p.m.start())
	}
	return p.m.signal(syscall.SIGCONT)
}

// victim draws an alloc of a job that is to run; nil: there is none just now.
func (p *play) victim(ctx context.Context) (*api.AllocationListStub, error) {
	j := p.some(func(j *job) bool { return j.count > 0 })
	which := p.rng.IntN(4)
	if j == nil {
		return nil, nil
	}
	if err := p.m.awake(ctx, p.opts.bound()); err != nil {
		return nil, err
	}
	all, _, err := p.m.api.Jobs().Allocations(ctx, j.id, true, nil)
	if api.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the allocs of %s: %w", j.id, err)
	}
	all = slices.DeleteFunc(all, func(a *api.AllocationListStub) bool { return over(a) })
	if len(all) == 0 {
		return nil, nil
	}
	return all[which%len(all)], nil
}

func (p *play) killOf(ctx context.Context, round int, what string, find func(string) (int, error)) error {
	a, err := p.victim(ctx)
	if err != nil || a == nil {
		return err
	}
	pid, err := find(a.ID)
	if err != nil || pid == 0 {
		return err
	}
	report(round, "kill %s of %s (alloc %.8s, process %d)", what, a.JobID, a.ID, pid)
	return killProcess(pid)
}

func (p *play) killShim(ctx context.Context, round int) error {
	return p.killOf(ctx, round, "the shim", p.m.shim)
}

func (p *play) killTask(ctx context.Context, round int) error {
	return p.killOf(ctx, round, "the task", p.m.task)
}

func (p *play) killPlugin(_ context.Context, round int) error {
	pid, err := p.m.plugin()
	if err != nil || pid == 0 {
		return err
	}
	report(round, "kill the storage plugin (process %d)", pid)
	return killProcess(pid)
}

// killMany kills the agent and, while it is away, a shim, the plugin or a task, or all of them.
func (p *play) killMany(_ context.Context, round int) error {
	report(round, "kill the agent and more")
	if err := p.m.kill(); err != nil {
		return err
	}
	all, err := p.m.processes()
	if err != nil {
		return err
	}
	for _, kind := range []string{"berth-shim", "chaos", "plugin"} {
		if p.rng.IntN(3) == 0 {
			continue
		}
		for _, v := range all {
			if strings.Contains(strings.Join(v.args[:min(2, len(v.args))], " "), kind) {
				report(round, "kill %s", v)
				if err := killProcess(v.pid); err != nil {
					return err
				}
				break
			}
		}
	}
	return p.m.start()
}

func (p *play) stopJob(ctx context.Context, round int) error {
	j := p.some(nil)
	p.touched[j.id] = true
	j.count, j.purged = 0, false
	return p.ordered(ctx, round, "stop "+j.id, func(ctx context.Context) error { return p.deregister(ctx, j) })
}

func (p *play) purgeJob(ctx context.Context, round int) error {
	j := p.some(nil)
	p.touched[j.id] = true
	j.count, j.purged = 0, true
	return p.ordered(ctx, round, "purge "+j.id, func(ctx context.Context) error { return p.deregister(ctx, j) })
}

// runJob runs what does not run; a batch runs once more.
func (p *play) runJob(ctx context.Context, round int) error {
	j := p.some(func(j *job) bool { return j.count == 0 || j.batch })
	if j == nil || !j.volumeExists() {
		return nil
	}
	p.touched[j.id] = true
	j.count, j.purged = 1, false
	j.change++
	return p.ordered(ctx, round, "run "+j.id, func(ctx context.Context) error { return p.register(ctx, j) })
}

func (j *job) volumeExists() bool { return j.volume == nil || j.volume.exists }

func (p *play) updateJob(ctx context.Context, round int) error {
	j := p.some(func(j *job) bool { return j.count > 0 && !j.batch })
	if j == nil {
		return nil
	}
	j.change++
	p.touched[j.id] = true
	return p.ordered(ctx, round, "update "+j.id, func(ctx context.Context) error { return p.register(ctx, j) })
}

func (p *play) scale(ctx context.Context, round int) error {
	j, count := p.job("pair"), 1+p.rng.IntN(3)
	p.touched[j.id] = true
	j.count, j.purged = count, false
	what := fmt.Sprintf("run %d of pair", count)
	return p.ordered(ctx, round, what, func(ctx context.Context) error { return p.register(ctx, j) })
}

func (p *play) restartAlloc(ctx context.Context, round int) error {
	a, err := p.victim(ctx)
	if err != nil || a == nil {
		return err
	}
	report(round, "restart alloc %.8s of %s", a.ID, a.JobID)
	// One that is just starting or ending refuses, which is its right.
	if err := p.m.api.Allocations().Restart(ctx, a.ID, &api.AllocRestartRequest{}, nil); err != nil {
		report(round, "refused: %s", err)
	}
	return nil
}

func (p *play) stopAlloc(ctx context.Context, round int) error {
	a, err := p.victim(ctx)
	if err != nil || a == nil || a.JobType == api.JobTypeBatch { // a stopped batch is not replaced
		return err
	}
	p.touched[a.JobID] = true
	report(round, "stop alloc %.8s of %s", a.ID, a.JobID)
	if _, _, err := p.m.api.Allocations().Stop(ctx, a.ID, false, nil); err != nil {
		report(round, "refused: %s", err)
	}
	return nil
}

func (p *play) expand(ctx context.Context, round int) error {
	v := *p.job("grow").volume
	if v.size > 96<<20 || !v.exists {
		return nil
	}
	v.size += 4 << 20
	p.job("grow").volume.size = v.size
	what := fmt.Sprintf("expand grow to %d MiB", v.size>>20)
	return p.ordered(ctx, round, what, func(ctx context.Context) error {
		return order(ctx, what, func(ctx context.Context) error {
			_, _, err := p.m.api.Volumes().Expand(ctx, v.id, &api.CSIVolumeExpandRequest{CapacityMin: v.size}, nil)
			return err
		})
	})
}

// mayRefuse says whether a volume is in use for certain.
func (p *play) mayRefuse() bool { return p.used() != nil }

func (p *play) used() *job {
	for _, j := range p.jobs {
		if j.volume != nil && !j.batch && j.count > 0 && !p.touched[j.id] {
			return j
		}
	}
	return nil
}

// deleteInUse orders what must be refused.
func (p *play) deleteInUse(ctx context.Context, round int) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	j := p.used()
	report(round, "delete volume %s, which is in use", j.volume.id)
	for deadline := time.Now().Add(patience); ; {
		err := p.m.api.Volumes().Delete(ctx, j.volume.id, nil, 0, nil)
		var answer *api.StatusError
		switch {
		case err == nil:
			return fmt.Errorf("volume %s was deleted while job %s uses it", j.volume.id, j.id)
		case errors.As(err, &answer) && strings.Contains(answer.Body, "in use"):
			return nil
		case time.Now().After(deadline) || ctx.Err() != nil:
			return fmt.Errorf("volume %s, which is in use, was not deleted for another reason: %w", j.volume.id, err)
		}
		retry.Sleep(ctx, 100*time.Millisecond)
	}
}

// remake stops a volume's job, deletes the volume, makes another one of the same name, and runs the job again.
func (p *play) remake(ctx context.Context, round int) error {
	j := p.some(func(j *job) bool { return j.volume != nil })
	p.touched[j.id] = true
	// Its lines are of another life from here on.
	old := *j.volume
	next := old
	next.size, next.life = 32<<20, old.life+1
	*j.volume = next
	j.count, j.purged = 1, false
	j.change++
	stop, run := *j, *j
	return p.ordered(ctx, round, "stop "+j.id+", delete its volume, make both anew", func(ctx context.Context) error {
		if err := p.deregister(ctx, &stop); err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return p.remove(ctx, &old) },
			func() error { return p.create(ctx, &next) },
			func() error { return p.register(ctx, &run) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// rename stops a volume's job, forgets the volume, makes it known by another id, and runs the job with that.
func (p *play) rename(ctx context.Context, round int) error {
	j := p.some(func(j *job) bool { return j.volume != nil })
	p.touched[j.id] = true
	old := *j.volume
	if j.volume.id = j.volume.name; old.id == old.name {
		j.volume.id += "-again"
	}
	next := *j.volume
	j.count, j.purged = 1, false
	j.change++
	stop, run := *j, *j
	run.volume = &next
	what := fmt.Sprintf("stop %s, forget its volume %s, register that as %s, run %s", j.id, old.id, next.id, j.id)
	return p.ordered(ctx, round, what, func(ctx context.Context) error {
		if err := p.deregister(ctx, &stop); err != nil {
			return err
		}
		if err := p.rekey(ctx, &old, &next); err != nil {
			return err
		}
		return p.register(ctx, &run)
	})
}

// replace purges a job and runs it again at once.
func (p *play) replace(ctx context.Context, round int) error {
	j := p.some(func(j *job) bool { return j.volumeExists() })
	p.touched[j.id] = true
	j.count, j.purged = 1, false
	j.change++
	run := *j
	stop := *j
	stop.purged = true
	return p.ordered(ctx, round, "purge "+j.id+" and run it at once", func(ctx context.Context) error {
		if err := p.deregister(ctx, &stop); err != nil {
			return err
		}
		return p.register(ctx, &run)
	})
}

func (p *play) gc(ctx context.Context, round int) error {
	return p.ordered(ctx, round, "collect garbage", func(ctx context.Context) error {
		return order(ctx, "collect garbage", p.m.api.Cluster().CollectGarbage)
	})
}

// acked is how many lines of a name were acknowledged.
func (p *play) acked(lines string) (uint64, error) {
	return task.Acknowledged(filepath.Join(p.m.rig, lines+".ack"))
}
