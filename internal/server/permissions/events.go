package permissions

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Visibility is by what events of a topic may be seen: by a capability for the object that rules of a kind name.
type Visibility struct {
	Kind acl.Kind
	Any  acl.Capability
}

var (
	byJobs    = Visibility{acl.Namespace, acl.ReadJob}
	byVolumes = Visibility{acl.Namespace, acl.CSIReadVolume}
	byAll     = Visibility{wire.Management, acl.Write}
)

// Topics are the topics of events, with by what they may be seen.
var Topics = map[string]Visibility{
	wire.TopicJob:        byJobs,
	wire.TopicEval:       byJobs,
	wire.TopicAlloc:      byJobs,
	wire.TopicDeployment: byJobs,
	wire.TopicService:    byJobs,
	wire.TopicVolume:     byVolumes,
	wire.TopicClaim:      byVolumes,
	wire.TopicPlugin:     {acl.Plugin, acl.Read},
	wire.TopicNode:       {acl.Node, acl.Read},
	wire.TopicNodePool:   {acl.NodePool, acl.Read},
	wire.TopicACLToken:   byAll,
	wire.TopicACLPolicy:  byAll,
	wire.TopicACLRole:    byAll,
}

// Of says what has to be seen of an object for an event of it: what is in a namespace is seen with that, and node pools
// by their names.
func (s Visibility) Of(ns ids.Namespace, key string) string {
	switch s.Kind {
	case acl.Namespace:
		return string(ns)
	case acl.NodePool:
		return key
	}
	return ""
}

var events = []entry{
	// Each event is judged when it is sent; to follow them takes the right to some of those that are asked for.
	opens(wire.EventStream, func(r *wire.EventRequest, _ *state.Snap) (out []need) {
		for _, topic := range slices.Sorted(maps.Keys(r.Topics)) {
			if s, known := Topics[topic]; known {
				out = append(out, s.needs(r.Namespace, s.Any))
			}
		}
		if len(out) == 0 {
			out = append(out, byJobs.needs(r.Namespace, acl.ReadJob, acl.CSIReadVolume))
		}
		return out
	}),
}

func (s Visibility) needs(ns ids.Namespace, any ...acl.Capability) need {
	n := need{Need: wire.Need{Kind: s.Kind, Any: any}}
	switch {
	case s.Kind == acl.NodePool, s.Kind == acl.Namespace && (ns == "" || ns == wire.AllNamespaces):
		n.Somewhere = true
	case s.Kind == acl.Namespace:
		n.Name = string(ns)
	}
	return n
}
