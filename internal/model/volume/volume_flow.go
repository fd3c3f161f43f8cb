package volume

// VolumeStep is the one thing that a volume's keeper does next at the provider.
type VolumeStep string

// Steps of a volume.
const (
	StepNone   VolumeStep = ""
	StepCreate VolumeStep = "create" // also the replay that learns the id of a thing that is to be deleted
	StepDelete VolumeStep = "delete"
	StepExpand VolumeStep = "expand"
	StepForget VolumeStep = "forget" // nothing is left at the provider
)

// NextVolume is the law of a volume's life at its provider: an intent is repeated with equal arguments until its end is
// known; deleting a thing whose id is not known yet first learns the id; a record in conflict owns nothing; what is
// suspended waits for a person.
func NextVolume(v *Volume) VolumeStep {
	if v.Status.Suspended {
		return StepNone
	}
	switch v.Status.Phase {
	case PhaseCreating:
		return StepCreate
	case PhaseExpanding:
		return StepExpand
	case PhaseDeleting:
		switch {
		case v.Status.ExternalID != "", v.Status.HiddenID != "":
			return StepDelete
		case v.Status.Presence.Exists():
			return StepCreate
		}
		return StepForget
	}
	return StepNone
}
