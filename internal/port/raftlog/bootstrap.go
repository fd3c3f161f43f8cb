package raftlog

import (
	"fmt"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

const firstTerm = 1

// bootstrap makes the first entry, which says who the members are: of a lone server that it is alone. The library does
// so by two writes, of the term and of the entry, and takes the first for the proof of both: cut off between them, it
// would never lead. In the first term nothing but that entry is ever written, so it is made until it is there. An empty
// log that has reached a later term is another matter: it was lost.
func (l *Log) bootstrap(store *guard, snaps raft.SnapshotStore, members []raft.Server) error {
	last, err := store.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	kept, err := snaps.List()
	if err != nil || len(kept) > 0 {
		return err
	}
	term, err := store.GetUint64(files.CurrentTerm)
	if err != nil {
		return err
	}
	if term > firstTerm {
		return fault.WithHint(
			fault.New(fault.Internal, "open log", l.cfg.Dir,
				fmt.Sprintf("it holds neither entries nor a snapshot, and has reached term %d: they were lost", term)),
			"restore the directory from a copy; or, to begin with an empty state, move it away: what runs goes on")
	}
	if err := store.SetUint64(files.CurrentTerm, firstTerm); err != nil {
		return err
	}
	return store.StoreLog(&raft.Log{
		Index: 1,
		Term:  firstTerm,
		Type:  raft.LogConfiguration,
		Data:  raft.EncodeConfiguration(raft.Configuration{Servers: members}),
	})
}
