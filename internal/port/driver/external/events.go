package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/pluginproto/driverpb"
)

// Event is what a driver tells of a task.
type Event struct {
	Alloc       ids.Alloc
	Task        string
	Message     string
	Annotations map[string]string
}

// Bounds of what a plugin tells of its tasks. It is kept on the node and reported to the servers, which refuse a report
// with an event that is too long, and with it all that is reported beside it.
const (
	eventBurst     = 100                    // are passed on as they come
	eventPause     = 100 * time.Millisecond // between those that follow; they wait in the plugin until then
	maxEventText   = 2 << 10                // bytes
	maxAnnotations = 64
)

// events passes on what the plugin says of its tasks. One that cannot say anything is as good. Nobody is told what it
// says of others: it would displace what they have in their histories.
func (s *connection) events(ctx context.Context) error {
	stream, err := s.rpc.TaskEvents(ctx, &driverpb.TaskEventsRequest{})
	foreign := false
	for next := (time.Time{}); err == nil; {
		var e *driverpb.DriverTaskEvent
		if e, err = stream.Recv(); err != nil || s.d.cfg.Events == nil {
			continue
		}
		now := time.Now()
		if early := now.Add(-eventBurst * eventPause); next.Before(early) {
			next = early
		}
		next = next.Add(eventPause)
		retry.Sleep(ctx, next.Sub(now)) // with ctx the stream ends, too
		if s.d.cfg.has(ids.Alloc(e.GetAllocId()), e.GetTaskName()) {
			s.d.cfg.Events(bounded(e))
			continue
		}
		if !foreign {
			s.d.cfg.Log.Warn("a driver plugin tells of a task that it does not have, which is left out",
				logkey.Driver, s.info.Name, logkey.Alloc, cut(e.GetAllocId()), logkey.Task, cut(e.GetTaskName()))
		}
		foreign = true
	}
	if ctx.Err() == nil && status.Code(err) != codes.Unimplemented && !errors.Is(err, io.EOF) {
		s.d.cfg.Log.Info("a driver plugin says nothing of its tasks any more", logkey.Driver, s.info.Name,
			logkey.Error, err)
	}
	return nil
}

// has reports whether there may be something of a task that the plugin was given to start.
func (c Config) has(id ids.Alloc, name string) bool {
	tasks, err := c.kept(id)
	return err == nil && slices.Contains(tasks, name)
}

// bounded is an event without what is too much of it.
func bounded(e *driverpb.DriverTaskEvent) Event {
	out := Event{
		Alloc:   ids.Alloc(e.GetAllocId()),
		Task:    e.GetTaskName(),
		Message: cut(e.GetMessage()),
	}
	names := slices.Sorted(maps.Keys(e.GetAnnotations()))
	if more := len(names) - maxAnnotations; more > 0 {
		names = names[:maxAnnotations]
		out.Message = cut(fmt.Sprintf("(%d of its annotations are left out) %s", more, out.Message))
	}
	for _, k := range names {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[cut(k)] = cut(e.GetAnnotations()[k])
	}
	return out
}

func cut(s string) string {
	if len(s) <= maxEventText {
		return s
	}
	const more = "…"
	return strings.ToValidUTF8(s[:maxEventText-len(more)], "") + more
}
