// Package attaching owns the reading of what decides over the attachments of a volume, and of what a call about one
// needs, from a snapshot. The keeper of claims asks it before each call; the command that ends a claim asks it, to note
// the detach that follows. Only packages of the server import it.
package attaching

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/holders"
	"berth/internal/server/instances"
	"berth/internal/server/state"
	"berth/internal/server/suspension"
	"berth/internal/wire"
)

// Timeout bounds ControllerPublish and ControllerUnpublish.
const Timeout = 5 * time.Minute

// Schema is the number of the cluster from which on what a node says of volumes that it was not given is bounded: it
// makes no second attachment to another node's storage, grows no volume, and ends with the node's replacement.
const Schema = 16

// Bounded is a node whose word counts for itself alone; empty, for all, as reports were applied before.
func Bounded(s *state.Snap, on ids.Node) ids.Node {
	if s.Understands(Schema) {
		return on
	}
	return ""
}

// HomeOf is the node of a volume whose plugin is node-scoped; a volume that was forgotten by force has kept it.
func HomeOf(s *state.Snap, id volume.StagingKey) ids.Node {
	if v := s.VolumeOf(nil, id); v != nil {
		return v.Status.HomeNode
	}
	if t := s.Tombstone(nil, id); t != nil {
		return t.HomeNode
	}
	return ""
}

// ProviderOf is the provider that has a volume, registered or forgotten by force; empty: it is not noted.
func ProviderOf(s *state.Snap, w *state.Watch, id volume.StagingKey) string {
	if v := s.VolumeOf(w, id); v != nil {
		return v.Status.Provider
	}
	if t := s.Tombstone(w, id); t != nil {
		return t.Provider
	}
	return ""
}

// Facts reads what decides over a volume's attachments.
func Facts(s *state.Snap, id volume.StagingKey) (volume.AttachFacts, *plugin.Record) {
	f := volume.AttachFacts{OnNode: map[ids.Node]bool{}}
	for c := range s.ClaimsOf(nil, id) {
		f.Claims = append(f.Claims, c)
	}
	for a := range s.AttachmentsOf(nil, id) {
		f.Attachments = append(f.Attachments, a)
	}
	for i := range s.InventoriesOf(nil, id) {
		if !i.Entry.Quiet() {
			f.OnNode[i.Node] = true
		}
	}
	for _, a := range f.Attachments {
		if _, found := holders.UnknownMount(s, nil, a.Node, id.Plugin); found {
			f.OnNode[a.Node] = true
		}
	}
	v := s.VolumeOf(nil, id)
	if v == nil {
		f.Known = true // nothing new is attached for a volume that is not there; what is attached goes
		return f, nil
	}
	f.SingleNode = v.Status.AccessMode.SingleNode()
	rec := s.Plugin(nil, v.Spec.Plugin)
	if rec != nil {
		f.Known, f.NeedsAttach = rec.Negotiated, rec.NeedsAttach
	}
	return f, rec
}

// Record returns the record that a step acts on: a copy of the stored one, or a new one with everything that
// its undo will need. nil: the facts for it are not there yet.
func Record(s *state.Snap, id volume.StagingKey, rec *plugin.Record, on ids.Node) *volume.Attachment {
	return record(s, id, rec, on, instances.On(s, nil, s.Node(nil, on)))
}

// Same is the attachment of the same volume that another node has under the same name at the provider; nil: there is
// none. For the provider both are one: a detach of either would take the volume from both. So a volume has one for each
// such name, and a node that says to be another one has nothing detached there.
func Same(s *state.Snap, a *volume.Attachment) *volume.Attachment {
	for o := range s.AttachmentsOf(nil, a.Staging()) {
		if o.Node != a.Node && o.StorageNode == a.StorageNode && o.Presence.Exists() {
			return o
		}
	}
	return nil
}

// record is Record, by those instances of the node that are believed.
func record(
	s *state.Snap, id volume.StagingKey, rec *plugin.Record, on ids.Node, believed []*plugin.Instance,
) *volume.Attachment {
	old := s.Attachment(nil, volume.AttachmentKey{StagingKey: id, Node: on})
	v, n := s.VolumeOf(nil, id), s.Node(nil, on)
	if old != nil && old.Presence.Exists() {
		a := *old
		if a.AccessMode == "" && v != nil { // it was learnt from a node's report, which does not tell the use
			a.AccessMode, a.AttachmentMode = v.Status.AccessMode, v.Status.AttachmentMode
			a.MountOptions = v.Status.MountOptions
		}
		return &a
	}
	if v == nil || n == nil || rec == nil {
		return nil
	}
	a := &volume.Attachment{
		Volume:         v.ID,
		UID:            v.UID,
		Node:           on,
		Plugin:         v.Spec.Plugin,
		ExternalID:     v.Status.ExternalID,
		AccessMode:     v.Status.AccessMode,
		AttachmentMode: v.Status.AttachmentMode,
		MountOptions:   v.Status.MountOptions,
		VolumeContext:  v.Status.Context,
		Secrets:        v.Spec.Secrets,
		ReadOnly:       v.Status.AccessMode.ReaderOnly() && rec.Controller.AttachReadOnly,
	}
	for _, i := range believed {
		if i.Plugin == v.Spec.Plugin && i.Role == plugin.RoleNode && i.StorageNode != "" {
			a.StorageNode = i.StorageNode
		}
	}
	if a.StorageNode == "" {
		return nil // the node's plugin has not reported its storage node id; its registration marks the volume again
	}
	if s.Understands(Schema) && Same(s, a) != nil {
		return nil // the end of the other one marks the volume again
	}
	if old != nil { // detached again after a failure: it counts on
		a.ModifyIndex = old.ModifyIndex
		a.LastError = old.LastError
		a.Tries = old.Tries
		a.NextTry = old.NextTry
	}
	return a
}

// Basis names what a provider's answer to an attach stands on, besides what a claim asks for: context and secrets of
// the volume as it is registered, the node, and the instances that may be asked. Where it is another one, the question
// is another, or is put to another. Empty: the volume is not there.
func Basis(s *state.Snap, w *state.Watch, id volume.StagingKey, on ids.Node) string {
	v := s.VolumeOf(w, id)
	if v == nil {
		return ""
	}
	storage, asked := "", []string{}
	for n, i := range instances.Of(s, w, id.Plugin) {
		switch {
		case i.Role == plugin.RoleController:
			asked = append(asked, string(i.Alloc)+" "+i.Provider+" "+i.Version)
		case n.ID == on:
			storage = i.StorageNode
		}
	}
	slices.Sort(asked)
	h := sha256.New()
	// Plain values can be encoded, and a hash takes all.
	_ = json.NewEncoder(h).Encode([]any{v.Status.Context, v.Spec.Secrets, storage, asked})
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Missing returns the record of an attachment that the state lacks although a node has, or had, the volume staged by
// it: the state was put back to before the attachment was made. Without it nobody would detach the volume there, and it
// would be attached elsewhere besides. A report that is repeated may have it detached once more. nil: nothing is
// missing, or nothing can be said of it.
func Missing(s *state.Snap, node ids.Node, e volume.InventoryEntry) *volume.Attachment {
	rec := s.Plugin(nil, e.Plugin)
	switch {
	case e.Quiet() && e.Generation == 0, rec == nil || !rec.NeedsAttach:
		return nil
	case s.Session(nil, node).Elsewhere(): // it is another machine than the one that the volume was attached to
		return nil
	case s.Attachment(nil, volume.AttachmentKey{StagingKey: e.StagingKey, Node: node}) != nil:
		return nil
	}
	for p := range s.ClaimProofsOf(nil, node) {
		if p.StagingKey == e.StagingKey {
			return nil // its claim ended by proof, and the volume was detached by that
		}
	}
	a := record(s, e.StagingKey, rec, node, instances.OnOrUnknown(s, s.Node(nil, node)))
	if a != nil {
		a.Presence, a.Generation = volume.Uncertain, e.Generation
	}
	return a
}

// Unnamed lists the volumes that are staged, by the path of the mount, where a node has no record of it.
func Unnamed(s *state.Snap, unknown []volume.UnknownMount) (out []volume.StagingKey) {
	if len(unknown) == 0 {
		return nil
	}
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		if slices.ContainsFunc(unknown, func(u volume.UnknownMount) bool { return u.Stages(v.Staging()) }) {
			out = append(out, v.Staging())
		}
	}
	return out
}

// Strays are the volumes that are staged, by the path of a mount, where a node has reported to have no record of it.
func Strays(s *state.Snap, on ids.Node) map[volume.StagingKey]bool {
	out := map[volume.StagingKey]bool{}
	if h := s.InventoryHead(nil, on); h != nil {
		for _, k := range Unnamed(s, h.Unknown) {
			out[k] = true
		}
	}
	return out
}

// Ending returns a node's attachment of a volume that is to be undone now and about which nothing is under way, with
// nothing known against it; nil: there is none.
func Ending(s *state.Snap, id volume.StagingKey, on ids.Node) *volume.Attachment {
	a := s.Attachment(nil, volume.AttachmentKey{StagingKey: id, Node: on})
	if a == nil || a.Presence != volume.Present || a.Detaching || a.LastError != "" {
		return nil
	}
	if s.Plugin(nil, id.Plugin).Foreign(ProviderOf(s, nil, id)) != "" || suspension.Destruction(s, nil, id) != nil {
		return nil
	}
	f, _ := Facts(s, id)
	steps, _ := volume.NextAttachments(f)
	if !slices.Contains(steps, volume.AttachStep{Verb: volume.Detach, Node: on}) {
		return nil
	}
	return a
}

// Next is what is to be done for a volume's attachments by what was read of them. converged: nothing, nor is anything
// waited for.
func Next(f volume.AttachFacts) (steps []volume.AttachStep, converged bool) {
	steps, wait := volume.NextAttachments(f)
	return steps, len(steps) == 0 && (wait == "" || len(f.Claims)+len(f.Attachments) == 0)
}
