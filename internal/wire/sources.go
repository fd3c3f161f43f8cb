package wire

import (
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/render"
)

// NodeSources tells a node what the templates of tasks that are placed on it read.
var NodeSources = Unary[SourcesRequest, SourcesReply]("Node.Sources")

// SourcesRequest asks for what templates read, of all tasks of a node at once. The call blocks until something is
// another thing than was seen, or Wait ended.
type SourcesRequest struct {
	NodeIdentity
	Tasks []TaskSources
	Wait  time.Duration
}

// TaskSources are what the templates of a task read.
type TaskSources struct {
	Alloc   ids.Alloc
	Task    string
	Sources []render.Source
	Seen    string // SourcesAnswer.Mark of the answer before; empty: none
}

// SourcesReply has an answer for each task of which something else was seen; a reply that would be too large leaves
// some to the next call.
type SourcesReply struct{ Answers []SourcesAnswer }

// SourcesAnswer says of a task what its sources are, in their order, or why that is not said.
type SourcesAnswer struct {
	Alloc   ids.Alloc
	Task    string
	Values  []Secrets // one each, under SourceText; none: it is not there
	Refused string
	Final   bool // asking again changes nothing of the refusal
	Mark    string
}

// SourceText is the name under which a source's text is among its values.
const SourceText = "text"
