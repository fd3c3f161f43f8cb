package lineage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/port/tlsport"
	"berth/internal/server/state"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/pluginjobs"
	kit "berth/internal/testkit/servers"
	"berth/internal/wire"
)

// several is a site of several servers of production, with their logs on disk and their ports on a network in memory.
type several struct {
	*kit.Cluster
	w       *world
	ways    map[*machine]*way
	creds   map[*machine]*certificates.Credentials
	fates   map[*machine][]fate // of the next calls of its agent
	asked   int                 // the server that a person asks
	applied map[uint64]replica
	joined  map[*kit.Member]bool // people have heard that it is in the list
	removed map[*kit.Member]bool // likewise, that it is not any more
}

// replica is what a server had when it had applied so much.
type replica struct {
	server string
	sum    [sha256.Size]byte
}

func newSeveral(t testing.TB, w *world, count int) *several {
	return &several{
		Cluster: kit.Start(t, count),
		w:       w,
		ways:    map[*machine]*way{},
		creds:   map[*machine]*certificates.Credentials{},
		fates:   map[*machine][]fate{},
		applied: map[uint64]replica{},
		joined:  map[*kit.Member]bool{},
		removed: map[*kit.Member]bool{},
	}
}

// snap implements site: the newest state that any server has, running or not. What is applied anywhere is committed.
func (s *several) snap() *state.Snap {
	var newest *state.Snap
	for _, m := range s.Members {
		if snap := m.Store().Snapshot(); newest == nil || snap.Index() > newest.Index() {
			newest = snap
		}
	}
	return newest
}

// end implements site: the servers end with the test, whoever is connected before.
func (s *several) end() {
	s.Heal()
	s.Release()
	for _, x := range s.ways {
		_ = x.conn.Close() // a pipe in memory
	}
}

// placePlugin implements site. Where no server can do it now, the agent's next registration has it tried again.
func (s *several) placePlugin(a *agent) {
	for _, m := range s.Members {
		if m.Runs() && m.Leading() {
			if err := pluginjobs.Try(s.w.t.Context(), m, m.Store().Snapshot, a.d.node, a.info.CSI); err != nil {
				s.w.t.Logf("the plugin of node %s is not placed: %v", a.d.node, err)
			}
			return
		}
	}
}

// reach implements site.
func (s *several) reach(m *machine) wire.Conn {
	if m == nil {
		return people{s}
	}
	x := s.ways[m]
	at := 0
	switch {
	case x != nil && !x.over():
		return x
	case x != nil:
		_ = x.conn.Close() // a pipe in memory
		at = (x.at + 1) % len(s.Members)
	case s.creds[m] == nil:
		s.creds[m] = s.Trust.Node(s.w.t, string(m.dir.node))
		at = len(s.creds) % len(s.Members)
	}
	x = &way{s: s, m: m, at: at, lead: s.leading()}
	to := s.Members[at]
	conn, err := wire.Connect(func(ctx context.Context) (net.Conn, error) {
		return s.DialAs(ctx, m.name, to, tlsport.Calls, s.creds[m])
	})
	if err != nil {
		s.w.t.Fatal(err)
	}
	x.conn = conn
	s.ways[m] = x
	return x
}

// leading names who takes itself for the leader; empty: nobody.
func (s *several) leading() string {
	for _, m := range s.Members {
		if m.Runs() && m.Leading() {
			return m.Name
		}
	}
	return ""
}

// compare holds what each server has applied against what any server had at the same place.
func (s *several) compare() {
	for _, m := range s.Members {
		if !m.Runs() {
			continue
		}
		snap := m.Store().Snapshot()
		var out bytes.Buffer
		if err := snap.Persist(&out); err != nil {
			s.w.fails("the state of %s can't be written: %v", m.Name, err)
		}
		mine := replica{m.Name, sha256.Sum256(out.Bytes())}
		at := snap.Index()
		if other, known := s.applied[at]; known && other.sum != mine.sum {
			s.w.fails("%s has another state at %d than %s had", m.Name, at, other.server)
		}
		s.applied[at] = mine
	}
}

// fate is what befalls one call of an agent.
type fate string

// Fates of calls.
const (
	lostRequest fate = "the request is lost"
	lostAnswer  fate = "the answer is lost"
	doubled     fate = "it comes twice"
	lateAnswer  fate = "the answer is late"
)

// Bounds of calls in these stories.
const (
	callTimeout = 2 * time.Second
	lateness    = 20 * time.Second
)

// way is on what an agent calls one server, until it is not answered or another one leads: then there is another way.
type way struct {
	s      *several
	m      *machine
	at     int
	lead   string
	conn   *grpc.ClientConn
	broken bool
}

func (x *way) over() bool { return x.broken || x.lead != x.s.leading() }

// Invoke implements wire.Conn.
func (x *way) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var f fate
	if left := x.s.fates[x.m]; len(left) > 0 {
		f, x.s.fates[x.m] = left[0], left[1:]
		x.s.w.tell("%s of %s: %s", method, x.m.name, f)
	}
	if f == lostRequest {
		return status.Error(codes.Unavailable, string(f))
	}
	err := x.once(ctx, method, args, reply, opts)
	switch f {
	case doubled:
		_ = x.once(ctx, method, args, reflect.New(reflect.TypeOf(reply).Elem()).Interface(), opts) // nobody hears it
	case lostAnswer:
		return status.Error(codes.Unavailable, string(f))
	case lateAnswer:
		time.Sleep(lateness)
	}
	return err
}

func (x *way) once(ctx context.Context, method string, args, reply any, opts []grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout) // runs out in the bubble's time: a cut link says nothing
	defer cancel()
	err := x.conn.Invoke(ctx, method, args, reply, opts...)
	if c := status.Code(err); c == codes.Unavailable || c == codes.DeadlineExceeded {
		x.broken = true
	}
	return err
}

// NewStream implements wire.Conn.
func (x *way) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return x.conn.NewStream(ctx, desc, method, opts...)
}

// people call the server that they are told to, or the next one that runs and was not removed.
type people struct{ s *several }

func (p people) member() (*kit.Member, error) {
	for i := range p.s.Members {
		if m := p.s.Members[(p.s.asked+i)%len(p.s.Members)]; m.Runs() && !p.s.removed[m] {
			return m, nil
		}
	}
	return nil, status.Error(codes.Unavailable, "no server runs")
}

// Invoke implements wire.Conn.
func (p people) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m, err := p.member()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout) // runs out in the bubble's time, likewise
	defer cancel()
	return m.Conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements wire.Conn.
func (p people) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	m, err := p.member()
	if err != nil {
		return nil, err
	}
	return m.Conn.NewStream(ctx, desc, method, opts...)
}

// Given three servers and two nodes, when a job writes to a volume and the leader crashes, and then all is stopped and
// deleted, then everything comes to rest and the servers have the same.
func TestSeveralServersMoveAVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, 2)
		defer s.close()
		s.create(1)
		s.submitJob(1, 1)
		s.passes(3)
		if len(s.machines[0].procs)+len(s.machines[1].procs) != 1 {
			s.fails("the job does not run")
		}
		s.site.Leader().Crash()
		s.passes(3)
		s.settles()
	})
}
