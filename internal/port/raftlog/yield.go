package raftlog

import (
	"context"
	"math/rand/v2"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
)

// Yield has another voter lead, any of them: where several must not lead, each of the others is found in time. It is
// false where there is no other one.
func (l *Log) Yield(ctx context.Context) (bool, error) {
	r, _, _, err := l.running()
	if err != nil {
		return false, err
	}
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return false, fault.Wrap(err, fault.Unavailable, "read", "members of the log")
	}
	var others []raft.Server
	for _, s := range f.Configuration().Servers {
		if string(s.ID) != l.cfg.ID && s.Suffrage == raft.Voter {
			others = append(others, s)
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	to := others[rand.IntN(len(others))]
	return true, l.wait(ctx, "give leadership to "+string(to.ID), func(r *raft.Raft) raft.Future {
		return r.LeadershipTransferToServer(to.ID, to.Address)
	})
}
