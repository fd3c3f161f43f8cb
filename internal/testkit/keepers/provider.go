package keepers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// provider is the storage behind the plugins: what it lists, and how it answers next. Without an answer set, it does
// what it is asked.
type provider struct {
	w       *world
	mu      sync.Mutex
	answers map[string][]string    // by kind and volume
	held    map[string]chan string // how the call goes on
	deaf    map[string]bool        // whose call is not ended when it is withdrawn
	volumes map[string][]string    // by external id: the nodes that it is published to
	snaps   map[string]bool
	sizes   map[string]int64                  // by external id, as listed; 0: not known
	left    wire.CapacityReply                // what is left
	calls   map[string][]*wire.ControllerCall // by kind and volume
}

func newProvider(w *world) *provider {
	return &provider{
		w:       w,
		answers: map[string][]string{},
		held:    map[string]chan string{},
		deaf:    map[string]bool{},
		volumes: map[string][]string{},
		snaps:   map[string]bool{},
		sizes:   map[string]int64{},
		calls:   map[string][]*wire.ControllerCall{},
	}
}

// volumeOf is the volume that a call is about, as its user calls it.
func volumeOf(c *wire.ControllerCall) string {
	name, _, _ := strings.Cut(short(c.Subject), "@")
	if c.Snapshot != nil {
		name = strings.TrimPrefix(c.Snapshot.SourceID, "x-")
	}
	return name
}

// serve makes the calls that a node is asked for until its stream ends.
func (p *provider) serve(
	ctx context.Context, node ids.Node, stream *wire.Stream[wire.ControllerResult, wire.ControllerCall],
) error {
	var send sync.Mutex
	for {
		call, err := stream.Recv()
		if err != nil {
			return nil // the story ended it
		}
		name := volumeOf(call)
		if call.Cancel {
			ends := fmt.Sprintf("%s is to end %s of %s", node, call.Kind, short(call.Subject))
			p.w.tell(event{volume: name, text: ends})
			if p.isDeaf(call.Kind + " " + name) {
				continue
			}
			if err := p.finish(call.Kind+" "+name, "unavailable"); err != nil {
				return err
			}
			continue
		}
		asked := fmt.Sprintf("%s is asked to %s %s", node, call.Kind, short(call.Subject))
		if call.Kind == wire.CallNodeExpand && p.w.happened(asked) {
			// a node is asked for as long as it has not reported its growth
			p.reply(stream, &send, p.answer(call, "ok"))
			continue
		}
		p.w.tell(event{volume: name, text: asked})
		p.mu.Lock()
		p.calls[call.Kind+" "+name] = append(p.calls[call.Kind+" "+name], call)
		p.mu.Unlock()
		p.w.users.Go("call", func() error {
			how := p.next(call.Kind + " " + name)
			if how == "hold" || how == "deaf" {
				p.hears(call.Kind+" "+name, how == "hold")
				if how = p.hold(ctx, call.Kind+" "+name); how == "" {
					return nil
				}
			}
			r := p.answer(call, how)
			end := fmt.Sprintf("%s reports %s of %s: %s", node, call.Kind, short(call.Subject), outcome(r))
			p.w.tell(event{volume: name, text: end})
			p.reply(stream, &send, r)
			return nil
		})
	}
}

func (p *provider) reply(
	stream *wire.Stream[wire.ControllerResult, wire.ControllerCall], send *sync.Mutex, r *wire.ControllerResult,
) {
	send.Lock()
	defer send.Unlock()
	_ = stream.Send(r) // its stream may have ended
}

func outcome(r *wire.ControllerResult) string {
	switch {
	case r.Unsent:
		return "unsent"
	case r.Err == nil:
		return "done"
	case r.Err.Uncertain:
		return "uncertain, " + string(r.Err.Retry)
	}
	return "failed, " + string(r.Err.Retry)
}

func (p *provider) next(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.answers[key]
	if len(queue) == 0 {
		return "ok"
	}
	p.answers[key] = queue[1:]
	return queue[0]
}

func (p *provider) hears(key string, well bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf[key] = !well
}

func (p *provider) isDeaf(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf[key]
}

// hold waits until the story lets the call go on, and says how. Empty: its stream has ended.
func (p *provider) hold(ctx context.Context, key string) string {
	ch := make(chan string, 1)
	p.mu.Lock()
	p.held[key] = ch
	p.mu.Unlock()
	select {
	case how := <-ch:
		return how
	case <-ctx.Done():
		return ""
	}
}

func (p *provider) finish(key, how string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.held[key]
	if ch == nil {
		return fmt.Errorf("no %s is held; there are %q", key, slices.Collect(maps.Keys(p.held)))
	}
	delete(p.held, key)
	ch <- how
	return nil
}

// failures are the ways in which a plugin fails, as the adapter of plugins classifies them.
var failures = map[string]wire.CallError{
	"refused":     {Kind: uint8(fault.Invalid), Retry: volume.RetryNever, Message: "the plugin refuses"},
	"doubtful":    {Kind: uint8(fault.Invalid), Retry: volume.RetryNever, Message: "it is not known", Uncertain: true},
	"full":        {Kind: uint8(fault.Exhausted), Retry: volume.RetryOtherPlace, Message: "no capacity"},
	"slow":        {Kind: uint8(fault.Exhausted), Retry: volume.RetrySlow, Message: "not for a while"},
	"undo-first":  {Kind: uint8(fault.Conflict), Retry: volume.RetryAfterUndo, Message: "attached in another way"},
	"unavailable": {Kind: uint8(fault.Unavailable), Retry: volume.RetryBackoff, Message: "no answer", Uncertain: true},
	"no-source":   {Kind: uint8(fault.NotFound), Retry: volume.RetryBackoff, Message: "there is no such source"},
	"not-found":   {Kind: uint8(fault.NotFound), Retry: volume.RetryVerify, Message: "not found"},
}

// answers are the ways in which it does not fail, at once or at all.
var answers = []string{"ok", "hold", "deaf", "unsent", "empty", "elsewhere", "more", "not-ready"}

// known refuses a way to answer that nothing gives.
func known(command string, words []string) error {
	if command != "answer" {
		return nil
	}
	if err := need(words, 3); err != nil {
		return err
	}
	for _, how := range words[2:] {
		if _, fails := failures[how]; !fails && !slices.Contains(answers, how) {
			return fmt.Errorf("a provider does not answer by %q", how)
		}
	}
	return nil
}

func (p *provider) answer(c *wire.ControllerCall, how string) *wire.ControllerResult {
	r := &wire.ControllerResult{Kind: c.Kind, Subject: c.Subject, Generation: c.Generation}
	if how == "unsent" {
		r.Unsent = true
		return r
	}
	if f, fails := failures[how]; fails {
		r.Err = &f
		return r
	}
	if how == "empty" {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c.Kind {
	case wire.CallCreate:
		id := "x-" + volumeOf(c)
		p.volumes[id] = nil
		r.Created = &wire.CreatedVolume{
			ExternalID: id,
			Capacity:   c.Create.Spec.CapacityMin,
			Context:    map[string]string{"made": id},
		}
		if how == "elsewhere" {
			r.Created.Topologies = append(r.Created.Topologies, map[string]string{"node": "elsewhere"})
		}
	case wire.CallDelete:
		delete(p.volumes, c.Volume.ExternalID)
	case wire.CallAttach:
		p.volumes[c.Attach.ExternalID] = append(p.volumes[c.Attach.ExternalID], c.Attach.StorageNode)
		r.PublishContext = map[string]string{"device": "of " + c.Attach.StorageNode}
	case wire.CallDetach:
		p.volumes[c.Attach.ExternalID] = slices.DeleteFunc(p.volumes[c.Attach.ExternalID], func(n string) bool {
			return n == c.Attach.StorageNode
		})
	case wire.CallExpand:
		r.Capacity, r.NodeExpansion = c.Volume.Min, true
		if how == "more" {
			r.Capacity++
		}
	case wire.CallSnapshot:
		id := "s-" + c.Snapshot.SourceID
		p.snaps[id] = true
		r.Snapshot = &wire.CreatedSnapshot{ExternalID: id, SourceID: c.Snapshot.SourceID, Ready: how != "not-ready"}
	case wire.CallDeleteSnapshot:
		delete(p.snaps, c.Snapshot.SnapshotID)
	}
	return r
}

// NodeConn implements controllers.Nodes: the connection answers what the provider lists.
func (p *provider) NodeConn(ids.Node) (wire.Conn, error) { return listing{p}, nil }

func (p *provider) Await(context.Context, ids.Node) (wire.Conn, error) { return listing{p}, nil }

// listing is a connection on which the provider's lists are read.
type listing struct{ p *provider }

// Invoke answers the two list methods.
func (l listing) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	switch out := reply.(type) {
	case *wire.ProviderList[wire.ExternalVolume]:
		for _, id := range slices.Sorted(maps.Keys(l.p.volumes)) {
			out.Items = append(out.Items, wire.ExternalVolume{
				ExternalID:     id,
				Capacity:       l.p.sizes[id],
				PublishedNodes: slices.Clone(l.p.volumes[id]), // the provider goes on
			})
		}
	case *wire.ProviderList[*volume.Snapshot]:
		for _, id := range slices.Sorted(maps.Keys(l.p.snaps)) {
			out.Items = append(out.Items, &volume.Snapshot{ExternalID: id})
		}
	case *wire.CapacityReply:
		*out = l.p.left
	case *wire.ValidateVolumeReply: // whatever is asked of a volume is confirmed
	default:
		return fault.New(fault.Unsupported, "call", method, "the provider only lists")
	}
	return nil
}

// NewStream implements wire.Conn.
func (l listing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, fault.New(fault.Unsupported, "call", "node", "the provider only lists")
}
