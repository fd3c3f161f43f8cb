package api

// Orphan is an allocation that its node keeps although nobody decides about it, in full.
type Orphan struct {
	AllocID    string
	NodeID     string
	Name       string
	TaskGroup  string
	Digest     string // of Job; an adoption names what was shown
	RecordLost bool   // the node has lost its record, and knows it by what holds its processes
	Job        *Job
	Volumes    []*OrphanVolume
}

// OrphanVolume is what the node holds of a volume for an orphan.
type OrphanVolume struct {
	ID             string
	Namespace      string
	Alias          string // of the group's volume block
	PluginID       string
	ExternalID     string
	AccessMode     string
	AttachmentMode string
	FSType         string
	ReadOnly       bool
	Context        map[string]string // as the provider gave it
}

// OrphanRef names an orphan and its node.
type OrphanRef struct {
	NodeID  string
	AllocID string
}

// OrphanAdoptRequest gives orphans of one job to the servers. As is the job's new id; empty: it keeps its own.
type OrphanAdoptRequest struct {
	Orphans []*OrphanRef
	As      string
	Digest  string
}

// OrphanAdoptResponse tells what an adoption made.
type OrphanAdoptResponse struct {
	JobID    string
	EvalID   string // empty: there is nothing to follow
	Warnings string
}

// NodeReplaceRequest attests that a machine is dead, and names the node that does its work.
type NodeReplaceRequest struct {
	NewNodeID string
	Reason    string
}

// NodeReplaceResponse tells what was given up.
type NodeReplaceResponse struct {
	Allocs      int      // that are lost by this
	Claims      int      // that ended
	LostVolumes []string // that lived on the node alone, as namespace/id
}
