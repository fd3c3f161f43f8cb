package wire

import (
	"time"

	"berth/internal/model/trust"
)

// Methods about the servers of a cluster, served by the server half.
var (
	// ServerList tells how all servers are, as the one that leads knows.
	ServerList = Unary[Query, ServerListReply]("Server.List")
	// ServerProgress is asked of each server by the one that leads.
	ServerProgress = Unary[ProgressRequest, ProgressReply]("Server.Progress")
	// ServerAnnounce is how a server says where it is found.
	ServerAnnounce = Unary[AnnounceRequest, Written]("Server.Announce")
	// ServerRemove takes a server out of the cluster, for good.
	ServerRemove = Unary[ServerRef, Written]("Server.Remove")
	// ServerLeave is how a server that stops for good is taken out.
	ServerLeave = Unary[LeaveRequest, Written]("Server.Leave")
	// ServerTransfer has another server lead.
	ServerTransfer = Unary[ServerRef, Written]("Server.Transfer")
	// ServerEntries and ServerSnapshot tell a server whose log is damaged what another one has. Whether that one leads,
	// or has read its own log, does not matter.
	ServerEntries  = Unary[EntriesRequest, EntriesReply]("Server.Entries")
	ServerSnapshot = Bidi[Empty, Empty, LogSnapshotPart]("Server.Snapshot")
)

// EntriesRequest asks for entries of a server's log, from one on.
type EntriesRequest struct{ From uint64 }

// EntriesReply is raftlog.Piece.
type EntriesReply struct {
	Leading                bool
	Term                   uint64
	First, Last            uint64
	Snapshot, SnapshotTerm uint64
	Entries                []LogEntry
}

// LogEntry is an entry of the log, with its checksum in Extensions.
type LogEntry struct {
	Index, Term uint64
	Type        uint8
	Data        []byte
	Extensions  []byte
	AppendedAt  time.Time
}

// LogSnapshotPart is a part of a snapshot of the log: the first one has what it is in Meta, the last one is empty.
type LogSnapshotPart struct {
	Meta []byte // as the log's library writes it down
	Data []byte
}

// ServerRef names a server.
type ServerRef struct{ Name string }

// LeaveRequest asks to take out the server that speaks.
type LeaveRequest struct {
	Name string
	// AsOf is the index at which the list of servers had last changed when it was asked to leave, as far as it knew.
	AsOf uint64
}

// AnnounceRequest says where a server is found.
type AnnounceRequest struct {
	trust.ServerAt
	Seal []byte // see trust.Member
}

// ProgressRequest asks how far a server is.
type ProgressRequest struct{}

// ProgressReply is how far a server is.
type ProgressReply struct {
	Last, Term, Applied uint64            // see raftlog.Progress
	Schema              uint64            // of the commands that it understands
	Tags                map[string]string // by which people know it
	// Unready is why it must not vote yet; empty: it may.
	Unready string
	// Full is why it would refuse new work for want of room, if it led; empty: it would not.
	Full string
	// Leaves: it was asked to leave, and is not taken out yet. Stops: it is about to stop, as one that comes back.
	Leaves bool
	Stops  bool
}

// ServerStatus is how a server is.
type ServerStatus struct {
	trust.ServerAt
	Tags     map[string]string // none: it does not answer
	Joined   time.Time
	Removed  time.Time
	Member   bool // the log is kept by it
	Voter    bool
	Leader   bool
	Alive    bool   // it answers the one that leads
	Why      string // it does not, or is not well; empty: it is
	Last     uint64
	Term     uint64
	Contact  time.Duration // ago, that it answered
	Stable   time.Time     // since which it is as it is
	Unlisted bool          // it keeps the log, and is in no list
}

// ServerListReply lists the servers.
type ServerListReply struct {
	Meta
	Servers []ServerStatus
	Expect  int // servers that the cluster is to have, as the configuration of the one that leads says
}
