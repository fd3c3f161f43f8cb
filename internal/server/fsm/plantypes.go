package fsm

import (
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/volume"
)

// PlanApply commits what the scheduler decided for one evaluation, in one step: placements with their claims, stops,
// and evaluations. It is refused as a whole (Conflict, Busy) when the state has moved on so that it no longer fits.
type PlanApply struct {
	// Eval is the evaluation's own new state; nil: unchanged.
	Eval *eval.Eval `cbor:",omitzero"`
	// Place holds new allocs, and allocs that exist and are updated in place (the node's part of them is kept).
	Place []*alloc.Alloc `cbor:",omitzero"`
	Stop  []AllocStop    `cbor:",omitzero"`
	// Evals are created or updated beside Eval: follow-ups, blocked ones.
	Evals []*eval.Eval `cbor:",omitzero"`
	// Claims are taken for the allocs in Place; State is Held or Queued; the epoch is set here.
	Claims []*volume.Claim `cbor:",omitzero"`
	// QueueDrop ends queued claims that give way.
	QueueDrop []volume.ClaimKey `cbor:",omitzero"`
	// Deployment is begun with the first placement of its version; nil: none is.
	Deployment *deployment.Deployment `cbor:",omitempty"`
}

// AllocStop gives up one alloc. DesiredStatus empty is stop; ClientStatus is lost or unknown, or empty.
type AllocStop struct {
	Alloc         ids.Alloc `cbor:",omitzero"`
	DesiredStatus string    `cbor:",omitzero"`
	Description   string    `cbor:",omitzero"`
	ClientStatus  string    `cbor:",omitzero"`
	FollowupEval  ids.Eval  `cbor:",omitzero"`
}
