package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/internal/base/confined"
	"berth/internal/base/fault"
)

// Bounds of all children together.
const (
	// atOnce is how many run; the memory of all is within the bound of one times this.
	atOnce = 2
	// waiting is how many requests wait for their turn, and patience for how long.
	waiting  = 32
	patience = 10 * time.Second
)

// Work is the evaluation of one job file. Expressions nest no deeper than the parser's own limit; what it yields is of
// a size that registration takes.
var Work = confined.Work{
	Role:      "berth-hcl",
	Verb:      "evaluate",
	Object:    "the job file",
	Doing:     "evaluating it",
	Process:   "the evaluation of a job file",
	Result:    "the job that it yields",
	Elsewhere: "; or evaluate it where you are, with: berth job run FILE",
	Smaller: "write the file with fewer or smaller loops; or evaluate it where you are, which asks no server, with: " +
		"berth job run FILE",
	CPU:    2 * time.Second,
	Wall:   20 * time.Second,
	Memory: 256 << 20,
	Output: 8 << 20,
}

// Parser evaluates job files in children.
type Parser struct {
	work  confined.Work
	turns chan struct{} // a token for each that runs
	queue chan struct{} // a token for each that waits or runs
}

// New returns a parser. It starts nothing.
func New() *Parser {
	return &Parser{
		work:  Work,
		turns: make(chan struct{}, atOnce),
		queue: make(chan struct{}, atOnce+waiting),
	}
}

// Parse evaluates a job file and returns the job as JSON. The child ends with ctx. A fault of kind Invalid is the
// author's: the file has problems, or evaluating it passes a bound. Busy: too many are being evaluated.
func (p *Parser) Parse(ctx context.Context, req *Request) (json.RawMessage, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	input, err := json.Marshal(req)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode", "a job file")
	}
	return p.work.Run(ctx, input)
}

// enter waits for a turn.
func (p *Parser) enter(ctx context.Context) (leave func(), err error) {
	busy := func(text string) error {
		return fault.WithHint(fault.New(fault.Busy, "evaluate", "the job file", text),
			"try again later"+Work.Elsewhere)
	}
	select {
	case p.queue <- struct{}{}:
	default:
		return nil, busy(fmt.Sprintf("%d others are being evaluated or wait for it", atOnce+waiting))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p.turns <- struct{}{}:
		return func() { <-p.turns; <-p.queue }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = busy(fmt.Sprintf("others were being evaluated for %s", patience))
	}
	<-p.queue
	return nil, err
}
