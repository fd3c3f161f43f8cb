package raftlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/raftlog/files"
)

// checked is a Transport over which no damaged entry passes: one that arrives is refused before Raft sees it, so that
// nothing is dropped for its sake and the leader sends it again; one that is to be sent is not.
type checked struct {
	Transport
	log    *slog.Logger
	damage *damage
	store  *guard
	snaps  *files.Snapshots
	sound  chan raft.RPC // what has arrived and may be seen
}

// checkedPreVote is one whose Transport can ask for votes beforehand.
type checkedPreVote struct {
	*checked
	raft.WithPreVote
}

func newChecked(t Transport, log *slog.Logger, store *guard, snaps *files.Snapshots) (c *checked, trans Transport) {
	c = &checked{
		Transport: t,
		log:       log,
		damage:    store.damage,
		store:     store,
		snaps:     snaps,
		sound:     make(chan raft.RPC),
	}
	if pre, ok := t.(raft.WithPreVote); ok {
		return c, checkedPreVote{c, pre}
	}
	return c, c
}

// run looks at what arrives until ctx ends.
func (c *checked) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case rpc := <-c.Transport.Consumer():
			if err := c.arrived(rpc); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			if has, err := c.has(rpc); has || err != nil {
				c.keep(rpc, err)
				continue
			}
			select {
			case c.sound <- rpc:
			case <-ctx.Done():
				rpc.Respond(nil, raft.ErrRaftShutdown)
			}
		}
	}
}

// refuse answers what arrives at a server that waits until its log is mended.
func refuse(ctx context.Context, t Transport) {
	for {
		select {
		case <-ctx.Done():
			return
		case rpc := <-t.Consumer():
			rpc.Respond(nil, fault.New(fault.Unavailable, "answer", "server", "its log is damaged, and being mended"))
		}
	}
}

func (c *checked) arrived(rpc raft.RPC) error {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok {
		return nil
	}
	for _, e := range req.Entries {
		if err := files.Sound(e); err != nil {
			c.log.Error("a damaged entry came from the leader; it is refused, and the leader sends it again",
				logkey.Index, e.Index, "leader", string(req.ID), logkey.Error, err)
			return fault.Wrap(err, fault.Internal, "store", fmt.Sprintf("entry %d", e.Index))
		}
	}
	return c.overruled(req)
}

// has tells whether what arrived is a snapshot that ends with an entry of this server's log. Raft has the log kept
// then; the library drops it, and goes on as though it were there. It happens to a server whose log was mended: the
// leader does not know how far it is.
func (c *checked) has(rpc raft.RPC) (bool, error) {
	req, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	if !ok {
		return false, nil
	}
	var e raft.Log
	if c.store.GetLog(req.LastLogIndex, &e) != nil || e.Term != req.LastLogTerm {
		return false, nil
	}
	term, err := c.store.GetUint64(files.CurrentTerm)
	switch {
	case err != nil || term > req.Term:
		return false, err // an older leader's, which Raft refuses
	case term < req.Term:
		return false, fault.New(fault.Unavailable, "install", "snapshot", "a new term has begun; it is being entered")
	}
	return true, nil
}

// keep answers a snapshot that is not needed.
func (c *checked) keep(rpc raft.RPC, err error) {
	_, _ = io.Copy(io.Discard, rpc.Reader) // the leader sends it in any case
	if err != nil {
		rpc.Respond(nil, err)
		return
	}
	req, _ := rpc.Command.(*raft.InstallSnapshotRequest)
	rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: req.RPCHeader, Term: req.Term, Success: true}, nil)
}

// Consumer is what has arrived and is sound.
func (c *checked) Consumer() <-chan raft.RPC { return c.sound }

// AppendEntries sends entries, if they are sound.
func (c *checked) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	if err := c.sends(req); err != nil {
		return err
	}
	return c.Transport.AppendEntries(id, to, req, resp)
}

// AppendEntriesPipeline is AppendEntries without waiting for each answer.
func (c *checked) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := c.Transport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return checkedPipeline{p, c}, nil
}

// sends refuses what is not sound, and everything once the log is known to be damaged: this server no longer leads.
func (c *checked) sends(req *raft.AppendEntriesRequest) error {
	for _, e := range req.Entries {
		if err := files.Sound(e); err != nil {
			return fault.Wrap(err, fault.Internal, "send", fmt.Sprintf("entry %d", e.Index))
		}
	}
	return c.damage.known()
}

// Close closes the connections.
func (c *checked) Close() error {
	if closing, ok := c.Transport.(raft.WithClose); ok {
		return closing.Close()
	}
	return nil
}

type checkedPipeline struct {
	raft.AppendPipeline
	to *checked
}

// AppendEntries sends entries, if they are sound.
func (p checkedPipeline) AppendEntries(req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.to.sends(req); err != nil {
		return nil, err
	}
	return p.AppendPipeline.AppendEntries(req, resp)
}
