package scheduler

import (
	"crypto/sha256"
	"encoding/hex"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/volume"
	"berth/internal/scheduler/diff"
)

// Plan is what an evaluation wants to be committed. The planner checks it against the latest state and may reject some
// of its placements.
type Plan struct {
	Place   []*Placement
	InPlace []*alloc.Alloc
	Stop    []Stop
	// Retry marks failed allocs with the evaluation that will replace them.
	Retry []Retry
	// Eval is the evaluation with its outcome; Evals are made or ended beside it: blocked ones, follow-ups. They are
	// committed only if the whole plan is.
	Eval  *eval.Eval
	Evals []*eval.Eval
	// AllAtOnce: when the planner rejects one placement it rejects them all.
	AllAtOnce bool
	// Deployment begins with the placements, of whatever is left of them; nil: none begins.
	Deployment *deployment.Deployment
}

// Placement is a new alloc with the claims that it takes.
type Placement struct {
	Alloc  *alloc.Alloc
	Claims []*volume.Claim
	// Ends is the predecessor, which is stopped only together with this placement; nil: none.
	Ends *Stop
}

// Stop ends an alloc. Lost: its node is gone.
type Stop struct {
	Alloc       ids.Alloc
	Node        ids.Node
	Description string
	Lost        bool
}

// Retry names the evaluation that will replace a failed alloc.
type Retry struct {
	Alloc ids.Alloc
	Eval  ids.Eval
}

// Empty reports a plan that changes no alloc.
func (p *Plan) Empty() bool { return len(p.Place)+len(p.InPlace)+len(p.Stop)+len(p.Retry) == 0 }

// Explanation tells people what a plan does and why it does no more.
type Explanation struct {
	Changes map[string]diff.Changes
	Failed  map[string]*alloc.Metric
	Queued  map[string]int
	// Storage: some placement failed for want of a volume.
	Storage bool
	// Rolling: an update goes on once the allocs placed so far are healthy. Halted is the first of them that is not;
	// nil: there is none.
	// Held is what it waits for other than that; empty: for nothing.
	Rolling bool
	Halted  *alloc.Alloc
	Held    string
	// Leaving: successors wait for the end of stopped allocs.
	Leaving bool
	// Making are volumes that are being made and that nothing else keeps allocs from.
	Making []ids.Volume
	// Later is how many placements are left to the evaluation that follows, because one makes only so many.
	Later int
}

// derive makes a UUID that follows from its parts, so that the same evaluation of the same state makes the same plan.
func derive(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	b := h.Sum(nil)[:16]
	b[6] = b[6]&0x0f | 0x80 // version 8: made by an application's own rule
	b[8] = b[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], b[0:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:36], b[10:16])
	out[8] = '-'
	out[13] = '-'
	out[18] = '-'
	out[23] = '-'
	return string(out[:])
}
