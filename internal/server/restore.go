package server

import (
	"bytes"
	"context"

	"berth/internal/server/state"
)

// Restore replaces the state. The leader's work ends before: prepare reads the last of the present state and returns
// the one that takes its place, and nothing is proposed between. Then another term begins.
func (s *Server) Restore(
	ctx context.Context, prepare func(present *state.Snap, index uint64) (*state.Snap, error),
) error {
	resume := s.log.Pause()
	defer resume()
	for {
		changed := s.lead.changed.C()
		if ended, _ := s.lead.ended(); ended {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	if err := s.log.Barrier(ctx); err != nil {
		return err
	}
	next, err := prepare(s.store.Snapshot(), s.log.LastIndex()+1)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := next.Persist(&data); err != nil {
		return err
	}
	return s.log.Restore(ctx, next.Index(), data.Bytes())
}
