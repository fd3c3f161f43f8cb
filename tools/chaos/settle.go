package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/retry"
)

// waiting is something that is not as it was ordered, and why, in Berth's words. Without a reason it is unexplained.
type waiting struct {
	what, why string
}

func (w waiting) String() string {
	if w.why == "" {
		return w.what + " (nothing says why)"
	}
	return w.what + ": " + w.why
}

// settle waits until everything is as it was ordered, twice in a row, and tells how long that took.
func (p *play) settle(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	if err := p.join(ctx); err != nil {
		return 0, err
	}
	from := map[string]uint64{}
	for _, j := range p.jobs {
		for _, name := range j.acks() {
			n, err := p.acked(name)
			if err != nil {
				return 0, err
			}
			from[name] = n
		}
	}
	calm := 0
	since := map[waiting]time.Time{}
	for {
		open, err := p.look(ctx, from)
		if err := errors.Join(err, p.violated()); err != nil {
			return 0, err
		}
		took := time.Since(begun)
		switch {
		case len(open) > 0:
			calm = 0
			since = first(open, since)
			if err := p.opts.judge(took, since); err != nil {
				return 0, err
			}
		case calm > 0:
			return took, nil
		default:
			calm++
		}
		if !retry.Sleep(ctx, 250*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// first notes when each of what is waited for was seen first as it is now.
func first(open []waiting, before map[waiting]time.Time) map[waiting]time.Time {
	since := map[waiting]time.Time{}
	for _, w := range open {
		since[w] = time.Now()
		if t, ok := before[w]; ok {
			since[w] = t
		}
	}
	return since
}

// judge says whether the wait is too long. On a quiet machine it may take a fixed time, and what nothing explains half
// of that; on a busy one nothing may stay as it is for that time.
func (o options) judge(took time.Duration, since map[waiting]time.Time) error {
	var out []string
	late := took > max(o.settle, o.busy)
	for w, t := range since {
		out = append(out, w.String())
		still := time.Since(t)
		late = late || still > o.settle || o.busy == 0 && w.why == "" && still > o.settle/2
	}
	if !late {
		return nil
	}
	slices.Sort(out)
	return fmt.Errorf("not at rest after %s:\n  %s", took.Round(time.Second), strings.Join(out, "\n  "))
}

// bound is how long the agent may take to answer.
func (o options) bound() time.Duration { return max(o.settle, o.busy) }

// look compares how things are with what was ordered.
func (p *play) look(ctx context.Context, from map[string]uint64) ([]waiting, error) {
	if err := p.m.awake(ctx, p.opts.bound()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.bound())
	defer cancel()
	allocs, _, err := p.m.api.Allocations().List(ctx, nil)
	if err != nil {
		return []waiting{{"the list of allocs", err.Error()}}, nil
	}
	byJob := map[string][]*api.AllocationListStub{}
	for _, a := range allocs {
		p.m.seen[a.ID] = true
		byJob[a.JobID] = append(byJob[a.JobID], a)
	}
	var out []waiting
	users := map[string][]string{} // volume id: the allocs that have it
	shims := 1                     // that of the plugin
	for _, j := range p.jobs {
		out = append(out, p.lookAtJob(ctx, j, byJob[j.id], from)...)
		for _, a := range byJob[j.id] {
			if !over(a) && j.volume != nil {
				users[j.volume.id] = append(users[j.volume.id], a.ID)
			}
			if !over(a) {
				shims++
			}
		}
		delete(byJob, j.id)
	}
	for id, left := range byJob { // of what was purged
		for _, a := range left {
			if !over(a) {
				out = append(out, waiting{fmt.Sprintf("alloc %.8s of the dropped job %s", a.ID, id), why(a)})
			}
		}
	}
	more, err := p.lookAtStorage(ctx, users)
	if err != nil {
		return nil, err
	}
	if out = append(out, more...); len(out) > 0 {
		return out, nil
	}
	return p.lookAtNode(ctx, users, shims)
}

// over says whether an alloc has ended and holds nothing.
func over(a *api.AllocationListStub) bool {
	if a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending {
		return false
	}
	return a.Phase() != api.AllocPhaseStopping && a.Phase() != api.AllocPhaseReleasing
}

// why tells what an alloc says of itself.
func why(a *api.AllocationListStub) string {
	words := []string{a.DesiredStatus + "/" + a.ClientStatus + "/" + a.Phase()}
	if a.ClientDescription != "" {
		words = append(words, a.ClientDescription)
	}
	if s := a.Standing; s != nil {
		words = append(words, s.Waits, s.Trouble)
	}
	for name, t := range a.TaskStates {
		if n := len(t.Events); n > 0 {
			e := t.Events[n-1]
			words = append(words, fmt.Sprintf("task %s %s: %s", name, t.State, e.DisplayMessage))
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return strings.Join(words, "; ")
}

func (p *play) lookAtJob(
	ctx context.Context, j *job, allocs []*api.AllocationListStub, from map[string]uint64,
) (out []waiting) {
	running, version := 0, uint64(0)
	for _, a := range allocs {
		version = max(version, a.JobVersion)
	}
	for _, a := range allocs {
		good := a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun &&
			a.Phase() == api.AllocPhaseRunning
		switch {
		case good && j.count > 0 && !j.batch:
			running++
		case !over(a):
			out = append(out, waiting{fmt.Sprintf("alloc %.8s of %s", a.ID, j.id), why(a)})
		}
	}
	switch {
	case j.batch && j.count > 0:
		out = append(out, p.lookAtResult(ctx, j)...)
	case running != j.count:
		out = append(out, waiting{fmt.Sprintf("%d of %d of %s run", running, j.count, j.id), p.blocked(ctx, j)})
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range j.acks() {
		if n, err := p.acked(name); err != nil || n <= from[name] {
			out = append(out, waiting{fmt.Sprintf("%s does not grow from %d", name, from[name]), ""})
		}
	}
	return out
}

// lookAtResult reads what a batch wrote when it was done. Its alloc may have been forgotten since.
func (p *play) lookAtResult(ctx context.Context, j *job) []waiting {
	text, err := os.ReadFile(filepath.Join(p.m.rig, j.result()))
	if err != nil || !strings.HasPrefix(string(text), "ok ") {
		return []waiting{{fmt.Sprintf("%s has no result but %q", j.id, text), p.blocked(ctx, j)}}
	}
	return nil
}

// blocked tells why a job has not all that it wants.
func (p *play) blocked(ctx context.Context, j *job) string {
	evals, _, err := p.m.api.Jobs().Evaluations(ctx, j.id, nil)
	if err != nil {
		return "its evaluations: " + err.Error()
	}
	var words []string
	for _, e := range evals {
		if e.Status != api.EvalStatusBlocked && e.Status != api.EvalStatusPending {
			continue
		}
		words = append(words, e.Status+" evaluation "+e.StatusDescription)
		if e.WaitUntil != nil {
			words = append(words, "until "+e.WaitUntil.Format(time.TimeOnly))
		}
		for _, metric := range e.FailedTGAllocs {
			for _, r := range metric.Reasons {
				words = append(words, r.Reason)
			}
		}
	}
	return strings.Join(words, "; ")
}
