// Package shortages owns the commands about nodes that have no room for another volume of a plugin: that one was
// refused there, and that another may be tried. Only package claims imports it.
package shortages

import (
	"time"

	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

// schema is the first one with these commands.
const schema = 5

func init() {
	fsm.Register[AttachRefused]("attach-refused", schema, "server/claims")
	fsm.Register[ShortageEnd]("shortage-end", schema, "server/claims")
}

// AttachRefused stores that a provider has no room for a volume on a node, or permanently refuses to attach it there:
// the attachment as it is now, that the node is full, or not for this volume, and that what waits for the volume there
// goes elsewhere.
type AttachRefused struct {
	Attachment *volume.Attachment
	Seen       uint64 // as in fsm.AttachmentPut
	Until      time.Time
	Seed       string
	// Basis and Use are those of a permanent refusal; both empty: the node has no room.
	Basis, Use string
}

// Apply returns the stored *volume.Attachment.
func (c *AttachRefused) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	stored, err := (&fsm.AttachmentPut{Attachment: c.Attachment, Seen: c.Seen}).Apply(tx, st)
	if err != nil {
		return nil, err
	}
	k := plugin.ShortageKey{Node: c.Attachment.Node, Plugin: c.Attachment.Plugin}
	if c.Basis != "" {
		k.ExternalID = c.Attachment.ExternalID
	}
	s := &plugin.Shortage{
		ShortageKey: k,
		Basis:       c.Basis,
		Use:         c.Use,
		Reason:      c.Attachment.LastError,
		Since:       st.Time,
		Until:       c.Until,
		Tries:       1,
	}
	if old := tx.Shortage(nil, k); old != nil {
		s.Tries = old.Tries
		if old.Over {
			s.Tries++
		} else {
			s.Since = old.Since
		}
	}
	tx.PutShortage(s)
	if _, err := c.move(tx, s).Apply(tx, st); err != nil {
		return nil, err
	}
	return stored, nil
}

// move ends the allocs that wait for the volume on this node, and asks for a look at their jobs. A system job has an
// alloc on each node: it waits there.
func (c *AttachRefused) move(tx *state.Tx, s *plugin.Shortage) *fsm.PlanApply {
	a := c.Attachment
	out := &fsm.PlanApply{}
	why, _ := s.Explain()
	for cl := range tx.ClaimsOf(nil, a.Staging()) {
		waiting := tx.Alloc(nil, cl.Alloc)
		if cl.Node != a.Node || cl.State != volume.Held || waiting == nil || waiting.Terminal() ||
			waiting.ClientStatus != alloc.ClientPending {
			continue
		}
		j := tx.Job(nil, waiting.Namespace, waiting.Job)
		if j == nil || job.OnEveryNode(j.Type) {
			continue
		}
		out.Stop = append(out.Stop, fsm.AllocStop{Alloc: waiting.ID, Description: why})
		if !j.Stopped() {
			out.Evals = append(out.Evals, fsm.NewEval(c.Seed, eval.TriggerAllocStop, j))
		}
	}
	return out
}

// Releases is true: it ends something.
func (c *AttachRefused) Releases() bool { return true }

// ShortageEnd lets another volume be tried on a node. With Forget nothing is counted on: a volume left the node, or one
// was attached.
type ShortageEnd struct {
	Key    plugin.ShortageKey
	Seen   uint64 // the shortage as it was looked at
	Forget bool
}

// Apply returns nil. A shortage that has changed since is left alone.
func (c *ShortageEnd) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	old := tx.Shortage(nil, c.Key)
	if old == nil || old.ModifyIndex != c.Seen {
		return nil, nil
	}
	if c.Forget {
		tx.DeleteShortage(c.Key)
		return nil, nil
	}
	s := *old
	s.Over = true
	tx.PutShortage(&s)
	return nil, nil
}

// Releases is true: it ends something.
func (c *ShortageEnd) Releases() bool { return true }
