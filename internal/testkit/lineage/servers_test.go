package lineage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/redact"
	"berth/internal/port/raftlog"
	"berth/internal/server/claims"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint"
	"berth/internal/server/fsm"
	"berth/internal/server/gc"
	"berth/internal/server/heartbeat"
	"berth/internal/server/state"
	"berth/internal/server/volumes"
	"berth/internal/server/worker"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// servers are one server of production without a disk: its machine, endpoints, keepers and scheduling. Its log is a
// list, so that it can be cut, and what was saved of its state can be put back.
type servers struct {
	t     testing.TB
	nodes controllers.Nodes
	store *state.Store
	fsm   *fsm.FSM

	mu        sync.Mutex
	index     uint64
	saved     []byte          // the state before the log
	compacted uint64          // the index of that
	log       []raftlog.Entry // since then

	conn    wire.Conn
	endTerm func()
}

// moment is a place in the servers' history that can be returned to.
type moment struct {
	index uint64
	state []byte
}

func newServers(t testing.TB, nodes controllers.Nodes) *servers {
	s := &servers{t: t, nodes: nodes, store: state.New(), index: 1}
	s.fsm = fsm.New(s.store)
	s.propose(&fsm.Bootstrap{ClusterID: ids.New(), Incarnation: ids.New(), Schema: fsm.Schema()})
	s.lead()
	return s
}

func (s *servers) reach(*machine) wire.Conn { return s.conn }

func (s *servers) end() { s.endTerm() }

func (s *servers) snap() *state.Snap { return s.store.Snapshot() }

// Propose implements fsm.Proposer.
func (s *servers) Propose(_ context.Context, cmd fsm.Command) (any, uint64, error) {
	data, err := fsm.Encode(cmd, time.Now())
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	e := raftlog.Entry{Index: s.index, Data: data}
	s.log = append(s.log, e)
	result := s.fsm.ApplyBatch([]raftlog.Entry{e})[0]
	if err, refused := result.(error); refused {
		return nil, s.index, err
	}
	return result, s.index, nil
}

func (s *servers) propose(cmd fsm.Command) {
	s.t.Helper()
	if _, _, err := s.Propose(s.t.Context(), cmd); err != nil {
		s.t.Fatalf("%T: %v", cmd, err)
	}
}

// lead begins a term of a server process that has just started: its mark, and all that a leader runs.
func (s *servers) lead() {
	s.propose(&fsm.LineageMark{Mark: ids.New()})
	log := slog.New(slog.DiscardHandler)
	dispatch := controllers.New()
	dispatch.Lead()
	beats := heartbeat.New(heartbeat.Config{Store: s.store, Proposer: s, Log: log})
	scheduling := worker.New(s.store, s, 1, log)
	collector := gc.New(s.store, s, gc.Hold(gc.Ages{}), log)
	methods, pipe := wire.NewServer(nil), wire.NewPipe()
	endpoint.New(endpoint.Config{
		Store:       s.store,
		Proposer:    s,
		Cluster:     leader.Alone{},
		Heartbeats:  beats,
		Planner:     scheduling,
		Collector:   collector,
		Controllers: dispatch,
		Nodes:       s.nodes,
		Secrets:     secrets{},
		Log:         log,
	}).Register(methods)
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		s.t.Fatal(err)
	}
	s.conn = conn
	ck := claims.New(claims.Config{
		Store:    s.store,
		Proposer: s,
		Dispatch: dispatch,
		Secrets:  secrets{},
		Nodes:    s.nodes,
		Log:      log,
	})
	vk := volumes.New(volumes.Config{
		Store:    s.store,
		Proposer: s,
		Dispatch: dispatch,
		Secrets:  secrets{},
		Nodes:    s.nodes,
		Log:      log,
	})
	g, ctx := lifecycle.NewGroup(context.WithoutCancel(s.t.Context()))
	g.Go("calls", func() error { return methods.Run(ctx, pipe.Listener()) })
	for name, run := range map[string]func(context.Context) error{
		"heartbeats": beats.Run,
		"scheduling": scheduling.Run,
		"claims":     ck.Run,
		"volumes":    vk.Run,
	} {
		g.Go(name, func() error { return run(ctx) })
	}
	s.endTerm = func() {
		_ = conn.Close() // in-process
		g.Stop()
		if err := g.Wait(); err != nil {
			s.t.Errorf("the leader's work ended with %v", err)
		}
	}
}

// now is where the history is, to be returned to.
func (s *servers) now() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return moment{s.index, s.persisted()}
}

// persisted is the state as it would be saved. The caller holds the lock.
func (s *servers) persisted() []byte {
	var data bytes.Buffer
	if err := s.snap().Persist(&data); err != nil {
		s.t.Fatal(err)
	}
	return data.Bytes()
}

// changeLeader ends the term, and another one begins.
func (s *servers) changeLeader() {
	s.end()
	s.lead()
}

// putBack starts the server on a cold copy of its directory.
func (s *servers) putBack(at moment) {
	s.end()
	s.saved = at.state
	s.compacted = at.index
	s.log = nil
	s.index = at.index
	s.restore()
	s.lead()
}

// cutTo starts the server on a log that has lost what came after a moment.
func (s *servers) cutTo(at moment) {
	s.end()
	for len(s.log) > 0 && s.log[len(s.log)-1].Index > at.index {
		s.log = s.log[:len(s.log)-1]
	}
	if s.compacted > at.index { // what was saved since is lost with the log
		s.saved, s.log = at.state, nil
	}
	s.index = at.index
	s.restore()
	s.lead()
}

// placePlugin implements site.
func (s *servers) placePlugin(a *agent) {
	pluginjobs.Place(s.t, s, s.store.Snapshot, a.d.node, a.info.CSI)
}

// compact saves the state in the place of the log, and starts the server on it.
func (s *servers) compact() {
	s.end()
	s.saved = s.persisted()
	s.compacted = s.index
	s.log = nil
	s.restore()
	s.lead()
}

// restore makes the state that a server has after its start: what was saved, then its log.
func (s *servers) restore() {
	if s.saved == nil {
		fresh := state.New()
		var empty bytes.Buffer
		if err := fresh.Snapshot().Persist(&empty); err != nil {
			s.t.Fatal(err)
		}
		s.saved = empty.Bytes()
	}
	if err := s.store.Restore(bytes.NewReader(s.saved)); err != nil {
		s.t.Fatal(err)
	}
	s.fsm.ApplyBatch(s.log) // refusals were refused before
	if err := s.fsm.Halted(); err != nil {
		s.t.Fatal(err)
	}
}

// secrets is a store without any.
type secrets struct{}

// Secrets implements controllers.Secrets.
func (secrets) Secrets(string) (wire.Secrets, error) { return wire.Secrets{}, nil }

// Seal implements storage.Secrets.
func (secrets) Seal(name string, _ redact.Map) ([]byte, error) {
	return nil, fmt.Errorf("nothing here has secrets, and %q is to be sealed", name)
}
