package state

import (
	"iter"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// Attachments names the table of attachments.
const Attachments = "attachments"

var attachments = &table[volume.Attachment]{
	name: Attachments,
	key:  func(a *volume.Attachment) Key { return attachmentKey(a.Key()) },
	indexes: []index[volume.Attachment]{
		one(byNode, func(a *volume.Attachment) Key { return KeyOf(a.Node) }),
	},
	stamp:    stamping(func(o *volume.Attachment) (_, _ *uint64) { return &o.CreateIndex, &o.ModifyIndex }),
	modified: func(a *volume.Attachment) uint64 { return a.ModifyIndex },
	news:     func(tx *Tx, a *volume.Attachment) { tx.tell(News{Staging: a.Staging()}) },
}

func attachmentKey(k volume.AttachmentKey) Key { return stagingKey(k.StagingKey).With(string(k.Node)) }

// Attachment returns an attachment, or nil.
func (s *Snap) Attachment(w *Watch, k volume.AttachmentKey) *volume.Attachment {
	return attachments.get(s, w, attachmentKey(k))
}

// Attachments yields all attachments, by plugin, external id and node.
func (s *Snap) Attachments(w *Watch) iter.Seq[*volume.Attachment] { return attachments.scan(s, w, "") }

// AttachmentsOf yields the attachments of a provider's volume, by node.
func (s *Snap) AttachmentsOf(w *Watch, k volume.StagingKey) iter.Seq[*volume.Attachment] {
	return attachments.scan(s, w, stagingKey(k))
}

// AttachmentsByNode yields a node's attachments, by plugin and external id.
func (s *Snap) AttachmentsByNode(w *Watch, id ids.Node) iter.Seq[*volume.Attachment] {
	return attachments.find(s, w, byNode, KeyOf(id))
}

// PutAttachment stores an attachment.
func (tx *Tx) PutAttachment(a *volume.Attachment) { attachments.put(tx, a) }

// DeleteAttachment forgets an attachment.
func (tx *Tx) DeleteAttachment(k volume.AttachmentKey) bool {
	return attachments.drop(tx, attachmentKey(k))
}
