package raftlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
)

// journal is a state machine that keeps every number in the order in which it was applied.
type journal struct {
	mu      sync.Mutex
	applied []uint64
}

func (j *journal) ApplyBatch(entries []Entry) []any {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		j.applied = append(j.applied, binary.BigEndian.Uint64(e.Data))
	}
	return make([]any, len(entries))
}

func (j *journal) Snapshot() (func(io.Writer) error, error) {
	kept := j.all()
	return func(w io.Writer) error { return binary.Write(w, binary.BigEndian, kept) }, nil
}

func (j *journal) Restore(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.applied = make([]uint64, len(data)/8)
	return binary.Read(bytes.NewReader(data), binary.BigEndian, j.applied)
}

func (j *journal) all() []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.applied)
}

// said is what a server has logged.
type said struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// member is one server of a cluster in one process, with files of its own.
type member struct {
	name string
	dir  string
	runs int
	said said

	// While it runs.
	log    *Log
	heard  atomic.Pointer[Log] // by the others
	sm     *journal
	trans  *raft.InmemTransport
	cancel context.CancelFunc
	ended  chan error
}

// cluster is three servers, whose time is a bubble's.
type cluster struct {
	t       *testing.T
	members []*member
	acked   []uint64
	next    uint64
	// strangers: those that are started know of no others.
	strangers bool
	unknown   atomic.Pointer[member] // nobody knows it yet
	damages   *atomic.Bool           // whether an entry was damaged on its way; nil: none is
}

// peer reaches a member of a cluster as another one does.
type peer struct{ *member }

func (p peer) Name() string { return p.name }

func (p peer) Entries(ctx context.Context, from uint64) (Piece, error) {
	log := p.heard.Load()
	if log == nil {
		return Piece{}, fault.New(fault.Unavailable, "ask", p.name, "it does not run")
	}
	return log.Entries(ctx, from)
}

func (p peer) Snapshot(ctx context.Context) (*raft.SnapshotMeta, io.ReadCloser, error) {
	log := p.heard.Load()
	if log == nil {
		return nil, nil, fault.New(fault.Unavailable, "ask", p.name, "it does not run")
	}
	return log.OpenSnapshot(ctx)
}

// newCluster makes a cluster and starts it; it is stopped with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	base := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		c.members = append(c.members, &member{name: name, dir: filepath.Join(base, name+"0")})
	}
	for _, m := range c.members {
		c.start(m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			c.stop(m)
		}
	})
	return c
}

func (c *cluster) config(m *member) Config {
	cfg := Config{
		Dir:           m.dir,
		ID:            m.name,
		Log:           slog.New(slog.NewTextHandler(&m.said, nil)),
		SegmentSize:   16 << 10,
		Reserve:       1 << 20,
		TrailingLogs:  60,
		SnapshotBytes: 1 << 30,
		SnapshotAge:   1 << 60,
	}
	for _, other := range c.members {
		cfg.Voters = append(cfg.Voters, Voter{ID: other.name, Address: other.name})
	}
	cfg.Peers = func() (out []Peer) {
		for _, other := range c.members {
			if other != m && !c.strangers && other != c.unknown.Load() {
				out = append(out, peer{other})
			}
		}
		return out
	}
	return cfg
}

func (c *cluster) start(m *member) {
	c.t.Helper()
	cfg := c.config(m)
	_, m.trans = raft.NewInmemTransport(raft.ServerAddress(m.name))
	for _, other := range c.members {
		if other != m && other.trans != nil {
			m.trans.Connect(other.trans.LocalAddr(), other.trans)
			other.trans.Connect(m.trans.LocalAddr(), m.trans)
		}
	}
	cfg.Transport = m.trans
	if c.damages != nil {
		cfg.Transport = damaging{m.trans, c.damages}
	}
	m.sm = &journal{}
	m.log = New(cfg, m.sm)
	m.heard.Store(m.log)
	m.runs++
	ctx, cancel := context.WithCancel(c.t.Context())
	m.cancel, m.ended = cancel, make(chan error, 1)
	log, ended := m.log, m.ended
	go func() { ended <- log.Run(ctx) }()
}

// stop ends a server in order.
func (c *cluster) stop(m *member) {
	if m.log == nil {
		return
	}
	trans := m.trans
	m.heard.Store(nil)
	m.log, m.trans = nil, nil // from here on nobody hears of it
	trans.DisconnectAll()
	for _, other := range c.members {
		if other.trans != nil {
			other.trans.Disconnect(trans.LocalAddr())
		}
	}
	m.cancel()
	<-m.ended
}

// kill ends a server as kill -9 does: its files are those of this moment.
func (c *cluster) kill(m *member) {
	c.t.Helper()
	if m.log == nil {
		return
	}
	synctest.Wait()
	left := fmt.Sprintf("%s%d", m.dir[:len(m.dir)-1], m.runs%10)
	if err := os.RemoveAll(left); err != nil {
		c.t.Fatal(err)
	}
	if err := os.CopyFS(left, os.DirFS(m.dir)); err != nil {
		c.t.Fatal(err)
	}
	old := m.dir
	c.stop(m)
	m.dir = left
	if err := os.RemoveAll(old); err != nil {
		c.t.Fatal(err)
	}
}

// leader waits until a server leads; nil: none does within a minute.
func (c *cluster) leader() *member {
	for range 600 {
		for _, m := range c.members {
			if m.log == nil {
				continue
			}
			if lead, _ := m.log.Leadership(); lead.Leading {
				return m
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

func (c *cluster) follower() *member {
	c.t.Helper()
	lead := c.leader()
	for _, m := range c.members {
		if m != lead && m.log != nil {
			return m
		}
	}
	c.t.Fatal("no follower")
	return nil
}

// propose has numbers applied, and notes those that were acknowledged.
func (c *cluster) propose(n int) {
	for range n {
		c.next++
		lead := c.leader()
		if lead == nil {
			return
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		_, _, err := lead.log.Apply(ctx, append(number(c.next), make([]byte, 100)...))
		cancel()
		if err == nil {
			c.acked = append(c.acked, c.next)
		}
	}
}

// agree waits until all servers have applied the same, and holds it against what was acknowledged.
func (c *cluster) agree() {
	c.t.Helper()
	c.next++
	last := c.next
	for range 600 {
		if lead := c.leader(); lead != nil {
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			_, _, err := lead.log.Apply(ctx, number(last))
			cancel()
			if err == nil {
				break
			}
		}
		time.Sleep(time.Second)
	}
	for _, m := range c.members {
		ok := false
		for range 600 {
			if ok = m.log != nil && slices.Contains(m.sm.all(), last); ok {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !ok {
			why := "it runs"
			select {
			case err := <-m.ended:
				why = fmt.Sprint("it ended with ", err)
				m.ended <- err
			default:
			}
			c.t.Fatalf("%s does not come back: %s; it said:\n%s", m.name, why, m.said.String())
		}
	}
	want := c.members[0].sm.all()
	for _, m := range c.members {
		if got := m.sm.all(); !slices.Equal(got, want) {
			c.t.Errorf("%s has applied %d, and %s %d, which differ:\n%v\n%v", c.members[0].name, len(want), m.name,
				len(got), want, got)
		}
	}
	at := 0
	for _, n := range c.acked {
		i := slices.Index(want[at:], n)
		if i < 0 {
			c.t.Fatalf("%d was acknowledged, and is lost or came out of order", n)
		}
		at += i + 1
	}
}
