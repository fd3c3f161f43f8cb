package filter

import (
	"strings"

	"berth/internal/model/node"
)

// Target is one side of a constraint: a literal or the name of something that nodes have.
type Target struct {
	kind    targetKind
	key     string
	literal string
}

type targetKind uint8

const (
	literal targetKind = iota
	nodeID
	nodeName
	nodeDatacenter
	nodeRegion
	nodeClass
	nodePool
	nodeAttribute
	nodeMeta
	unknownTarget
)

var nodeTargets = map[string]targetKind{
	"node.unique.id": nodeID, "node.unique.name": nodeName, "node.datacenter": nodeDatacenter,
	"node.region": nodeRegion, "node.class": nodeClass, "node.pool": nodePool,
}

// ParseTarget reads a constraint's attribute or value.
func ParseTarget(text string) Target {
	inner, ok := strings.CutPrefix(text, "${")
	if !ok || !strings.HasSuffix(inner, "}") {
		return Target{kind: literal, literal: text}
	}
	inner = strings.TrimSuffix(inner, "}")
	if k, ok := nodeTargets[inner]; ok {
		return Target{kind: k}
	}
	if key, ok := strings.CutPrefix(inner, "attr."); ok {
		return Target{kind: nodeAttribute, key: key}
	}
	if key, ok := strings.CutPrefix(inner, "meta."); ok {
		return Target{kind: nodeMeta, key: key}
	}
	return Target{kind: unknownTarget, literal: text}
}

// Literal is a side that stands for itself.
func Literal(text string) Target { return Target{kind: literal, literal: text} }

// Value returns what the node has; false: it has no such thing.
func (t Target) Value(n *node.Node, region string) (string, bool) {
	switch t.kind {
	case literal:
		return t.literal, true
	case nodeID:
		return string(n.ID), true
	case nodeName:
		return n.Name, true
	case nodeDatacenter:
		return n.Datacenter, true
	case nodeRegion:
		return region, true
	case nodeClass:
		return n.NodeClass, n.NodeClass != ""
	case nodePool:
		return node.PoolOf(n.NodePool), true
	case nodeAttribute:
		v, ok := n.Attributes[t.key]
		return v, ok
	case nodeMeta:
		v, ok := n.Meta[t.key]
		return v, ok
	}
	return "", false
}
