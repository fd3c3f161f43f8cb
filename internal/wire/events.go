package wire

import (
	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/derive/service"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/volume"
)

// EventStream tells what changes, as the server that is asked sees it: any server answers, also one that does not lead.
var EventStream = Bidi[EventRequest, Empty, EventBatch]("Event.Stream")

// Topics of events: what kind of object changed.
const (
	TopicAll        = "*"
	TopicJob        = "Job"
	TopicEval       = "Evaluation"
	TopicAlloc      = "Allocation"
	TopicDeployment = "Deployment"
	TopicNode       = "Node"
	TopicNodePool   = "NodePool"
	TopicService    = "Service"
	TopicVolume     = "CSIVolume"
	TopicClaim      = "Claim"
	TopicPlugin     = "CSIPlugin"
	TopicACLToken   = "ACLToken"
	TopicACLPolicy  = "ACLPolicy"
	TopicACLRole    = "ACLRole"
)

// EventRequest asks for events.
type EventRequest struct {
	Namespace ids.Namespace       // of those that have one; AllNamespaces: all that the caller may see
	Topics    map[string][]string // keys by topic; "*" is every topic, or every key
	Index     uint64              // the first that is wanted; what is no longer remembered is passed over
}

// EventBatch are the events of one entry of the log that a caller asked for and may see. One without any is a sign of
// life.
type EventBatch struct {
	Index  uint64
	Events []*Event
}

// Event is a change of one object.
type Event struct {
	Topic, Type, Key string
	Keys             []string // other keys by which it is found
	Namespace        ids.Namespace
	Removed          bool   // the object is there no more
	Object           []byte // an EventObject, encoded once for all who read it
}

// EventObject is the object that an event is about, as it is after the change, or was before it was removed. One of its
// fields is set.
type EventObject struct {
	Job        *JobView
	Eval       *eval.Eval
	Alloc      *alloc.Bundle // of its job the group alone
	Deployment *progress.View
	Node       *node.Node // without the digest of its secret
	NodePool   *partition.NodePool
	Service    *service.Registration
	Volume     *VolumeView
	Claim      *volume.Claim
	Plugin     *PluginView
	Token      *ACLTokenView
	Policy     *acl.Policy
	Role       *acl.Role
}
