package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
	"berth/internal/cli/rollout"
)

// releasePause is how long the release of storage is waited for after the last task has ended.
const releasePause = 10 * time.Second

// Stopped follows the stop of a job until its tasks have ended and what they used is free. A job whose tasks have ended
// is stopped; that its storage takes its time is reported, and not waited for longer than a while.
func (f *Follower) Stopped(ctx context.Context, job kit.Ref, eval string, purged bool) error {
	if _, err := f.Evaluation(ctx, eval, job.Namespace); err != nil {
		return err
	}
	reported := map[string]bool{}
	var left, silent []*api.AllocationListStub
	var ended time.Time // when the last task had
	err := Watch(ctx, job.Namespace, func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		list, meta, err := f.Client.Jobs().Allocations(ctx, job.ID, true, o)
		if err != nil {
			return false, nil, kit.Doing(err, "follow", "job", job.ID)
		}
		silent = slices.DeleteFunc(slices.Clone(list), func(a *api.AllocationListStub) bool { return !lost(a) })
		left = slices.DeleteFunc(list, func(a *api.AllocationListStub) bool {
			going := a.Phase() == api.AllocPhaseStopping || a.Phase() == api.AllocPhaseReleasing
			return a.DesiredStatus == api.AllocDesiredStatusRun || !going
		})
		stopping := false
		for _, a := range left {
			stopping = stopping || a.Phase() == api.AllocPhaseStopping
			if text := (&rollout.Group{}).Waiting(a, time.Now()); !reported[a.ID+text] {
				reported[a.ID+text] = true
				f.line("Allocation %q %s", f.id(a.ID), text)
			}
		}
		o.WaitTime = 0
		if stopping || len(left) == 0 {
			return len(left) == 0, meta, nil
		}
		if ended.IsZero() {
			ended = time.Now()
		}
		o.WaitTime = max(releasePause-time.Since(ended), time.Millisecond)
		return time.Since(ended) >= releasePause, meta, nil
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth job status "+job.Typed())
	}
	verb := "stopped"
	if purged {
		verb = "stopped and forgotten"
	}
	f.Env.Out.Printf("%s\n", kit.Clean(fmt.Sprintf("Job %q %s", job.ID, verb)))
	for _, a := range append(left, silent...) {
		if err := f.notFree(ctx, job.ID, a, (&rollout.Group{}).Waiting(a, time.Now())); err != nil {
			return err
		}
	}
	return nil
}
