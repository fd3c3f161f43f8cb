package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/internal/base/collector"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/eval"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// stand is three servers in this process, with their logs on its disk and TLS between them, and what is claimed there.
type stand struct {
	*servers.Cluster
	b     *testing.B
	lead  *servers.Member
	agent agent

	mu   sync.Mutex
	made int // volumes, all of them claimed but the last
}

func newStand(b *testing.B) *stand {
	g, ctx := lifecycle.NewGroup(b.Context())
	g.Go("collector", func() error { return collector.New().Run(ctx) }) // as the program has it
	b.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
	})
	s := &stand{Cluster: servers.Start(b, 3), b: b}
	if s.lead = s.Leader(); s.lead == nil {
		b.Fatal("no server leads")
	}
	s.agent = newAgent(b, s.Cluster, s.lead)
	if err := s.agent.registers(b.Context(), s.lead.Conn); err != nil {
		b.Fatal(err)
	}
	s.propose(&fsm.JobRegister{Job: jobOf("db"), Seed: ids.New()})
	return s
}

func (s *stand) propose(cmd fsm.Command) {
	if _, _, err := s.lead.Propose(s.b.Context(), cmd); err != nil {
		s.b.Fatal(err)
	}
}

// atOnce does something so often, by so many callers.
func atOnce(callers, times int, do func(i int)) {
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range numbers {
				do(i)
			}
		})
	}
	for i := range times {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
}

// volumes makes so many volumes for one writer each, and returns a claim of each by another alloc.
func (s *stand) volumes(n int) []*volume.Claim {
	use := volume.Capability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}
	out := make([]*volume.Claim, n)
	s.mu.Lock()
	from := s.made
	s.made += n
	s.mu.Unlock()
	atOnce(64, n, func(i int) {
		name := fmt.Sprintf("v%d", from+i)
		of := volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(name)}
		if _, _, err := s.lead.Propose(s.b.Context(), &fsm.VolumePut{Volume: &volume.Volume{
			ID:     of,
			UID:    name,
			Spec:   volume.Spec{Plugin: "p", Capabilities: []volume.Capability{use}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: name},
		}}); err != nil {
			s.b.Error(err)
		}
		out[i] = &volume.Claim{
			Volume:         of,
			Alloc:          ids.Alloc(ids.New()),
			Node:           s.agent.Node,
			Job:            "db",
			AccessMode:     use.AccessMode,
			AttachmentMode: use.AttachmentMode,
			State:          volume.Held,
		}
	})
	return out
}

// quantiles reports the least, the median, the 99th percentile and the most of what was measured.
func quantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(0), "min-ms")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
}

// beats has the node heard all the time, until the returned function is called. It may have been silent for long.
func (s *stand) beats() (end func()) {
	if err := s.agent.registers(s.b.Context(), s.lead.Conn); err != nil {
		s.b.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(s.b.Context())
	g.Go("beats", func() error {
		for ctx.Err() == nil {
			beat := &wire.NodeHeartbeatRequest{NodeIdentity: s.agent.NodeIdentity}
			_, _ = wire.NodeHeartbeat.Call(ctx, s.lead.Conn, beat) // while nobody leads the next one is heard
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	})
	s.ready()
	return func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			s.b.Error(err)
		}
	}
}

// ready waits until the node takes work.
func (s *stand) ready() {
	for {
		w := state.NewWatch()
		if n := s.lead.Store().Snapshot().Node(w, s.agent.Node); n != nil && n.Status == node.StatusReady {
			return
		}
		if err := w.Wait(s.b.Context()); err != nil {
			s.b.Fatal(err)
		}
	}
}

// claims has so many callers claim one volume after another, and returns how long each of them took, and how many there
// were a second.
func (s *stand) claims(b *testing.B, callers, n int) (took []time.Duration, rate float64) {
	all := s.volumes(n)
	defer s.beats()()
	took = make([]time.Duration, n)
	begun := time.Now()
	atOnce(callers, n, func(i int) {
		from := time.Now()
		err := takes(b.Context(), s.lead.Server, all[i])
		for fault.Has(err, fault.Unavailable) { // another one leads; what was written all the same is refused
			if err = takes(b.Context(), s.Leader().Server, all[i]); refusal(err) {
				err = nil
			}
		}
		if err != nil {
			b.Error(err)
		}
		took[i] = time.Since(from)
	})
	return took, float64(n) / time.Since(begun).Seconds()
}

// BenchmarkSeveralClaims is the way of a placement with its claim through the log of three servers, whose state grows
// by what is claimed.
func BenchmarkSeveralClaims(b *testing.B) {
	for _, bm := range []struct{ callers, n int }{{1, 1000}, {512, 10_000}} {
		b.Run(fmt.Sprintf("callers=%d", bm.callers), func(b *testing.B) {
			s := newStand(b)
			var all []time.Duration
			var rates []float64
			for b.Loop() {
				took, rate := s.claims(b, bm.callers, bm.n)
				all, rates = append(all, took...), append(rates, rate)
			}
			quantiles(b, all)
			slices.Sort(rates)
			b.ReportMetric(rates[0], "min-a-second")
			b.ReportMetric(rates[len(rates)/2], "p50-a-second")
			b.ReportMetric(rates[len(rates)-1], "max-a-second")
		})
	}
}

// BenchmarkSeveralForwarded is the registration of a job with a server that does not lead: each when what the one
// before has brought about is done, and one after another, beside the plans that the log takes for those before.
func BenchmarkSeveralForwarded(b *testing.B) {
	for name, rests := range map[string]bool{"at_rest": true, "in_a_row": false} {
		b.Run(name, func(b *testing.B) {
			s := newStand(b)
			at := s.Follower()
			took := make([]time.Duration, 500)
			for b.Loop() {
				for i := range took {
					from := time.Now()
					reply, err := wire.JobRegister.Call(b.Context(), at.Conn,
						&wire.JobRegisterRequest{Job: jobOf(ids.Job(fmt.Sprintf("j%d", i)))})
					if err != nil {
						b.Fatal(err)
					}
					took[i] = time.Since(from)
					if rests {
						s.evaluated(reply.Eval)
					}
				}
				quantiles(b, took)
			}
		})
	}
}

// evaluated waits until an evaluation has ended.
func (s *stand) evaluated(id ids.Eval) {
	for {
		w := state.NewWatch()
		if e := s.lead.Store().Snapshot().Eval(w, id); e != nil && e.Status != eval.StatusPending {
			return
		}
		if err := w.Wait(s.b.Context()); err != nil {
			s.b.Fatal(err)
		}
	}
}

// BenchmarkSeveralFailover is the time from the crash of the server that leads to the first claim that another one
// has committed.
func BenchmarkSeveralFailover(b *testing.B) {
	s := newStand(b)
	var took []time.Duration
	for b.Loop() {
		claim := s.volumes(1)[0]
		old := s.lead
		from := time.Now()
		old.Crash()
		for s.lead = nil; s.lead == nil; {
			for _, m := range s.Members {
				ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
				if m.Runs() && m.Leading() && takes(ctx, m.Server, claim) == nil {
					s.lead = m
				}
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(from))
		old.Start()
		beat := &wire.NodeHeartbeatRequest{NodeIdentity: s.agent.NodeIdentity}
		if _, err := wire.NodeHeartbeat.Call(b.Context(), s.lead.Conn, beat); err != nil {
			b.Fatal(err)
		}
	}
	quantiles(b, took)
}
