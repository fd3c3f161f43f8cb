package lineage

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/conformance/csi/proxy"
	kit "berth/internal/testkit/servers"
)

var (
	simSeed   = flag.Uint64("sim.seed", 1, "of the first schedule; the next has the next one")
	simRounds = flag.Int("sim.rounds", 200, "how many schedules are played, if the time suffices")
	simFor    = flag.Duration("sim.for", 150*time.Second, "after which no further schedule is begun")
	simEvents = flag.Int("sim.events", 16, "how much happens in each")
)

// event is one thing that happens. What it draws is drawn before the schedule begins, so that a schedule without it is
// the same but for it.
type event struct {
	text string
	do   func(*sim)
}

// schedule is what happens in a cluster of so many servers and nodes.
type schedule struct {
	servers, nodes int
	events         []event
}

func (s schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d servers, %d nodes", s.servers, s.nodes)
	for _, e := range s.events {
		b.WriteString("\n  " + e.text)
	}
	return b.String()
}

// drawn is the schedule of a seed.
func drawn(seed uint64, n int) schedule {
	d := &dealer{Rand: rand.New(rand.NewPCG(seed, 7))}
	s := schedule{servers: []int{3, 3, 3, 3, 3, 3, 1, 5}[d.IntN(8)], nodes: 2 + d.IntN(3)}
	d.servers, d.nodes = s.servers, s.nodes
	s.events = append(s.events, d.volume(), d.job())
	for range n {
		s.events = append(s.events, d.draw())
	}
	return s
}

// dealer draws events.
type dealer struct {
	*rand.Rand
	servers, nodes   int
	vols, jobs, cuts int // that were drawn so far
}

// kinds are what may happen, and how often it does.
var kinds = []struct {
	weight int
	draw   func(*dealer) event
}{
	{6, (*dealer).job},
	{5, (*dealer).stop},
	{3, (*dealer).volume},
	{3, (*dealer).remove},
	{6, (*dealer).wait},
	{7, (*dealer).server},
	{6, (*dealer).link},
	{5, (*dealer).calm},
	{8, (*dealer).node},
	{6, (*dealer).call},
	{5, (*dealer).plugin},
	{5, (*dealer).expand},
	{4, (*dealer).cut},
	{2, (*dealer).discard},
	{5, (*dealer).member},
}

func (d *dealer) draw() event {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := d.IntN(sum)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			return k.draw(d)
		}
	}
	panic("the weights are summed above")
}

// person is an act of somebody who asks any of the servers.
func (d *dealer) person(text string, do func(*sim)) event {
	at := d.IntN(d.servers)
	return event{fmt.Sprintf("a person at s%d: %s", at+1, text), func(s *sim) {
		s.site.asked = at
		do(s)
	}}
}

func (d *dealer) volume() event {
	d.vols++
	i := d.vols
	return d.person("create "+volName(i), func(s *sim) { s.create(i) })
}

func (d *dealer) job() event {
	d.jobs++
	i, vol := d.jobs, 1+d.IntN(max(d.vols, 1))
	return d.person(fmt.Sprintf("run %s on %s", jobID(i), volName(vol)), func(s *sim) { s.submitJob(i, vol) })
}

func (d *dealer) stop() event {
	i := 1 + d.IntN(max(d.jobs, 1))
	return d.person("stop "+string(jobID(i)), func(s *sim) { _ = s.stopJob(i) }) // it is in the story
}

func (d *dealer) remove() event {
	i := 1 + d.IntN(max(d.vols, 1))
	return d.person("delete "+volName(i), func(s *sim) { _ = s.deleteVolume(i) }) // it is in the story
}

// expand is a volume that is to be larger, whatever uses it.
func (d *dealer) expand() event {
	i, bytes := 1+d.IntN(max(d.vols, 1)), int64(2+d.IntN(8))<<20
	return d.person(fmt.Sprintf("%s is to have %d bytes", volName(i), bytes), func(s *sim) { s.expand(i, bytes) })
}

func (d *dealer) cut() event {
	d.cuts++
	i, vol := d.cuts, 1+d.IntN(max(d.vols, 1))
	return d.person(fmt.Sprintf("cut %s of %s", cutName(i), volName(vol)), func(s *sim) { s.cut(i, vol) })
}

func (d *dealer) discard() event {
	i := 1 + d.IntN(max(d.cuts, 1))
	return d.person("delete "+cutName(i), func(s *sim) { _ = s.discard(i) }) // it is in the story
}

// member is what people do about who keeps the log.
func (d *dealer) member() event {
	i := d.IntN(d.servers + 2)
	who := fmt.Sprintf("s%d", i+1)
	of := func(s *sim) *kit.Member { return s.site.Members[i%len(s.site.Members)] }
	switch d.IntN(5) {
	case 0:
		return event{"a server joins", (*sim).join}
	case 1:
		return d.person("remove "+who, func(s *sim) { s.removeServer(of(s)) })
	case 2:
		return d.person("replace "+who, func(s *sim) {
			s.join()
			s.passes(4)
			s.removeServer(of(s))
		})
	}
	return d.person(who+" is to lead", func(s *sim) { s.handOver(of(s)) })
}

func (d *dealer) wait() event {
	n := 1 + d.IntN(5)
	return event{fmt.Sprintf("%d passes go by", n), func(s *sim) { s.passes(n) }}
}

func (d *dealer) calm() event { return event{"all faults end", (*sim).calms} }

// server is what befalls one server, or whoever leads.
func (d *dealer) server() event {
	i, leads := d.IntN(d.servers), d.IntN(2) == 0
	who := fmt.Sprintf("s%d", i+1)
	if leads {
		who = "the leader"
	}
	of := func(s *sim) *kit.Member {
		for _, m := range s.site.Members {
			if leads && m.Runs() && m.Leading() {
				return m
			}
		}
		return s.site.Members[i%len(s.site.Members)]
	}
	switch d.IntN(5) {
	case 0:
		return event{who + " ends in order and starts", func(s *sim) {
			m := of(s)
			m.Stop()
			s.starts(m)
		}}
	case 1:
		return event{who + " crashes", func(s *sim) { of(s).Crash() }}
	case 2:
		return event{who + " stands still", func(s *sim) { s.site.Hold(of(s)) }}
	case 3:
		return event{"every server that is down starts", func(s *sim) {
			for _, m := range s.staying() {
				s.starts(m)
			}
		}}
	}
	return event{who + " crashes and starts", func(s *sim) {
		m := of(s)
		m.Crash()
		s.starts(m)
	}}
}

// link is what befalls the network.
func (d *dealer) link() event {
	a, b := fmt.Sprintf("s%d", 1+d.IntN(d.servers)), fmt.Sprintf("s%d", 1+d.IntN(d.servers))
	n := fmt.Sprintf("n%d", 1+d.IntN(d.nodes))
	switch d.IntN(6) {
	case 0:
		return event{"the network heals", func(s *sim) { s.site.Heal(); s.site.Release() }}
	case 1:
		return event{n + " is cut off", func(s *sim) {
			for _, m := range s.site.Members {
				s.site.CutLink(n, m.Name)
			}
		}}
	case 2:
		return event{n + " and " + a + " are cut apart", func(s *sim) { s.site.CutLink(n, a) }}
	case 3:
		return event{"who leads is cut off from the servers", func(s *sim) {
			for _, m := range s.site.Members {
				if m.Runs() && m.Leading() {
					s.site.Cut(m)
				}
			}
		}}
	}
	return event{a + " and " + b + " are cut apart", func(s *sim) {
		if a != b {
			s.site.CutLink(a, b)
		}
	}}
}

// node is what befalls one node.
func (d *dealer) node() event {
	i := d.IntN(d.nodes)
	who := fmt.Sprintf("n%d", i+1)
	long := 1 + d.IntN(12)
	switch d.IntN(6) {
	case 0:
		return event{"the agent of " + who + " is killed", func(s *sim) { s.machines[i].kill() }}
	case 1:
		return event{"the agent of " + who + " is killed and starts", func(s *sim) {
			s.machines[i].kill()
			s.machines[i].on()
		}}
	case 2:
		return event{who + " loses its power", func(s *sim) { s.machines[i].off() }}
	case 3:
		return event{who + " crashes and boots", func(s *sim) { s.machines[i].off(); s.machines[i].on() }}
	case 4:
		return event{fmt.Sprintf("the agent of %s stands still for %d passes", who, long), func(s *sim) {
			s.asleep[s.machines[i]] = long
		}}
	}
	return event{who + " is on", func(s *sim) { s.machines[i].on() }}
}

// call is what befalls the next calls of a node's agent.
func (d *dealer) call() event {
	i := d.IntN(d.nodes)
	var fates []fate
	for range 1 + d.IntN(6) {
		fates = append(fates, []fate{"", lostRequest, lostAnswer, lostAnswer, doubled, lateAnswer}[d.IntN(6)])
	}
	return event{fmt.Sprintf("the next calls of n%d: %q", i+1, fates), func(s *sim) {
		s.site.fates[s.machines[i]] = slices.Clone(fates)
	}}
}

// plugin is what befalls the next calls of the plugin.
func (d *dealer) plugin() event {
	n := 1 + d.IntN(4)
	return event{fmt.Sprintf("the plugin's next %d answers are lost", n), func(s *sim) {
		left := n
		s.provider.loses = func(e proxy.Entry) bool {
			left--
			return left >= 0 && !strings.Contains(e.RPC, "Get")
		}
	}}
}

// play plays a schedule, and says how it failed; empty: it did not.
func (s schedule) play(t *testing.T) (failed string) {
	synctest.Test(t, func(t *testing.T) {
		x := newSim(t, s.servers, s.nodes)
		defer x.close()
		defer caught(&failed)
		x.stops = func(text string) { panic(broken(text)) }
		for _, e := range s.events {
			x.tell("%s", e.text)
			e.do(x)
			x.passes(1)
		}
		x.settles()
	})
	return failed
}

// shortened is the schedule without what its failure does not take.
func (s schedule) shortened(t *testing.T) schedule {
	for size := len(s.events) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(s.events); {
			without := s
			without.events = slices.Delete(slices.Clone(s.events), i, i+size)
			if without.play(t) != "" {
				s = without
			} else {
				i += size
			}
		}
	}
	return s
}

// Given servers and nodes to which anything happens that a seed draws (crashes, cuts, silence, lost, late and doubled
// calls) while jobs use volumes, then no volume ever has two writers nor is taken from under a task, nothing that was
// acknowledged is lost, every server applies the same, and once all faults have ended everything that was asked to end
// is gone, at the provider, too. A schedule that fails is cut down to the events that it takes.
func TestAnyScheduleComesToRest(t *testing.T) {
	n, most := *simRounds, *simFor
	if testing.Short() {
		n = 3
	}
	begun := time.Now()
	var played atomic.Int64
	t.Cleanup(func() {
		took := time.Since(begun)
		t.Logf("%d schedules in %s: %.0f a minute", played.Load(), took.Round(time.Second),
			float64(played.Load())/took.Minutes())
	})
	for i := range n {
		seed := *simSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			if time.Since(begun) > most {
				return // the rate says how many were played
			}
			played.Add(1)
			s := drawn(seed, *simEvents)
			failed := s.play(t)
			if failed == "" {
				return
			}
			t.Logf("seed %d fails: %s", seed, failed)
			s = s.shortened(t)
			t.Errorf("make sim SEED=%d ROUNDS=1\nit takes: %s\n%s", seed, s, s.play(t))
		})
	}
}
