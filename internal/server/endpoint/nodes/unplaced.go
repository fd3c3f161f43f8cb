package nodes

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/seldom"
	"berth/internal/model/node"
	"berth/internal/server/instances"
	"berth/internal/server/state"
)

// namedUnplaced bounds the instances that one line names, and textUnplaced what it quotes of a node.
const (
	namedUnplaced = 3
	textUnplaced  = 128
)

// unplaced remembers which instances of plugins nodes report that the servers have not placed there, so that each is
// said once. It is no state: the next leader says it once more.
type unplaced struct {
	seldom seldom.Log
	mu     sync.Mutex
	said   map[ids.Node]string
}

// say names the instances of a node that do not count, if they are others than before.
func (u *unplaced) say(log *slog.Logger, s *state.Snap, n *node.Node) {
	text, bad := unplacedOf(s, n)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said[n.ID] == text {
		return
	}
	if text == "" {
		delete(u.said, n.ID)
		return
	}
	missed, say := u.seldom.Say()
	if !say {
		return
	}
	if u.said == nil {
		u.said = map[ids.Node]string{}
	}
	u.said[n.ID] = text
	tell := log.Debug
	if bad {
		tell = log.Warn
	}
	tell("a node reports storage plugins that the servers have not placed there; they are left out", logkey.Node,
		n.ID, "instances", text, "not_said_before", missed)
}

// unplacedOf is in words what of a node's instances does not count, and whether any of that is bad; empty: all do.
func unplacedOf(s *state.Snap, n *node.Node) (text string, bad bool) {
	var out []string
	more := 0
	for _, i := range n.CSI {
		why := instances.Why(s, nil, n.ID, i)
		bad = bad || why != "" && why != instances.Ended
		switch {
		case why == "":
		case len(out) == namedUnplaced:
			more++
		default:
			out = append(out, fmt.Sprintf("%.*q as %.*q: %s", textUnplaced, i.Plugin, textUnplaced, i.Role, why))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; "), bad
}
