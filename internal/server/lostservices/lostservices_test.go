package lostservices_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/server/lostservices"
	"berth/internal/server/state"
)

// scene is a state of servers, one of which leads, and a catalog of Consul.
type scene struct {
	*testing.T
	store *state.Store
	stop  func()
	index uint64

	mu      sync.Mutex
	shown   map[string]map[string]model.Shown
	gone    map[string]bool
	away    error  // Consul answers so
	deposed error  // another server leads
	between func() // is called once, between what is read and what is done
	asked   int
}

// Gone implements lostservices.Catalog.
func (s *scene) Gone(_ context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.gone[name], s.away
}

// Catalog implements lostservices.Catalog.
func (s *scene) Catalog(
	_ context.Context, name string, _ uint64, _ time.Duration,
) (map[string]model.Shown, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return maps.Clone(s.shown[name]), 1, s.away
}

// Forget implements lostservices.Catalog.
func (s *scene) Forget(_ context.Context, name, id string, read model.Shown) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.shown[name][id].Index != read.Index {
		return fault.New(fault.Conflict, "ask", "Consul", "index is stale")
	}
	delete(s.shown[name], id)
	return s.away
}

func (s *scene) newest(context.Context) error {
	s.mu.Lock()
	between, err := s.between, s.deposed
	s.between = nil
	s.mu.Unlock()
	if between != nil {
		between()
	}
	return err
}

// put writes a node and allocs on it, as commands would.
func (s *scene) put(n *node.Node, all ...*alloc.Alloc) {
	s.Helper()
	s.index++
	err := s.store.Write(state.Stamp{Index: s.index, Time: time.Now()}, func(tx *state.Tx) error {
		copied := *n
		tx.PutNode(&copied)
		for _, a := range all {
			copied := *a
			copied.Node, copied.Namespace = n.ID, ids.DefaultNamespace
			tx.PutAlloc(&copied)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

func (s *scene) lead() {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error)
	keeper := lostservices.New(lostservices.Config{
		Store:   s.store,
		Catalog: s,
		Newest:  s.newest,
		Log:     slog.New(slog.DiscardHandler),
	})
	go func() { ended <- keeper.Run(ctx) }()
	synctest.Wait()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	}
}

func (s *scene) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// want compares what the catalog shows of the one node.
func (s *scene) want(what string, want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := slices.Sorted(maps.Keys(s.shown["machine"])); !slices.Equal(got, want) {
		s.Errorf("%s: the catalog shows %q, want %q", what, got, want)
	}
}

// down is the node of the scenes, of which the servers hear nothing.
func down() *node.Node {
	return &node.Node{
		ID:         "n",
		Status:     node.StatusDown,
		Attributes: map[string]string{model.AttributeNode: "machine"},
	}
}

func lost(id ids.Alloc) *alloc.Alloc {
	return &alloc.Alloc{ID: id, DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientLost}
}

const (
	ofA     = "_berth-n-a-t-web-http"
	ofB     = "_berth-n-b-t-web-http"
	strange = "_berth-other-a-t-web-http"
)

func play(t *testing.T, tell func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), gone: map[string]bool{"machine": true}}
		s.shown = map[string]map[string]model.Shown{"machine": {
			ofA: {Index: 7}, ofB: {Index: 8}, strange: {Index: 9}, "redis": {Index: 10},
		}}
		s.index = 1
		s.lead()
		defer func() { s.stop() }()
		tell(s)
	})
}

// TestServicesOfALostNodeLeaveTheCatalog: those whose allocs are lost by the servers' word, and no stranger's; what is
// registered of an alloc that may run, or that the state does not know, stays.
func TestServicesOfALostNodeLeaveTheCatalog(t *testing.T) {
	play(t, func(s *scene) {
		silent := &alloc.Alloc{ID: "b", DesiredStatus: alloc.DesiredRun, ClientStatus: alloc.ClientUnknown}
		s.put(down(), lost("a"), silent)
		s.want("a is lost, b is silent", ofB, strange, "redis")
		s.put(down(), lost("b"))
		s.want("both are lost", strange, "redis")
	})
	play(t, func(s *scene) {
		s.put(down())
		s.pass(time.Hour)
		s.want("no alloc is known", ofA, ofB, strange, "redis")
	})
}

// TestNothingOfANodeThatLivesIsTakenOut: neither while the servers hear it, nor while its agent of Consul is heard, nor
// when a service is registered anew there; nor by a server that does not lead any more.
func TestNothingOfANodeThatLivesIsTakenOut(t *testing.T) {
	all := []string{ofA, ofB, strange, "redis"}
	up := down()
	up.Status = node.StatusReady
	play(t, func(s *scene) {
		s.put(up, lost("a"))
		s.pass(time.Hour)
		s.want("the servers hear it", all...)
	})
	play(t, func(s *scene) {
		s.set(func() { s.gone["machine"] = false })
		s.put(down(), lost("a"))
		s.pass(time.Hour)
		s.want("Consul hears it", all...)
		s.set(func() { s.gone["machine"] = true })
		s.pass(time.Minute)
		s.want("nobody hears it", ofB, strange, "redis")
	})
	play(t, func(s *scene) {
		s.between = func() {
			s.set(func() {
				s.shown["machine"][ofA] = model.Shown{Index: 11}
				s.gone["machine"] = false
			})
		}
		s.put(down(), lost("a"))
		s.pass(time.Hour)
		s.want("it was registered anew", all...)
	})
	play(t, func(s *scene) {
		s.deposed = errors.New("another one leads")
		s.put(down(), lost("a"))
		s.pass(time.Hour)
		s.want("another server leads", all...)
	})
}

// TestTheNextLeaderAndTheNextConsulGoOn: nothing is kept by who led before, and what fails is tried again; when it is
// done, Consul is left alone.
func TestTheNextLeaderAndTheNextConsulGoOn(t *testing.T) {
	play(t, func(s *scene) {
		s.set(func() { s.away = errors.New("no leader") })
		s.put(down(), lost("a"), lost("b"))
		s.want("Consul is away", ofA, ofB, strange, "redis")
		s.stop()
		s.set(func() { s.away = nil })
		s.lead()
		s.want("another server leads", strange, "redis")
		s.set(func() { s.asked = 0 })
		s.pass(time.Hour)
		if s.asked > 12 {
			t.Errorf("in an hour of rest Consul was asked %d times", s.asked)
		}
		s.set(func() { s.shown["machine"][ofA] = model.Shown{Index: 12} })
		s.pass(5 * time.Minute)
		s.want("it came and went again", strange, "redis")
	})
}

// TestAServerWithoutConsulDoesNothing: and it does not end before it is told to.
func TestAServerWithoutConsulDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		k := lostservices.New(lostservices.Config{Store: state.New(), Log: slog.New(slog.DiscardHandler)})
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("it has ended")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
