package api

import "time"

// What follows are additions of Berth to the replies of the HTTP API. Clients that do not know them skip them.

// AllocVolume tells where one volume of an allocation stands.
type AllocVolume struct {
	Alias     string
	Volume    string
	Plugin    string
	Provider  string
	ReadOnly  bool
	State     string // one sentence
	Path      string // on the node, while published
	Held      bool   // until its release is certain, also after the tasks have ended
	LastError string
	NextTry   *time.Time // after LastError, on the node
}

// NodeReason is one node's refusal of an allocation, with the way out.
type NodeReason struct {
	Node   string
	Name   string
	Reason string
	Hint   string
}

// CSIVolumeExpandRequest asks for a larger volume; sizes are bytes.
type CSIVolumeExpandRequest struct {
	CapacityMin int64
	CapacityMax int64
}

// CSIVolumeWriteResult says what a write to a volume came to.
type CSIVolumeWriteResult struct {
	// Outcome is created, registered, updated, expanded, unchanged or, when the request named how long it waits and the
	// work goes on after that, CSIVolumeAccepted.
	Outcome string
	// Changed names what differed.
	Changed []string
	// Waits says what an accepted write waits for.
	Waits string `json:",omitempty"`
}

// CSIVolumeAccepted is the outcome of a write that is not finished yet.
const CSIVolumeAccepted = "accepted"

// VolumeProvenEnd tells that a claim of the volume was ended by other evidence than its node's word.
type VolumeProvenEnd struct {
	Node   string
	Alloc  string
	Proof  string // such as attested: a person said that the node is dead
	Reason string
	By     string // who vouched for it; empty: unknown
	Time   time.Time
	Index  uint64
}

// VolumePlace tells what one node has of a volume.
type VolumePlace struct {
	Node       string
	Staged     string // absent, uncertain, present or lost
	Paths      []string
	Step       string
	LastError  string
	NextTry    time.Time
	ExpandedTo int64 // bytes; 0: it was not grown since it was staged
	// Growth tells whether the file system has taken the volume's new size: empty: it has, or need not; "pending": it
	// is tried, see LastError; "refused": not before the volume is staged anew, or its plugin has restarted.
	Growth  string         `json:",omitempty"`
	Holders []VolumeHolder `json:",omitempty"`
}

// VolumeHolder is who keeps what a node cannot undo of a volume, as it was when the node looked last.
type VolumeHolder struct {
	PID            int    // on the node; 0: no process, but a mount on the node
	Command        string // the name of the process, without its arguments
	MountNamespace string // empty: the node's own
	Alloc          string // whose control group it is in; empty: none
	How            string // what it keeps it by, for people
}
