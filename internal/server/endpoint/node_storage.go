package endpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) nodeControllerCalls(
	req *wire.ControllerCallsRequest, stream *wire.Stream[wire.ControllerCall, wire.ControllerResult],
) error {
	if _, err := Authenticate(e.cfg.Store.Snapshot(), req.NodeIdentity); err != nil {
		return err
	}
	return e.cfg.Controllers.Serve(req.Node, req.Credits, stream)
}

func (e *Endpoints) nodeInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	if _, err := Authenticate(e.cfg.Store.Snapshot(), r.NodeIdentity); err != nil {
		return nil, err
	}
	s := e.cfg.Store.Snapshot()
	if head := s.InventoryHead(nil, r.Node); head != nil && head.ModifyIndex != r.Prev {
		return &wire.InventoryReply{Index: head.ModifyIndex, Head: head.ModifyIndex, Stale: true}, nil
	}
	cmd := &fsm.InventoryApply{Node: r.Node, Full: r.Full, Prev: r.Prev, Entries: r.Entries}
	if s.Relate(r.At) == lineage.Continues { // else the node's silence says nothing about this state's claims
		cmd.AllocIndex = r.At.Index
	}
	reply, index, err := fsm.Propose[*wire.InventoryReply](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	reply.Index = index
	return reply, nil
}

// grants answers when every claim of the alloc is held and attached, when the reasons for waiting changed, or when the
// wait is over. A claim's answer, with its secrets, goes to the alloc's own node alone.
func (e *Endpoints) nodeGrants(ctx context.Context, req *wire.GrantsRequest) (*wire.GrantsReply, error) {
	if _, err := Authenticate(e.cfg.Store.Snapshot(), req.NodeIdentity); err != nil {
		return nil, err
	}
	wctx, cancel := context.WithTimeout(ctx, max(req.Wait, time.Millisecond))
	defer cancel()
	for {
		w := state.NewWatch()
		reply, err := e.grantsAt(e.cfg.Store.Snapshot(), w, req)
		if err != nil || reply.Ready || reply.Token != req.Seen || req.Wait <= 0 {
			return reply, err
		}
		if w.Wait(wctx) != nil {
			return reply, ctx.Err()
		}
	}
}

func (e *Endpoints) grantsAt(s *state.Snap, w *state.Watch, req *wire.GrantsRequest) (*wire.GrantsReply, error) {
	a := s.Alloc(w, req.Alloc)
	if a == nil {
		return nil, fault.New(fault.NotFound, "claim volumes for", `allocation "`+string(req.Alloc)+`"`,
			"the servers do not know it")
	}
	if a.Node != req.Node {
		return nil, fault.New(fault.Denied, "claim volumes for", `allocation "`+string(req.Alloc)+`"`,
			"it is placed on another node")
	}
	j := s.JobOf(w, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return nil, fault.New(fault.NotFound, "claim volumes for", `allocation "`+string(req.Alloc)+`"`,
			"its job version is not stored any more")
	}
	reply := &wire.GrantsReply{}
	for _, r := range j.Group(a.TaskGroup).CSIVolumes() {
		grant, why, err := e.grant(s, w, a, r)
		if err != nil {
			return nil, err
		}
		if why != nil {
			reply.Waiting = append(reply.Waiting, *why)
			continue
		}
		reply.Grants = append(reply.Grants, *grant)
	}
	reply.Ready = len(reply.Waiting) == 0
	if !reply.Ready {
		reply.Grants = nil
		reply.Token = token(reply.Waiting)
	}
	return reply, nil
}

func token(reasons []wire.WaitReason) string {
	h := sha256.New()
	for _, r := range reasons {
		fmt.Fprintf(h, "%s\x00%s\x00", r.Alias, r.Reason)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// grant builds the permission for one volume, or says what it waits for. One function builds it from one record.
func (e *Endpoints) grant(
	s *state.Snap, w *state.Watch, a *alloc.Alloc, r *job.VolumeRequest,
) (*wire.Grant, *wire.WaitReason, error) {
	id := volume.ID{Namespace: a.Namespace, ID: r.SourceFor(a.Index)}
	wait := func(since time.Time, text string) (*wire.Grant, *wire.WaitReason, error) {
		return nil, &wire.WaitReason{Alias: r.Name, Volume: id, Reason: text, Since: since}, nil
	}
	c, v := s.Claim(w, volume.ClaimKey{Volume: id, Alloc: a.ID}), s.Volume(w, id)
	switch {
	case v == nil:
		return wait(time.Time{}, "the volume does not exist")
	case c == nil || c.Staging() != v.Staging(): // the name was given to another volume since
		return nil, nil,
			fault.New(fault.Conflict, "claim", `volume "`+id.String()+`"`, "the claim of this allocation has ended")
	case c.State == volume.Queued:
		return wait(c.Since, views.Holders(s, w, c))
	case c.State == volume.Releasing:
		return nil, nil,
			fault.New(fault.Conflict, "claim", `volume "`+id.String()+`"`,
				"the claim of this allocation is being released")
	}
	rec := s.Plugin(w, v.Spec.Plugin)
	if rec == nil || !rec.Negotiated || !rec.NodeNegotiated {
		return wait(c.Since, `waiting for plugin "`+string(v.Spec.Plugin)+`" to be healthy`)
	}
	if why := rec.Foreign(v.Status.Provider); why != "" {
		return wait(c.Since, why)
	}
	g := &wire.Grant{
		Alias:  r.Name,
		Volume: id,
		Epoch:  c.Epoch,
		Key: volume.PublicationKey{
			StagingKey: v.Staging(),
			Alloc:      a.ID,
		},
		AccessMode:     c.AccessMode,
		AttachmentMode: c.AttachmentMode,
		MountOptions:   c.MountOptions,
		ReadOnly:       c.ReadOnly,
		VolumeContext:  v.Status.Context,
		NeedsStage:     rec.NeedsStage,
		Capacity:       v.Status.Capacity,
		ExpandNode:     v.Status.NodeExpandPending && rec.NodeCaps.NodeExpand,
		Provider:       v.Status.Provider,
		At:             s.Point(nil),
	}
	if rec.NeedsAttach {
		at := s.Attachment(w, volume.AttachmentKey{StagingKey: v.Staging(), Node: a.Node})
		if at == nil || at.Presence != volume.Present || at.Detaching {
			return wait(c.Since, views.Attaching(s, w, v.Staging(), a.Node, at))
		}
		g.Generation, g.PublishContext = at.Generation, at.PublishContext
	}
	secrets, err := e.cfg.Secrets.Secrets(v.Spec.Secrets)
	g.Secrets = secrets
	return g, nil, err
}
