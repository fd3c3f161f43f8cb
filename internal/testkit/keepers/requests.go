package keepers

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// ask calls an endpoint as a user does, and tells the answer when it comes.
func (w *world) ask(name, vol string, words []string) error {
	wait, err := time.ParseDuration(option(words, "wait", "1h"))
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(option(words, "size", "1000"), 10, 64)
	if err != nil {
		return err
	}
	limit, err := strconv.ParseInt(option(words, "max", "0"), 10, 64)
	if err != nil {
		return err
	}
	call := w.request(name, idOf(vol), size, limit, wait, words)
	if call == nil {
		return fmt.Errorf("no such command")
	}
	w.users.Go(name, func() error {
		outcome, err := call(w.t.Context())
		if w.t.Context().Err() != nil {
			return nil // the story is over
		}
		if err != nil {
			outcome = err.Error()
		}
		w.tell(event{volume: vol, answer: fmt.Sprintf("user, %s %s: %s", name, vol, outcome)})
		return nil
	})
	return nil
}

func outcomeOf[Req, Resp any](w *world, m wire.Method[Req, Resp], req *Req) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		reply, err := m.Call(ctx, w.conn, req)
		if err != nil {
			return "", err
		}
		switch r := any(reply).(type) {
		case *wire.VolumeWriteReply:
			return outcomeText(r.Outcome, r.Waits), nil
		case *wire.SnapshotReply:
			return outcomeText("done", r.Waits), nil
		case *wire.Written:
			return outcomeText("done", r.Waits), nil
		}
		return "done", nil
	}
}

func outcomeText(otherwise, waits string) string {
	if waits == "" {
		return otherwise
	}
	return wire.Accepted + ", " + waits
}

// request is what a user asks, with what came of it in a word; nil: users cannot ask that.
func (w *world) request(
	name string, id volume.ID, size, limit int64, wait time.Duration, words []string,
) func(context.Context) (string, error) {
	p := ids.Plugin(option(words, "plugin", "p"))
	switch name {
	case "create":
		return outcomeOf(w, wire.VolumeCreate, creation(id, p, size, limit, wait, words))
	case "register":
		r := creation(id, p, size, limit, wait, words)
		r.ExternalID, r.Context = "x-"+string(id.ID), map[string]string{"zone": option(words, "zone", "")}
		return outcomeOf(w, wire.VolumeRegister, r)
	case "expand":
		return outcomeOf(w, wire.VolumeExpand, &wire.VolumeExpandRequest{Volume: id, Min: size, Max: limit, Wait: wait})
	case "delete":
		return outcomeOf(w, wire.VolumeDelete, &wire.VolumeDeleteRequest{Volume: id, Wait: wait})
	case "forget":
		return outcomeOf(w, wire.VolumeDeregister,
			&wire.VolumeDeleteRequest{Volume: id, Force: true, Reason: "it must go"})
	case "attest":
		return outcomeOf(w, wire.VolumeDetach,
			&wire.VolumeDetachRequest{Volume: id, Node: ids.Node(words[0]), Attest: "it burnt"})
	case "rebind":
		return outcomeOf(w, wire.PluginRebind,
			&wire.PluginRebindRequest{Plugin: ids.Plugin(id.ID), Provider: words[0]})
	case "snapshot":
		return outcomeOf(w, wire.SnapshotCreate, &wire.SnapshotCreateRequest{
			Volume:    id,
			Name:      option(words, "name", ""),
			Wait:      wait,
			Following: option(words, "following", "no") == "yes",
		})
	case "delete-snapshot":
		return outcomeOf(w, wire.SnapshotDelete, &wire.SnapshotDeleteRequest{
			Namespace:  id.Namespace,
			Plugin:     p,
			SnapshotID: "s-x-" + string(id.ID),
			Wait:       wait,
		})
	}
	return nil
}

// creation asks for a volume.
func creation(
	id volume.ID, p ids.Plugin, size, limit int64, wait time.Duration, words []string,
) *wire.VolumeWriteRequest {
	r := &wire.VolumeWriteRequest{Volume: id, Wait: wait, Spec: volume.Spec{
		Plugin:       p,
		CapacityMin:  size,
		CapacityMax:  limit,
		CloneID:      option(words, "clone", ""),
		SnapshotID:   option(words, "from", ""),
		MountOptions: mountedAs(words),
		Capabilities: []volume.Capability{{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}},
	}}
	if at := option(words, "in", ""); at != "" {
		r.Spec.TopologyPreferred = []plugin.Topology{{Segments: map[string]string{"node": at}}}
	}
	if at := option(words, "required", ""); at != "" {
		r.Spec.TopologyRequired = []plugin.Topology{{Segments: map[string]string{"node": at}}}
	}
	if option(words, "secrets", "") != "" {
		r.Secrets.Values = map[string]string{"key": "open sesame"}
	}
	return r
}

// mountedAs reads mount options; nil: none are named.
func mountedAs(words []string) *volume.MountOptions {
	if fs := option(words, "fs", ""); fs != "" {
		return &volume.MountOptions{FSType: fs}
	}
	return nil
}
