package fsm

import (
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

func init() {
	Register[AttachmentPut]("attachment-put", identities, "server/claims")
	Register[AttachmentForget]("attachment-forget", identities, "server/claims")
}

// AttachmentPut stores an attachment: the intent before a call, or what it came to. Seen as in VolumePut.
type AttachmentPut struct {
	Attachment *volume.Attachment
	Seen       uint64
}

// Apply returns the stored *volume.Attachment.
func (c *AttachmentPut) Apply(tx *state.Tx, st Stamp) (any, error) {
	a := c.Attachment
	if v := tx.VolumeOf(nil, a.Staging()); a.UID == "" && v != nil {
		a.UID = v.UID // of an entry from before attachments had one
	}
	old := tx.Attachment(nil, a.Key())
	var now uint64
	if old != nil {
		now = old.ModifyIndex
	}
	if err := unchanged("attachment", a.Volume.String(), now, c.Seen); err != nil {
		return nil, err
	}
	if old == nil || old.Presence != a.Presence || old.Detaching != a.Detaching {
		a.Since = st.Time
	}
	a.Generation = st.Index // a new direction is a new call; a repetition keeps its number
	if old != nil && old.Detaching == a.Detaching {
		a.Generation = old.Generation
	}
	tx.PutAttachment(a)
	return a, nil
}

// AttachmentForget removes an attachment whose detach is confirmed.
type AttachmentForget struct {
	Key  AttachmentRef
	Seen uint64
}

// AttachmentRef names an attachment in the log. Entries from before attachments were those of the provider's volume
// have the volume's name instead.
type AttachmentRef struct {
	Volume     volume.ID
	Node       ids.Node
	Plugin     ids.Plugin
	ExternalID string
}

// RefTo names an attachment.
func RefTo(a *volume.Attachment) AttachmentRef {
	return AttachmentRef{
		Volume:     a.Volume,
		Node:       a.Node,
		Plugin:     a.Plugin,
		ExternalID: a.ExternalID,
	}
}

func (r AttachmentRef) find(tx *state.Tx) *volume.Attachment {
	for a := range tx.AttachmentsByNode(nil, r.Node) {
		if r.ExternalID == "" && a.Volume == r.Volume || a.Plugin == r.Plugin && a.ExternalID == r.ExternalID {
			return a
		}
	}
	return nil
}

// Releases lets volumes be released when the disk is nearly full.
func (c *AttachmentForget) Releases() bool { return true }

// Apply returns nil.
func (c *AttachmentForget) Apply(tx *state.Tx, st Stamp) (any, error) {
	a := c.Key.find(tx)
	if a == nil {
		return nil, nil
	}
	if err := unchanged("attachment", c.Key.Volume.String(), a.ModifyIndex, c.Seen); err != nil {
		return nil, err
	}
	tx.DeleteAttachment(a.Key())
	clearMode(tx, a.Staging())
	promote(tx, st, a.Staging())
	buryIfDone(tx, a.Staging())
	dropSecret(tx, a.Secrets, a.Staging())
	return nil, nil
}
