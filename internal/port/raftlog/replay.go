package raftlog

import "berth/internal/port/raftlog/files"

// Replay brings what lies in the directory of a log that nobody uses to a state machine, as a start does; see
// files.Replay.
func Replay(dir string, sm StateMachine) (last uint64, err error) {
	return files.Replay(dir, replayed{sm})
}

type replayed struct{ StateMachine }

// Apply applies one entry.
func (r replayed) Apply(index uint64, data []byte) {
	r.ApplyBatch([]Entry{{Index: index, Data: data}})
}
