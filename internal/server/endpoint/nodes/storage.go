package nodes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/controllers"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/reports"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/server/views"
	"berth/internal/wire"
)

func (e *Endpoints) nodeControllerCalls(
	ctx context.Context, req *wire.ControllerCallsRequest,
	stream *wire.Stream[wire.ControllerCall, wire.ControllerResult],
) error {
	if _, _, err := e.obeyed(ctx, req.NodeIdentity); err != nil {
		return err
	}
	credits := func(id ids.Plugin) int {
		if own := controllers.AtOnce(e.cfg.Store.Snapshot(), req.Node, id); own != 0 && req.OwnLimits {
			return own
		}
		return req.Credits
	}
	return e.cfg.Controllers.Serve(req.Node, credits, stream, func() error {
		_, _, err := e.obeyed(ctx, req.NodeIdentity)
		return err
	})
}

func (e *Endpoints) nodeInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	if _, _, err := e.obeyed(ctx, r.NodeIdentity); err != nil {
		return nil, err
	}
	if err := bounded(r); err != nil {
		return nil, err
	}
	cmd, stale := e.inventoryOf(r.Node, r)
	if stale != nil {
		return stale, nil
	}
	reply, index, err := fsm.Propose[*wire.InventoryReply](ctx, e.cfg.Proposer, cmd)
	if err != nil {
		return nil, err
	}
	reply.Index = index
	e.inform(reply, r.Node, r)
	return reply, nil
}

// nodeInventoryKnown answers by the state that is there. A server that leads no more and does not know it does no harm:
// under another leadership the node reports whole.
func (e *Endpoints) nodeInventoryKnown(
	ctx context.Context, d *wire.InventoryDigest,
) (*wire.InventoryKnown, error) {
	s, _, err := e.obeyed(ctx, d.NodeIdentity)
	if err != nil {
		return nil, err
	}
	known, err := fsm.InventoryKnown(s, d)
	return &wire.InventoryKnown{Known: known}, err
}

// inform adds to the answer what the node cannot know: the claims on it that what it cannot name may belong to, which
// it compares with the hashes in the paths, and to whom volumes were handed over that another provider made there.
func (e *Endpoints) inform(reply *wire.InventoryReply, node ids.Node, r *wire.InventoryReport) {
	s := e.cfg.Store.Snapshot()
	for i := range r.Entries {
		k := r.Entries[i].StagingKey
		if owner := attaching.ProviderOf(s, nil, k); owner != "" && owner != r.Entries[i].Provider {
			reply.Owners = append(reply.Owners, wire.VolumeOwner{StagingKey: k, Provider: owner})
		}
	}
	if len(r.Unknown) == 0 {
		return
	}
	for c := range s.ClaimsByNode(nil, node) {
		if _, found := volume.UnknownOf(r.Unknown, c.Plugin); found {
			reply.Claims = append(reply.Claims, *c)
		}
	}
}

// inventoryOf is the command for a node's report of its volumes, or the answer to one that does not follow the newest.
func (e *Endpoints) inventoryOf(node ids.Node, r *wire.InventoryReport) (*fsm.InventoryApply, *wire.InventoryReply) {
	s := e.cfg.Store.Snapshot()
	if head := s.InventoryHead(nil, node); head != nil && head.ModifyIndex != r.Prev {
		return nil, &wire.InventoryReply{Index: head.ModifyIndex, Head: head.ModifyIndex, Stale: true}
	}
	cmd := &fsm.InventoryApply{
		Node:        node,
		Full:        r.Full,
		Incarnation: r.At.Incarnation,
		Prev:        r.Prev,
		Entries:     r.Entries,
		Unknown:     r.Unknown,
	}
	if s.Relate(r.At) == lineage.Continues { // else the node's silence says nothing about this state's claims
		cmd.AllocIndex = r.At.Index
	}
	return cmd, nil
}

// executors are the nodes that would detach what a report shows to be released; one that is not there now is not named.
func (e *Endpoints) executors(r *fsm.InventoryApply) (out []reports.Executor) {
	s := e.cfg.Store.Snapshot()
	for i := range r.Entries {
		k := r.Entries[i].StagingKey
		if !r.Entries[i].Quiet() || s.Attachment(nil, volume.AttachmentKey{StagingKey: k, Node: r.Node}) == nil {
			continue
		}
		if n, _ := e.cfg.Controllers.Executor(s, k.Plugin, attaching.HomeOf(s, k)); n != "" {
			out = append(out, reports.Executor{StagingKey: k, Node: n})
		}
	}
	return out
}

// grants answers when every claim of the alloc is held and attached, when the reasons for waiting changed, or when the
// wait is over. A claim's answer, with its secrets, goes to the alloc's own node alone.
func (e *Endpoints) nodeGrants(ctx context.Context, req *wire.GrantsRequest) (*wire.GrantsReply, error) {
	if _, _, err := e.obeyed(ctx, req.NodeIdentity); err != nil {
		return nil, err
	}
	wctx, cancel := context.WithTimeout(ctx, max(req.Wait, time.Millisecond))
	defer cancel()
	for {
		w, s := state.NewWatch(), e.cfg.Store.Snapshot()
		if _, err := Obeyed(s, w, req.NodeIdentity); err != nil { // another session began meanwhile
			return nil, err
		}
		reply, err := e.grantsAt(s, w, req)
		if err == nil && reply.Ready {
			// Who has been deposed and does not know it yet may read a claim that has ended by proof since.
			return reply, e.cfg.Cluster.Confirm(ctx)
		}
		if err != nil || reply.Token != req.Seen || req.Wait <= 0 {
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
	reply := &wire.GrantsReply{Session: req.Session}
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
	case s.Session(w, a.Node).Doubt(c.Epoch.Index) != "": // what it was given before may be in use elsewhere
		return wait(c.Since, s.Session(nil, a.Node).Doubt(c.Epoch.Index))
	case c.State == volume.Queued:
		return wait(c.Since, views.Holders(s, w, c))
	case c.State == volume.Releasing:
		return nil, nil,
			fault.New(fault.Conflict, "claim", `volume "`+id.String()+`"`,
				"the claim of this allocation is being released")
	}
	if held := suspension.Calls(s, w, v.Staging()); held != nil {
		return wait(c.Since, held.String())
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
		Ownership:      v.Spec.Ownership,
		Shared:         usedElsewhere(s, c),
		Provider:       v.Status.Provider,
		At:             s.Point(nil),
	}
	if c.AttachmentMode == volume.FileSystem && rec.NodeCaps.VolumeMountGroup {
		g.MountGroup = v.Spec.Ownership.MountGroup()
	}
	if rec.NeedsAttach {
		at := s.Attachment(w, volume.AttachmentKey{StagingKey: v.Staging(), Node: a.Node})
		if at == nil || at.Presence != volume.Present || at.Detaching {
			text, underWay := views.Attaching(s, w, v.Staging(), a.Node, at)
			return nil, &wire.WaitReason{
				Alias:    r.Name,
				Volume:   id,
				Reason:   text,
				Since:    c.Since,
				UnderWay: underWay,
			}, nil
		}
		g.Generation, g.PublishContext = at.Generation, at.PublishContext
	}
	secrets, err := e.cfg.Secrets.Secrets(v.Spec.Secrets)
	g.Secrets = secrets
	return g, nil, err
}

// usedElsewhere reports that an alloc of another node may use the volume of a claim: one that was placed before, or has
// begun. What its node has of the volume, this alloc's does not see.
func usedElsewhere(s *state.Snap, c *volume.Claim) bool {
	for o := range s.ClaimsOf(nil, c.Staging()) {
		if o.Node == c.Node || o.State == volume.Queued {
			continue
		}
		a := s.Alloc(nil, o.Alloc)
		before := cmp.Or(cmp.Compare(o.Epoch.Index, c.Epoch.Index), cmp.Compare(o.Alloc, c.Alloc)) < 0
		if before || a == nil || a.ClientStatus != alloc.ClientPending {
			return true
		}
	}
	return false
}
