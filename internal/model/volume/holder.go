package volume

import (
	"fmt"
	"strings"

	"berth/internal/base/ids"
)

// Holder is who keeps a device or a mount that a node cannot undo.
type Holder struct {
	PID       int    // as the node counts; 0: no process, it is a mount
	Command   string // the process's name; its command line may hold secrets
	Namespace string // its mount namespace, as mnt:[4026531841]; empty: the node's own
	Alloc     ids.Alloc
	How       string // for people
}

// String names a holder for people.
func (h *Holder) String() string {
	if h.PID == 0 {
		return h.How + " on the node"
	}
	out := fmt.Sprintf("pid %d (%s)", h.PID, h.Command)
	if h.Alloc != "" {
		out += " of allocation " + ids.Short(h.Alloc)
	}
	if h.Namespace != "" {
		out += " in mount namespace " + h.Namespace
	}
	return out + ", " + h.How
}

// HeldBy names holders in one clause; empty: none is known.
func HeldBy(list []Holder) string {
	const few = 3
	var parts []string
	for i := range list {
		if i == few {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-few))
			break
		}
		parts = append(parts, list[i].String())
	}
	if len(parts) == 0 {
		return ""
	}
	return "held by " + strings.Join(parts, "; ")
}
