package gateways_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/gateways"
	"berth/internal/server/state"
)

// scene is a state of servers, one of which leads, and what Consul has.
type scene struct {
	*testing.T
	store  *state.Store
	index  uint64
	keeper *gateways.Keeper // of who leads, or led last

	mu      sync.Mutex
	entries map[string]map[string]any
	writes  int
	away    error // Consul answers so
	deposed error // another server leads
}

// EntryMeta implements gateways.Consul.
func (s *scene) EntryMeta(_ context.Context, kind, name string) (map[string]string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	e, there := s.entries[kind+"/"+name]
	meta, _ := e["Meta"].(map[string]any)
	for k, v := range meta {
		out[k] = v.(string)
	}
	return out, there, s.away
}

// WriteEntry implements gateways.Consul.
func (s *scene) WriteEntry(_ context.Context, entry map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.away == nil {
		s.entries[entry["Kind"].(string)+"/"+entry["Name"].(string)] = entry
	}
	return s.away
}

func (s *scene) newest(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deposed
}

func (s *scene) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// register writes a job with an ingress gateway for a service, as a command would.
func (s *scene) register(id ids.Job, behind string, stop bool) {
	s.Helper()
	s.index++
	j := &job.Job{
		ID:             id,
		Namespace:      ids.DefaultNamespace,
		Version:        s.index,
		JobModifyIndex: s.index,
		Stop:           stop,
		TaskGroups: []*job.TaskGroup{{
			Name: "g",
			Services: []*job.Service{{
				Name: "in",
				Connect: &job.Connect{Gateway: &job.Gateway{Ingress: &job.IngressGateway{
					Listeners: []*job.IngressListener{{
						Port:     8080,
						Protocol: "tcp",
						Services: []*job.IngressService{{Name: behind}},
					}},
				}}},
			}},
		}},
	}
	err := s.store.Write(state.Stamp{Index: s.index, Time: time.Now()}, func(tx *state.Tx) error {
		tx.PutJob(j)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

// become gives the state another incarnation, as a restore does.
func (s *scene) become(incarnation string) {
	s.Helper()
	s.index++
	err := s.store.Write(state.Stamp{Index: s.index, Time: time.Now()}, func(tx *state.Tx) error {
		tx.PutMeta(&state.Meta{ClusterID: "c", Incarnation: incarnation})
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// stands compares how the entry of a job's gateway stands.
func (s *scene) stands(when string, id ids.Job, why string, since time.Time) {
	s.Helper()
	all := s.keeper.Of(ids.DefaultNamespace, id)
	if len(all) != 1 || all[0].Kind != "ingress-gateway" || all[0].Name != "in" || !all[0].Since.Equal(since) ||
		!strings.Contains(all[0].Why, why) || (why == "") != (all[0].Why == "") {
		s.Errorf("%s: it stands %+v, want %q since %s", when, all, why, since)
	}
}

// lead has the keeper run until the function that it returns is called.
func (s *scene) lead(consul gateways.Consul) func() {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error)
	s.keeper = gateways.New(gateways.Config{
		Store:  s.store,
		Consul: consul,
		Newest: s.newest,
		Log:    slog.New(slog.DiscardHandler),
	})
	go func() { ended <- s.keeper.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	}
}

// want compares which service is behind the gateway in Consul, and how often something was written.
func (s *scene) want(when, behind string, writes int) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := ""
	if e := s.entries["ingress-gateway/in"]; e != nil {
		listener := e["Listeners"].([]any)[0].(map[string]any)
		got = listener["Services"].([]any)[0].(map[string]any)["Name"].(string)
	}
	if got != behind || s.writes != writes {
		s.Errorf("%s: %q is behind it, after %d writes; want %q after %d", when, got, s.writes, behind, writes)
	}
}

// TestConsulHearsOfGatewaysFromTheLeader: once for each version of a job, from whoever leads then, again while Consul
// is away, and never of a job that is stopped or was overtaken by another one's later word.
func TestConsulHearsOfGatewaysFromTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), entries: map[string]map[string]any{}}
		s.register("edge", "web", false)
		end := s.lead(s)
		s.want("at first", "web", 1)
		s.register("edge", "shop", false)
		s.want("with another version", "shop", 2)
		end()
		end = s.lead(s)
		s.want("with another leader", "shop", 2)
		s.set(func() { s.away = fault.New(fault.Unavailable, "ask", "Consul", "it is away") })
		s.register("edge", "web", false)
		s.want("while Consul is away", "shop", 2)
		s.set(func() { s.away = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.want("when it is back", "web", 3)
		s.register("other", "db", false)
		s.want("of another job", "db", 4)
		end()
		end = s.lead(s)
		s.want("the later word stays", "db", 4)
		s.register("edge", "web", true)
		s.want("of a job that is stopped", "db", 4)
		s.set(func() { s.deposed = errors.New("another server leads") })
		s.register("other", "x", false)
		s.want("of one that leads no more", "db", 4)
		end()
	})
}

// TestServersWithoutConsulSayWhatIsMissing: nothing is written, and the reason has the way out.
func TestServersWithoutConsulSayWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), entries: map[string]map[string]any{}}
		var said strings.Builder
		k := gateways.New(gateways.Config{
			Store:  s.store,
			Newest: s.newest,
			Log:    slog.New(slog.NewTextHandler(&said, nil)),
		})
		s.register("edge", "web", false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || !strings.Contains(said.String(), "consul block") {
			t.Errorf("%v: it says %s", err, &said)
		}
	})
}

// TestWhyConsulHasNotHeardOfAGatewayIsKnown: to whoever asks, with since when, until it has; a job that stops wants
// nothing of it.
func TestWhyConsulHasNotHeardOfAGatewayIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), entries: map[string]map[string]any{}}
		s.away = fault.New(fault.Unavailable, "ask", "Consul", "it is away")
		end := s.lead(s)
		begun := time.Now()
		s.register("edge", "web", false)
		s.stands("at once", "edge", "it is away", begun)
		time.Sleep(time.Minute)
		s.set(func() { s.away = fault.New(fault.Denied, "ask", "Consul", "no mesh:write") })
		time.Sleep(time.Minute)
		synctest.Wait()
		s.stands("with another reason", "edge", "no mesh:write", begun)
		end()
		end = s.lead(s)
		s.stands("with another leader", "edge", "no mesh:write", time.Now())
		s.set(func() { s.away = nil })
		healed := time.Now().Add(15 * time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		all := s.keeper.Of(ids.DefaultNamespace, "edge")
		if len(all) != 1 || all[0].Why != "" || all[0].Since.After(healed) {
			t.Errorf("Consul is back for a minute: %+v", all)
		}
		s.register("edge", "web", true)
		if all := s.keeper.Of(ids.DefaultNamespace, "edge"); len(all) > 0 {
			t.Errorf("of a job that is stopped: %+v", all)
		}
		end()
	})
}

// TestAnEntryThatConsulHasLostIsWrittenAgain: as when it was restored, to nothing or to an earlier version of the job;
// what others made of it meanwhile stays.
func TestAnEntryThatConsulHasLostIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), entries: map[string]map[string]any{}}
		end := s.lead(s)
		pass := func() {
			time.Sleep(6 * time.Minute)
			synctest.Wait()
		}
		s.register("edge", "web", false)
		earlier := s.entries["ingress-gateway/in"]
		s.register("edge", "shop", false)
		s.want("at first", "shop", 2)
		s.set(func() { s.entries = map[string]map[string]any{} })
		pass()
		s.want("after nothing", "shop", 3)
		s.set(func() { s.entries["ingress-gateway/in"] = earlier })
		pass()
		s.want("after an earlier version", "shop", 4)
		edited := maps.Clone(s.entries["ingress-gateway/in"])
		delete(edited, "Meta")
		s.set(func() { s.entries["ingress-gateway/in"] = edited })
		pass()
		s.want("edited by others", "shop", 4)
		s.register("edge", "web", false)
		s.want("registered after that", "web", 5)
		end()
	})
}

// TestAnotherIncarnationWritesItsOwnEntries: indexes of a state that was restored, or of another cluster, may be
// higher, and say nothing.
func TestAnotherIncarnationWritesItsOwnEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: state.New(), entries: map[string]map[string]any{}}
		s.index = 100
		s.become("first")
		end := s.lead(s)
		s.register("edge", "web", false)
		s.want("at first", "web", 1)
		end()
		s.store, s.index = state.New(), 0
		s.become("second")
		s.register("edge", "shop", false)
		end = s.lead(s)
		s.want("in another incarnation", "shop", 2)
		end()
	})
}
