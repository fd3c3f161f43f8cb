// Package mending owns how a server whose log is damaged gets from the others what it lacks, before it has a state or
// takes part in Raft. Only package server uses it.
package mending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog"
	"berth/internal/wire"
)

const (
	// entriesTimeout bounds how long one server is waited for before the next one is asked.
	entriesTimeout = 10 * time.Second
	// chunk is how much of a snapshot is sent at once, in bytes.
	chunk = 256 << 10
)

// Log is what a server has of the log, damaged or not.
type Log interface {
	Entries(ctx context.Context, from uint64) (raftlog.Piece, error)
	OpenSnapshot(ctx context.Context) (*raft.SnapshotMeta, io.ReadCloser, error)
}

// Serve adds the answers to the other servers.
func Serve(s *wire.Server, log Log) {
	wire.ServerEntries.Serve(s, func(ctx context.Context, req *wire.EntriesRequest) (*wire.EntriesReply, error) {
		p, err := log.Entries(ctx, req.From)
		if err != nil {
			return nil, err
		}
		return replied(p), nil
	})
	wire.ServerSnapshot.Serve(s, func(_ *wire.Empty, to *wire.Stream[wire.LogSnapshotPart, wire.Empty]) error {
		return send(log, to)
	})
}

// send sends the newest snapshot of the log.
func send(log Log, to *wire.Stream[wire.LogSnapshotPart, wire.Empty]) error {
	meta, data, err := log.OpenSnapshot(to.Context())
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }() // it was only read
	head, err := json.Marshal(meta)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "send", "snapshot of the log")
	}
	if err := to.Send(&wire.LogSnapshotPart{Meta: head}); err != nil {
		return err
	}
	for {
		part := make([]byte, chunk)
		n, err := io.ReadFull(data, part)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return fault.Wrap(err, fault.Internal, "send", "snapshot of the log")
		}
		if n > 0 {
			if err := to.Send(&wire.LogSnapshotPart{Data: part[:n]}); err != nil {
				return err
			}
		}
		if end {
			return to.Send(&wire.LogSnapshotPart{})
		}
	}
}

func replied(p raftlog.Piece) *wire.EntriesReply {
	out := &wire.EntriesReply{
		Leading:      p.Leading,
		Term:         p.Term,
		First:        p.First,
		Last:         p.Last,
		Snapshot:     p.Snapshot,
		SnapshotTerm: p.SnapshotTerm,
	}
	for _, e := range p.Entries {
		out.Entries = append(out.Entries, wire.LogEntry{
			Index:      e.Index,
			Term:       e.Term,
			Type:       uint8(e.Type),
			Data:       e.Data,
			Extensions: e.Extensions,
			AppendedAt: e.AppendedAt,
		})
	}
	return out
}

// Peers are the servers of these names, reached by to.
func Peers(names []string, to func(server string) (wire.Conn, error)) []raftlog.Peer {
	var out []raftlog.Peer
	for _, name := range names {
		out = append(out, peer{name, to})
	}
	return out
}

// peer is another server.
type peer struct {
	name string
	to   func(server string) (wire.Conn, error)
}

// Name implements raftlog.Peer.
func (p peer) Name() string { return p.name }

// Entries implements raftlog.Peer.
func (p peer) Entries(ctx context.Context, from uint64) (raftlog.Piece, error) {
	conn, err := p.to(p.name)
	if err != nil {
		return raftlog.Piece{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, entriesTimeout)
	defer cancel()
	got, err := wire.ServerEntries.Call(ctx, conn, &wire.EntriesRequest{From: from})
	if err != nil {
		return raftlog.Piece{}, err
	}
	return piece(got), nil
}

func piece(got *wire.EntriesReply) raftlog.Piece {
	out := raftlog.Piece{
		Leading:      got.Leading,
		Term:         got.Term,
		First:        got.First,
		Last:         got.Last,
		Snapshot:     got.Snapshot,
		SnapshotTerm: got.SnapshotTerm,
	}
	for _, e := range got.Entries {
		out.Entries = append(out.Entries, &raft.Log{
			Index:      e.Index,
			Term:       e.Term,
			Type:       raft.LogType(e.Type),
			Data:       e.Data,
			Extensions: e.Extensions,
			AppendedAt: e.AppendedAt,
		})
	}
	return out
}

// Snapshot implements raftlog.Peer.
func (p peer) Snapshot(ctx context.Context) (*raft.SnapshotMeta, io.ReadCloser, error) {
	conn, err := p.to(p.name)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	from, err := wire.ServerSnapshot.Open(ctx, conn, &wire.Empty{})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	meta, err := head(from)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return meta, &parts{from: from, cancel: cancel}, nil
}

// head is what a snapshot is that comes.
func head(from *wire.Stream[wire.Empty, wire.LogSnapshotPart]) (*raft.SnapshotMeta, error) {
	first, err := from.Recv()
	if err != nil {
		return nil, err
	}
	meta := &raft.SnapshotMeta{}
	if err := json.Unmarshal(first.Meta, meta); err != nil {
		return nil, fmt.Errorf("what it says of its snapshot can't be read: %w", err)
	}
	return meta, nil
}

// parts are the data of a snapshot as it comes.
type parts struct {
	from   *wire.Stream[wire.Empty, wire.LogSnapshotPart]
	cancel context.CancelFunc
	rest   []byte
	whole  bool
}

// Read implements io.Reader. A stream that ends before its last part was cut off.
func (p *parts) Read(b []byte) (int, error) {
	for len(p.rest) == 0 && !p.whole {
		part, err := p.from.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		p.rest, p.whole = part.Data, len(part.Data) == 0
	}
	if p.whole {
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (p *parts) Close() error {
	p.cancel()
	return nil
}
