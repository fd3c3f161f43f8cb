package storage

import (
	"cmp"
	"context"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/views"
	"berth/internal/wire"
)

// defaultWait is how long a call waits for the provider when the caller named no time; the intent goes on after it.
const defaultWait = 2 * time.Minute

// patience bounds a wait for the end of what was recorded.
func patience(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(max(wait, 0), defaultWait))
}

// unfinished is what a caller gets when its wait is over before the work is. Who named a time knows that the work goes
// on, and gets what it waits for; others expect an end, and get an error.
func unfinished(ctx context.Context, op, subject, waits, follow string, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if wait > 0 {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Timeout, op, subject, "it is not finished after "+defaultWait.String()+"; "+waits),
		"the work goes on; follow it with: "+follow)
}

// accepted is the answer about a volume whose intent goes on.
func (e *Endpoints) accepted(
	ctx context.Context, s *state.Snap, v *volume.Volume, op string, wait time.Duration,
) (*wire.VolumeWriteReply, error) {
	waits := e.waitsFor(s, v)
	subject, follow := `volume "`+v.ID.String()+`"`, "berth volume status "+v.ID.Typed()
	if err := unfinished(ctx, op, subject, waits, follow, wait); err != nil {
		return nil, err
	}
	return &wire.VolumeWriteReply{Index: max(s.Index(), 1), Volume: v, Outcome: wire.Accepted, Waits: waits}, nil
}

// waitsFor says what the operation of a volume waits for.
func (e *Endpoints) waitsFor(s *state.Snap, v *volume.Volume) string {
	view := views.Of(s, nil).Volume(v)
	view.State = volume.Describe(volume.Story{
		Volume:      v,
		Claims:      view.Claims,
		Attachments: view.Attachments,
		OnNodes:     view.OnNodes,
	})
	if why := s.Plugin(nil, v.Spec.Plugin).Foreign(v.Status.Provider); why != "" {
		return strings.Join(append(view.State, why), "; ")
	}
	if executor, why := e.cfg.Controllers.Executor(s, v.Spec.Plugin, v.Status.HomeNode); executor == "" {
		view.State = append(view.State, why)
	}
	return strings.Join(view.State, "; ")
}
