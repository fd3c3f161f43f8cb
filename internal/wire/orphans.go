package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// OrphanAdopt gives orphans of one job to the servers' state.
var OrphanAdopt = Unary[OrphanAdoptRequest, OrphanAdoptReply]("Orphan.Adopt")

// NodeReplace takes the word of a person that a machine will not come back.
var NodeReplace = Unary[NodeReplaceRequest, NodeReplaceReply]("Node.Replace")

// NodeReplaceRequest attests that the boot of Old is dead; New does its work.
type NodeReplaceRequest struct {
	Old, New ids.Node
	Reason   string
	By       string
}

// NodeReplaceReply tells what was given up. Lost are volumes that lived on the node alone.
type NodeReplaceReply struct {
	Index          uint64
	Allocs, Claims int
	Lost           []volume.ID
}

// Orphan is an alloc that its node keeps although nobody decides about it, as the node knows it. Received is the last
// state of servers that knew it; zero when the node's record is lost.
type Orphan struct {
	Bundle   alloc.Bundle
	Received lineage.Point
	Volumes  []HeldVolume
}

// HeldVolume is what a node holds of a volume for an alloc, with all that its undo needs.
type HeldVolume struct {
	volume.StagingKey
	Volume         volume.ID
	Alias          string
	Epoch          volume.Epoch
	ReadOnly       bool
	Generation     uint64 // of the attachment
	AccessMode     volume.AccessMode
	AttachmentMode volume.AttachmentMode
	MountOptions   *volume.MountOptions
	VolumeContext  map[string]string
	PublishContext map[string]string
}

// OrphanAdoptRequest names orphans of one job. Seen is the digest of the job that was shown to the person (DigestOf):
// the node is asked again, and must not give another. As is the job's new id; empty: it keeps its own.
type OrphanAdoptRequest struct {
	Orphans []AgentRef
	As      ids.Job
	Seen    string
	By      string
}

// OrphanAdoptReply tells what the adoption made.
type OrphanAdoptReply struct {
	Index    uint64
	Job      ids.Job
	Eval     ids.Eval
	Warnings []string
}

// DigestOf tells two descriptions of a job apart.
func DigestOf(j *job.Job) (string, error) {
	data, err := Encode(j)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}
