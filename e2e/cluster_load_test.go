package e2e

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/jobspec"
)

// load is a client that registers small jobs and stops them again, by way of whichever agent answers.
type load struct {
	c    *cluster
	end  context.CancelFunc
	done chan error
	// acknowledged are the jobs whose registration was, in order, and the number of those whose stop was.
	acknowledged []string
	stopped      int
	asked        int // the machine that is asked first: the last one that has answered
}

// loads begins the client's work.
func (c *cluster) loads() *load {
	ctx, cancel := context.WithCancel(c.t.Context())
	l := &load{c: c, end: cancel, done: make(chan error, 1)}
	c.t.Cleanup(cancel)
	go func() { l.done <- l.work(ctx) }()
	return l
}

// running jobs of the client at a time, and its pause, which keeps a small machine from being busy with it alone.
const (
	loadRuns  = 4
	loadPause = 100 * time.Millisecond
)

func (l *load) work(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("load-%d", i)
		job, err := jobspec.Parse(jobspec.ParseConfig{Path: "load.nomad.hcl", Source: []byte(plain(id))})
		if err != nil {
			return err
		}
		if l.asks(ctx, func(ctx context.Context, jobs api.Jobs) error {
			_, _, err := jobs.Register(ctx, &api.JobRegisterRequest{Job: job}, nil)
			return err
		}) {
			l.acknowledged = append(l.acknowledged, id)
		}
		if len(l.acknowledged)-l.stopped > loadRuns && l.asks(ctx, func(ctx context.Context, jobs api.Jobs) error {
			_, _, err := jobs.Deregister(ctx, l.acknowledged[l.stopped], api.JobDeregisterOptions{}, nil)
			return err
		}) {
			l.stopped++
		}
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
		}
	}
	return nil
}

// asks asks one agent after the other until one has acknowledged; false: the load ends.
func (l *load) asks(ctx context.Context, what func(context.Context, api.Jobs) error) bool {
	for ; ctx.Err() == nil; l.asked++ {
		// It runs out where an agent is away: then the next is asked.
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := what(try, l.c.machines[l.asked%len(l.c.machines)].api.Jobs())
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// over ends the client, and wants everything that was acknowledged: what it has not stopped runs, in the one allocation
// that was made for it, never started anew, and what it has stopped is there as stopped.
func (l *load) over() {
	l.c.t.Helper()
	l.end()
	must(l.c.t, <-l.done)
	if l.stopped == 0 {
		l.c.t.Error("the load has stopped no job, so that it was none")
	}
	l.c.t.Logf("%d registrations were acknowledged, and %d stops", len(l.acknowledged), l.stopped)
	m := l.c.m()
	for i, id := range l.acknowledged {
		job, _, err := m.api.Jobs().Get(l.c.t.Context(), id, nil)
		if err != nil {
			l.c.t.Errorf("the registration of %s was acknowledged: %v", id, err)
			continue
		}
		if i < l.stopped {
			if job.Stop == nil || !*job.Stop {
				l.c.t.Errorf("the stop of %s was acknowledged, and it is not stopped", id)
			}
			m.ended(id)
			continue
		}
		a := m.running(id, 1)[0]
		if all := m.now(id); len(all) != 1 || a.TaskStates["sleep"].Restarts != 0 {
			l.c.t.Errorf("%s has %d allocations, and was restarted %d times", id, len(all),
				a.TaskStates["sleep"].Restarts)
		}
		m.stopJob(id)
	}
}
