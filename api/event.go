package api

import "encoding/json"

// Topics of events: what kind of object changed. TopicAll is every topic, or every key.
const (
	TopicAll        = "*"
	TopicJob        = "Job"
	TopicEvaluation = "Evaluation"
	TopicAllocation = "Allocation"
	TopicDeployment = "Deployment"
	TopicNode       = "Node"
	TopicNodePool   = "NodePool"
	TopicService    = "Service"
	TopicCSIVolume  = "CSIVolume"
	TopicClaim      = "Claim"
	TopicCSIPlugin  = "CSIPlugin"
	TopicACLToken   = "ACLToken"
	TopicACLPolicy  = "ACLPolicy"
	TopicACLRole    = "ACLRole"
)

// Events are all changes of one index, in the event stream. The empty object is a heartbeat.
type Events struct {
	Index  uint64  `json:",omitempty"`
	Events []Event `json:",omitempty"`
	// Error says why the stream ends here; empty: it goes on.
	Error string `json:",omitempty"`
}

// Event is one changed object. Payload has a member that is named after the kind of object: as that is after the
// change, or was before it was removed; then there is another one, Deleted.
type Event struct {
	Topic      string
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]json.RawMessage
}

// EventOptions select events.
type EventOptions struct {
	// Topics are the keys by topic; none: everything.
	Topics map[string][]string
	// Index is that of the first events that are wanted; 0: all that is remembered.
	Index uint64
}

// ClaimEvent is a claim on a volume as events show it.
type ClaimEvent struct {
	Namespace   string
	VolumeID    string
	PluginID    string
	AllocID     string
	NodeID      string
	JobID       string
	AccessMode  string
	ReadOnly    bool
	State       string
	Reason      string `json:",omitempty"` // why its release is not finished
	CreateIndex uint64
	ModifyIndex uint64
}
