package api

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
