// Package events owns the stream of what changes: which events follow from what the log changed, who may see them, and
// how far each reader is. A reader is an index into what the state remembers, and keeps nothing itself. Only package
// endpoint constructs it.
package events

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/permissions"
	"berth/internal/server/state"
	"berth/internal/server/state/changes"
	"berth/internal/wire"
)

const (
	// beat is how often an idle stream says that it lives, and asks whether its reader still may read.
	beat = 10 * time.Second
	// atOnce bounds the batches that a reader holds while it sends them.
	atOnce = 64
)

// Register adds the handler to a server.
func Register(b serving.Base, s *wire.Server) {
	serving.Own(b, s, wire.EventStream, func(
		ctx context.Context, req *wire.EventRequest, out *wire.Stream[wire.EventBatch, wire.Empty],
	) error {
		f, err := filterOf(req)
		if err != nil {
			return err
		}
		r := &reader{store: b.Store, feed: b.Store.Changes(), filter: f, out: out}
		r.next = max(req.Index, r.feed.First())
		return r.run(ctx)
	})
}

// filterOf reads what is asked for. Without topics that is everything.
func filterOf(req *wire.EventRequest) (filter, error) {
	f := filter{namespace: req.Namespace, keys: req.Topics}
	if len(f.keys) == 0 {
		f.keys = map[string][]string{wire.TopicAll: {"*"}}
	}
	for name := range f.keys {
		if name != wire.TopicAll && permissions.Topics[name].Kind == "" {
			why := fmt.Sprintf("there is no topic %q", name)
			return f, fault.WithHint(fault.New(fault.Invalid, "follow", "events", why),
				"topics are "+strings.Join(slices.Sorted(maps.Keys(permissions.Topics)), ", ")+" and *")
		}
	}
	return f, nil
}

// reader is who follows the events.
type reader struct {
	store  *state.Store
	feed   *changes.Feed
	filter filter
	out    *wire.Stream[wire.EventBatch, wire.Empty]
	next   uint64 // the first index that it has not got yet
}

// run sends until the stream, the right to it, or the state ends.
func (r *reader) run(ctx context.Context) error {
	if err := r.out.Send(&wire.EventBatch{}); err != nil {
		return err
	}
	for {
		batches, more, err := r.feed.From(r.next, atOnce)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := r.send(ctx, b); err != nil {
				return err
			}
			r.next = b.Index + 1
		}
		if len(batches) == 0 {
			if err := r.wait(ctx, more); err != nil {
				return err
			}
		}
	}
}

// wait waits for more events. When none come for a while it says that it lives. What the reader may see is looked at
// when that changes, and when his token expires, so that who may see nothing any more hears so at once.
func (r *reader) wait(ctx context.Context, more <-chan struct{}) error {
	w := state.NewWatch()
	if err := serving.Again(ctx, r.store.Snapshot(), w); err != nil {
		return err
	}
	w.Add(more)
	rest, expires := rests(ctx)
	idle, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	if w.Wait(idle) == nil || expires && ctx.Err() == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.out.Send(&wire.EventBatch{})
}

// rests is how long an idle stream rests; expires: until its reader's token is good no longer.
func rests(ctx context.Context) (rest time.Duration, expires bool) {
	if at := serving.Expires(ctx); !at.IsZero() {
		if left := time.Until(at); left > 0 && left < beat { // one that is over is asked about at beats
			return left, true
		}
	}
	return beat, false
}

// send sends those events of a batch that were asked for and may be seen now.
func (r *reader) send(ctx context.Context, b *changes.Batch) error {
	snap := r.store.Snapshot()
	if err := serving.Again(ctx, snap, nil); err != nil {
		return err
	}
	all, ok := r.feed.Form(b, func(b *changes.Batch) (any, int) { return derived(snap, b) }).([]*wire.Event)
	if !ok {
		return fault.New(fault.Internal, "follow", "events", fmt.Sprintf("those of index %d were not made", b.Index))
	}
	out := &wire.EventBatch{Index: b.Index}
	for _, e := range all {
		if r.filter.wants(e) && sees(ctx, e) {
			out.Events = append(out.Events, e)
		}
	}
	if len(out.Events) == 0 {
		return nil
	}
	return r.out.Send(out)
}

func derived(s *state.Snap, b *changes.Batch) (any, int) {
	out, bytes := derive(s, b)
	return out, bytes
}

// sees says whether the caller may see the object of an event.
func sees(ctx context.Context, e *wire.Event) bool {
	visible := permissions.Topics[e.Topic]
	return serving.SeesOn(ctx, visible.Kind, visible.Of(e.Namespace, e.Key), visible.Any)
}
