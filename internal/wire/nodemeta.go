package wire

import (
	"maps"
	"slices"

	"berth/internal/base/ids"
)

// Methods over the metadata of a node, served by the node.
var (
	AgentMeta    = Unary[AgentRef, NodeMetaReply]("Agent.Meta")
	AgentSetMeta = Unary[NodeMetaRequest, NodeMetaReply]("Agent.SetMeta")
)

// NodeMetaRequest changes the metadata of a node: keys that it does not name stay.
type NodeMetaRequest struct {
	Node ids.Node
	Meta MetaWords
}

// MetaWords are values by keys, and the keys that are to have none: a map with values that are nothing is refused by
// whoever decodes it.
type MetaWords struct {
	Values map[string]string `cbor:",omitempty"`
	Absent []string          `cbor:",omitempty"`
}

// MetaWordsOf is what a map says in which nil takes a key away.
func MetaWordsOf(all map[string]*string) MetaWords {
	w := MetaWords{Values: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v := all[key]; v != nil {
			w.Values[key] = *v
		} else {
			w.Absent = append(w.Absent, key)
		}
	}
	return w
}

// Map is the map that says it.
func (w MetaWords) Map() map[string]*string {
	out := map[string]*string{}
	for key, v := range w.Values {
		out[key] = &v
	}
	for _, key := range w.Absent {
		out[key] = nil
	}
	return out
}

// NodeMetaReply is the metadata of a node: Dynamic, which was said at run time, laid over Static, its configuration,
// makes Meta. A key of Dynamic without a value is taken away from what is configured.
type NodeMetaReply struct {
	Meta    map[string]string
	Dynamic MetaWords
	Static  map[string]string
}
