package volume

import "testing"

func TestNextVolumeForEveryPhase(t *testing.T) {
	phases := []Phase{PhaseCreating, PhaseReady, PhaseExpanding, PhaseDeleting, PhaseConflict, PhaseFailed}
	for _, phase := range phases {
		for _, id := range []string{"", "ext"} {
			for _, p := range []Presence{Absent, Uncertain, Present, Lost} {
				v := &Volume{Status: Status{Phase: phase, ExternalID: id, Presence: p}}
				got := NextVolume(v)
				switch {
				case got == StepDelete && (phase != PhaseDeleting || id == ""):
					t.Errorf("%s, id %q, %s: %s", phase, id, p, got)
				case got == StepForget && (phase != PhaseDeleting || id != "" || p.Exists()):
					t.Errorf("%s, id %q, %s: forgotten although something may exist", phase, id, p)
				case phase == PhaseDeleting && got == StepNone:
					t.Errorf("id %q, %s: a deletion that nobody ends", id, p)
				case (phase == PhaseConflict || phase == PhaseFailed || phase == PhaseReady) && got != StepNone:
					t.Errorf("%s: %s", phase, got)
				case phase == PhaseDeleting && id == "" && p.Exists() && got != StepCreate:
					t.Errorf("a thing whose id is not known: %s, want the call that learns it", got)
				case phase == PhaseCreating && got != StepCreate, phase == PhaseExpanding && got != StepExpand:
					t.Errorf("%s: %s", phase, got)
				}
			}
		}
	}
}
