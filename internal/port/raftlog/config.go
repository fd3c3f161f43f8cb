package raftlog

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Transport carries Raft between servers.
type Transport = raft.Transport

// Voter is a server that counts for a majority.
type Voter struct {
	ID, Address string
}

// Config says where the log lives and who keeps it. Zero numbers take the defaults.
type Config struct {
	Dir string // directory of the log and its snapshots; made if missing
	ID  string // of this server
	Log *slog.Logger
	// Network connects the servers; nil: one server alone, or those that Transport connects.
	Network Network
	// Transport is what connects them instead.
	Transport Transport
	// Voters are the first members of a cluster that is begun, the same on each of them; none: the log has its members,
	// or is given them by a leader. Never name them to a server that was a member and has lost its log.
	Voters []Voter
	// Peers are the other servers as they are known now, asked for what this one's log has lost; nil: there are none.
	Peers func() []Peer
	// SegmentSize of the write-ahead log, in bytes, allocated in advance.
	SegmentSize int
	// Reserve is how much of the disk must stay free for work that only releases; with less, new work is refused.
	Reserve uint64
	// SnapshotThreshold is after how many entries the state is written to a snapshot; TrailingLogs how many of those
	// are kept in the log all the same.
	SnapshotThreshold, TrailingLogs uint64
	// SnapshotBytes and SnapshotAge have the state written as soon as the entries since the last snapshot hold so many
	// bytes, or the first of them is so old: what a start has to apply is bounded by its size and, of a quiet server,
	// by its age.
	SnapshotBytes uint64
	SnapshotAge   time.Duration
	// interval is how often Raft looks whether a snapshot is due; 0: 30 s.
	interval time.Duration
}

// Defaults of Config.
const (
	DefaultSegmentSize       = 16 << 20
	DefaultReserve           = 64 << 20
	DefaultSnapshotThreshold = 8192
	DefaultTrailingLogs      = 10240
	DefaultSnapshotBytes     = 8 << 20
	DefaultSnapshotAge       = 10 * time.Minute
	defaultInterval          = 30 * time.Second
)

// silence is how long a follower hears nothing of its leader, at least, before it asks to be voted for, and a candidate
// waits before it asks again; up to twice as long, by chance. When the first to ask knows less than the other, which
// still believes in the leader, both pass: a leader that dies is followed within 3 s then, too.
const silence = 700 * time.Millisecond

// The time-outs of a lone voter: it needs nobody's answer, so waiting longer for one only delays the start.
const (
	loneTimeout  = 50 * time.Millisecond
	maxAppend    = 512
	closeTimeout = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.SegmentSize <= 0 {
		c.SegmentSize = DefaultSegmentSize
	}
	if c.Peers == nil {
		c.Peers = func() []Peer { return nil }
	}
	if c.Reserve == 0 {
		c.Reserve = DefaultReserve
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = DefaultSnapshotThreshold
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = DefaultTrailingLogs
	}
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, DefaultSnapshotBytes)
	c.SnapshotAge = cmp.Or(c.SnapshotAge, DefaultSnapshotAge)
	c.interval = cmp.Or(c.interval, defaultInterval)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
