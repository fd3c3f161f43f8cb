package pluginhost

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
)

// probePeriod is how often a plugin that is connected is asked whether it serves, and how long it may take to say so.
// Its streams may be silent for as long as nothing changes, so that no event tells a process that stands still from one
// that has nothing to say; and a connection by a socket of the node is not ended by it.
const probePeriod = 10 * time.Second

// probe asks the plugin again and again whether it serves, and tells when it does not answer, and when it does again.
// Nobody ends it for that: its tasks may go on, and it may, too.
func (h *Host) probe(ctx context.Context, p *Process) error {
	period := h.cfg.ProbePeriod
	if period <= 0 {
		period = probePeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		why := h.silent(ctx, p, period)
		if ctx.Err() != nil {
			return nil
		}
		if silent || why != nil {
			h.use.Answers(why)
		}
		silent = why != nil
	}
}

// silent is why a plugin is of no use at the moment; nil: it answers.
func (h *Host) silent(ctx context.Context, p *Process, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := serves(limited, p.Conn)
	refuse := func(text, hint string) error {
		return fault.WithHint(fault.New(fault.NotReady, "use", h.Subject(), text), hint)
	}
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return refuse(fmt.Sprintf("process %d does not answer", p.rec.PID), fmt.Sprintf(
			"it is asked again and again; if it stands still, end it (kill -KILL %d): it is started again then, and "+
				"takes up what it had", p.rec.PID))
	case err == nil && answer != grpc_health_v1.HealthCheckResponse_SERVING:
		return refuse("it says that it does not serve", "what it said stands in "+h.cfg.stderrPath())
	}
	return nil // another error is its end, which others notice
}

// Answers reports whether the process answers.
func (p *Process) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probePeriod)
	defer cancel()
	_, err := serves(ctx, p.Conn)
	return err == nil
}

// serves asks a plugin whether it does.
func serves(ctx context.Context, conn *grpc.ClientConn) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	h, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	return h.GetStatus(), err
}
