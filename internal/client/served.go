package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/allocs"
	"berth/internal/client/checks"
	"berth/internal/client/servers"
	"berth/internal/client/sources"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// served shows the node's allocs to what checks their services.
type served struct {
	*allocs.Allocs
	log *slog.Logger
}

// Served implements checks.Allocs.
func (s served) Served() (out []checks.Served) {
	for _, r := range s.Runners() {
		b := r.Bundle()
		if group := b.Job.Group(b.Alloc.TaskGroup); group == nil || !group.HasServices() {
			continue
		}
		if gone, _ := r.ProcessesGone(); !gone {
			out = append(out, checks.Served{Bundle: b, Network: r.Network(), Tasks: r.TaskStates()})
		}
	}
	return out
}

// readSources asks the servers for what templates read.
func readSources(link *servers.Link) sources.Ask {
	return func(ctx context.Context, of []wire.TaskSources, wait time.Duration) ([]wire.SourcesAnswer, error) {
		if !link.AwaitRegistered(ctx) {
			return nil, ctx.Err()
		}
		reply, err := wire.NodeSources.Call(ctx, link.Conn(),
			&wire.SourcesRequest{NodeIdentity: link.Identity(), Tasks: of, Wait: wait})
		if err != nil {
			return nil, err
		}
		return reply.Answers, nil
	}
}

// Checked implements checks.Allocs.
func (s served) Checked(id ids.Alloc, found alloc.Checks) {
	if r := s.Runner(id); r != nil {
		r.Checked(found)
	}
}

// RunScript implements checks.Allocs.
func (s served) RunScript(ctx context.Context, c *service.Check, out io.Writer) (int, error) {
	r := s.Runner(c.Service.Alloc)
	if r == nil {
		return 0, fault.New(fault.NotFound, "check", fmt.Sprintf("allocation %q", c.Service.Alloc), "it is not here")
	}
	if err := r.Usable("check"); err != nil {
		return 0, err
	}
	t, err := r.Task(c.Task)
	if err != nil {
		return 0, err
	}
	return t.RunCommand(ctx, append([]string{c.Of.Command}, c.Of.Args...), out)
}

// RestartUnhealthy implements checks.Allocs.
func (s served) RestartUnhealthy(id ids.Alloc, task, reason string) {
	r := s.Runner(id)
	if r == nil {
		return
	}
	if err := r.RestartUnhealthy(task, reason); err != nil {
		s.log.Error("a task whose check fails could not be restarted", logkey.Alloc, id, logkey.Task, task,
			logkey.Error, err)
	}
}
