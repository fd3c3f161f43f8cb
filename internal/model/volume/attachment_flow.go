package volume

import (
	"slices"
	"strings"

	"berth/internal/base/ids"
)

// AttachFacts are what decides over the attachments of one volume.
type AttachFacts struct {
	// Known: the plugin was negotiated once, so NeedsAttach means something. Unknown means wait.
	Known       bool
	NeedsAttach bool
	SingleNode  bool // the current access mode binds the volume to one node
	Claims      []*Claim
	Attachments []*Attachment
	// OnNode holds the nodes whose inventory shows a staging or a publication of the volume.
	OnNode map[ids.Node]bool
}

// AttachVerb is attach, detach or forget.
type AttachVerb string

// Verbs. Forget drops the record of what is known to be detached, without any call.
const (
	Attach AttachVerb = "attach"
	Detach AttachVerb = "detach"
	Forget AttachVerb = "forget"
)

// AttachStep is one step that is legal now.
type AttachStep struct {
	Verb AttachVerb
	Node ids.Node
}

// NextAttachments lists every controller call that would bring a volume's attachments on, best first, or says what is
// waited for. No step and no reason means converged. One of them is made at a time: all calls of a volume queue. It is
// the law of attachments:
//
//   - an attachment is wanted while a held or releasing claim is on its node, or the node still has a staging or a
//     publication; what is not wanted is detached;
//   - a detach that was begun is finished before the same node is attached anew;
//   - what is known to be detached, and is not wanted, is forgotten;
//   - a volume of a single-node mode is attached only when no attachment to another node exists.
func NextAttachments(f AttachFacts) (steps []AttachStep, wait string) {
	if !f.Known && len(f.Attachments) == 0 {
		return nil, "waiting for the plugin to say whether its volumes must be attached"
	}
	attachments := slices.SortedFunc(slices.Values(f.Attachments), func(a, b *Attachment) int {
		return strings.Compare(string(a.Node), string(b.Node))
	})
	for _, a := range attachments {
		if a.Presence.Exists() && (a.Detaching || !f.wanted(a.Node)) {
			steps = append(steps, AttachStep{Verb: Detach, Node: a.Node})
		}
		if !a.Presence.Exists() && !f.wanted(a.Node) {
			steps = append(steps, AttachStep{Verb: Forget, Node: a.Node})
		}
	}
	if !f.NeedsAttach {
		return steps, ""
	}
	for _, c := range f.Claims {
		step := AttachStep{Verb: Attach, Node: c.Node}
		if c.State != Held || f.present(c.Node) || f.detaching(c.Node) || slices.Contains(steps, step) {
			continue
		}
		if other := f.elsewhere(c.Node); f.SingleNode && other != "" {
			wait = "waiting for the volume to be detached from node " + ids.Short(other)
			continue
		}
		steps = append(steps, step)
	}
	return steps, wait
}

func (f AttachFacts) wanted(node ids.Node) bool {
	return f.OnNode[node] || slices.ContainsFunc(f.Claims, func(c *Claim) bool {
		return c.Node == node && c.State != Queued
	})
}

func (f AttachFacts) present(node ids.Node) bool {
	return slices.ContainsFunc(f.Attachments, func(a *Attachment) bool {
		return a.Node == node && a.Presence == Present && !a.Detaching
	})
}

func (f AttachFacts) detaching(node ids.Node) bool {
	return slices.ContainsFunc(f.Attachments, func(a *Attachment) bool {
		return a.Node == node && a.Detaching && a.Presence.Exists()
	})
}

func (f AttachFacts) elsewhere(node ids.Node) ids.Node {
	for _, a := range f.Attachments {
		if a.Node != node && a.Presence.Exists() {
			return a.Node
		}
	}
	return ""
}
