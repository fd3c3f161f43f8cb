package validate

import (
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
)

// Verb is what is asked of a volume that has a record.
type Verb string

// Verbs. Who uses the volume is asked apart from them (package holders).
const (
	Create     Verb = "create" // again, with the same or another file
	Register   Verb = "register"
	Expand     Verb = "expand"
	Snapshot   Verb = "snapshot"
	Delete     Verb = "delete"
	Deregister Verb = "deregister"
	Forget     Verb = "deregister -force"
)

// begun are the verbs that go on, or join what goes on, in each phase; every other one is refused. Calls of one volume
// queue in its lane, so that what does not contradict the operation under way may be asked for beside it.
var begun = map[volume.Phase][]Verb{
	volume.PhaseCreating:  {Create, Delete},
	volume.PhaseReady:     {Create, Register, Expand, Snapshot, Delete, Deregister, Forget},
	volume.PhaseExpanding: {Create, Register, Expand, Snapshot, Delete},
	volume.PhaseDeleting:  {Delete, Forget},
	volume.PhaseConflict:  {Delete, Deregister, Forget},
	volume.PhaseFailed:    {Create, Register, Delete, Deregister, Forget}, // nothing exists: anew, or away with it
}

// calls are the verbs that only the volume's own provider can carry out: another one is never asked, so that nothing is
// recorded that could not be done. A deletion that was begun is joined all the same.
var calls = []Verb{Expand, Snapshot, Delete}

// May is the law of what may be asked of a volume in which phase. Foreign says why its plugin must not be asked about
// it; empty when it may. The error is in one form for all verbs: what the volume is, and the way out.
func May(v *volume.Volume, verb Verb, foreign string) error {
	subject := fmt.Sprintf("volume %q", v.ID.String())
	refuse := func(kind fault.Kind, why, hint string) error {
		op, _, _ := strings.Cut(string(verb), " ")
		return fault.WithHint(fault.New(kind, op, subject, why), hint)
	}
	if !slices.Contains(begun[v.Status.Phase], verb) {
		kind, why, hint := standing(v)
		return refuse(kind, why, hint)
	}
	if foreign != "" && slices.Contains(calls, verb) && v.Status.Phase != volume.PhaseDeleting && !v.OwnsNothing() {
		return refuse(fault.NotReady, foreign, "")
	}
	return nil
}

// standing says what a volume is that is not ready, and how that ends.
func standing(v *volume.Volume) (kind fault.Kind, why, hint string) {
	id := v.ID.Typed()
	follow := "wait for its end: berth volume status " + id
	switch v.Status.Phase {
	case volume.PhaseCreating:
		return fault.Busy, "it is being created at the provider", follow
	case volume.PhaseExpanding:
		return fault.Busy, "it is being expanded at the provider", follow
	case volume.PhaseDeleting:
		return fault.Busy, "it is being deleted at the provider",
			follow + "; forget it all the same with: berth volume deregister -force -reason <reason> " + id
	case volume.PhaseConflict:
		return fault.Conflict, "it cannot be used: " + v.Status.LastError, "end it with: berth volume delete " + id
	case volume.PhaseFailed:
		return fault.Conflict, "it does not exist, because its provider refused to make it: " + v.Status.LastError,
			"create it anew, or forget it with: berth volume delete " + id
	}
	return fault.Internal, "it is " + string(v.Status.Phase), ""
}
