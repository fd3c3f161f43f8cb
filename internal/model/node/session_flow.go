package node

import "slices"

// SessionFacts are what decides over a registration beside the stored session and what the agent says.
type SessionFacts struct {
	// Lost: this state does not continue the one that accepted the agent's last session. It cannot know how the chain
	// went on.
	Lost bool
	// Readmitted: the agent shows the token by which a person lets it take up the identity.
	Readmitted bool
	// Silent: nothing was heard of the stored session for a full time, by a leader that listened.
	Silent bool
}

// Admission is what becomes of a registration.
type Admission string

// Admissions.
const (
	AdmitBegins     Admission = "begins"  // no session is stored: the chain begins
	AdmitRepeats    Admission = "repeats" // it is the stored session
	AdmitFollows    Admission = "follows"
	AdmitWaits      Admission = "waits"      // until the stored session, of another boot, is silent
	AdmitCopy       Admission = "copy"       // it follows another session than the stored one
	AdmitSuperseded Admission = "superseded" // a later session was accepted
)

// Admit is the law of a node's chain of sessions. The kernel runs one boot at a time, so within a boot the later start
// is the right one; another boot is believed when nothing of the stored one is left, or nothing of it is heard. An
// agent that follows nothing has lost its store: it is believed within the boot and in the server's own process, which
// holds the lock of the data directory, and by the token that a person had made for it, which says no more than the
// right previous epoch would.
func Admit(s *Session, r Registration, f SessionFacts) Admission {
	switch {
	case s == nil:
		return AdmitBegins
	case s.Epoch == r.Next && s.Machine.Boot == r.Machine.Boot:
		return AdmitRepeats
	case slices.Contains(s.Superseded, r.Next):
		return AdmitSuperseded
	case s.Open:
		return AdmitFollows
	case len(r.Previous) == 0 && r.InProcess && s.Machine.Boot == r.Machine.Boot:
		return AdmitFollows
	case !f.Lost && !f.Readmitted && !slices.Contains(r.Previous, s.Epoch):
		return AdmitCopy
	case s.Machine.Boot == r.Machine.Boot, r.InProcess, s.Left, f.Silent:
		return AdmitFollows
	}
	return AdmitWaits
}

// over reports whether a registration proves that this boot has ended, unless it is the same one: a machine runs one
// boot at a time. A server knows the machine of a node in its own process; there only a difference speaks against it.
// Any other node must show that its machine is the same.
func (m Machine) over(r Registration) bool {
	n := r.Machine
	if m.Boot == n.Boot {
		return true
	}
	if r.InProcess {
		return agree(m.Product, n.Product) && agree(m.ID, n.ID)
	}
	return m.Product != "" && m.Product == n.Product && m.ID != "" && m.ID == n.ID
}

// agree reports whether two readings may be of one machine: they are equal, or one is missing.
func agree(a, b string) bool { return a == b || a == "" || b == "" }
