package servicesync_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
	"berth/internal/client/servicesync"
	model "berth/internal/model/consul"
	"berth/internal/model/job"
)

// played is one sequence on the real program of Consul: an alloc, and what its service is to have.
type played struct {
	r       *rig
	t       *rapid.T
	alloc   ids.Alloc
	edition int // of its meta
	job     []string
	tags    []string
	past    [][]string // tags that it had
	open    bool
	n       int
	// changes ask for one registration each, and passed is whether the check has passed.
	changes int
	done    []string
	passed  bool
}

// most is how many are played; make consul-soak plays more.
var most = flag.Int("sequences", 40, "how many sequences are played on the real Consul")

// sequences numbers them, so that each has names of its own at one Consul.
var sequences int

func (p *played) fresh(who string) []string {
	p.n++
	return []string{fmt.Sprintf("%s%d", who, p.n), "z"}
}

func (p *played) service() *job.Service {
	s := web(p.job...)
	s.EnableTagOverride = p.open
	s.Meta = map[string]string{"edition": fmt.Sprint(p.edition)}
	return s
}

func (p *played) begin() {
	sequences++
	p.alloc, p.changes = ids.Alloc(fmt.Sprintf("a%d", sequences)), 1
	p.tags, p.past = p.job, nil
	p.passed = false
	p.r.run(p.alloc, p.service())
}

func (p *played) edit(change func()) {
	change()
	p.changes++
	p.r.run(p.alloc, p.service())
}

// quiet waits until the catalog shows what is to be there, and looks at what that took.
func (p *played) quiet() {
	shown := p.r.real.Tags(string(p.alloc), p.tags...)
	var s struct {
		Tags              []string
		Meta              map[string]string
		EnableTagOverride bool
	}
	defer func() {
		if p.r.t.Failed() {
			p.r.t.Logf("after %q the agent has %+v, the catalog showed %+v, wanted is %+v\n%s", p.done, s, shown, p,
				strings.Join(p.r.real.Proxy.Seen(), "\n"))
		}
	}()
	p.r.real.Until("the agent has what the catalog shows", func() bool {
		p.r.real.Do("GET", "/v1/agent/service/"+shown.ServiceID, nil, &s)
		return model.SameTags(s.Tags, p.tags) && s.EnableTagOverride == p.open &&
			s.Meta["edition"] == fmt.Sprint(p.edition)
	})
	p.r.real.Settled()
	if n := p.registrations(); n > p.changes {
		p.t.Fatalf("%d changes, %d registrations, after %q: %q\n%s", p.changes, n, p.done, p.r.sent,
			p.r.real.Trace(string(p.alloc)))
	}
	if got := p.r.real.Status(string(p.alloc))["script"]; p.passed && got != model.Passing {
		p.t.Fatalf("its check was reset to %s", got)
	}
}

// registrations counts those that were asked for, as our agent's log has them, or the proxy before Consul. One is not
// counted that sends the same tags again because the agent has others: Consul itself took them back. An agent does that
// which compares itself with the catalog in the moment of a registration, before that has arrived there, and a server
// that begins anew (ADR 0125).
func (p *played) registrations() (n int) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	last := ""
	for _, s := range p.r.sent {
		if !strings.Contains(s.id, "_berth-n-"+string(p.alloc)+"-") {
			continue
		}
		if s.reason != "tags" || s.tags != last {
			n++
		}
		last = s.tags
	}
	return max(n, p.r.real.Proxy.Changes("_berth-n-"+string(p.alloc)+"-"))
}

// external is somebody's edit in the catalog.
func (p *played) external() {
	if !p.open {
		return
	}
	p.write(p.fresh("other"))
}

// again is somebody's edit to tags that the service had before.
func (p *played) again() {
	if p.open && len(p.past) > 0 {
		p.write(rapid.SampledFrom(p.past).Draw(p.t, "earlier tags"))
	}
}

func (p *played) write(tags []string) {
	shown := p.r.real.Tags(string(p.alloc), p.tags...)
	if !model.SameTags(p.tags, tags) {
		p.changes++
	}
	p.tags = tags
	p.r.real.Edit(shown, tags...)
}

// TestTheLastWritersTagsStayOnTheRealConsul plays what the sequences of the model play, on Consul itself.
func TestTheLastWritersTagsStayOnTheRealConsul(t *testing.T) {
	r := newRig(t)
	done, most := 0, *most
	if testing.Short() {
		most = 2
	}
	rapid.Check(t, func(rt *rapid.T) {
		if done++; done > most {
			return
		}
		p := &played{r: r, t: rt, open: true, job: []string{"job0"}}
		p.begin()
		p.quiet()
		acts := map[string]func(){
			"somebody edits":  p.external,
			"earlier tags":    p.again,
			"a check turns":   func() { p.r.passes(p.alloc); p.passed = true },
			"another job":     p.other,
			"ours restarts":   r.restart,
			"its meta":        func() { p.edit(func() { p.edition++ }) },
			"the job's tags":  func() { p.edit(func() { p.job = p.fresh("job"); p.tags = p.job }) },
			"the flag":        func() { p.edit(func() { p.open, p.tags = !p.open, p.job }) },
			"another alloc":   func() { r.end(p.alloc); r.gone(string(p.alloc)); p.begin() },
			"ours is killed":  func() { p.external(); r.restart() },
			"away meanwhile":  p.away,
			"Consul restarts": p.restarts,
		}
		repeated := map[string]func(*rapid.T){}
		for name, act := range acts {
			repeated[name] = func(*rapid.T) {
				p.done, p.past = append(p.done, name), append(p.past, p.tags)
				act()
				p.quiet()
			}
		}
		rt.Repeat(repeated)
		r.end(p.alloc)
		r.gone(string(p.alloc))
	})
}

// other is an unrelated job that comes and goes.
func (p *played) other() {
	sequences++
	name := ids.Alloc(fmt.Sprintf("b%d", sequences))
	p.r.run(name, web("x"))
	p.r.real.Tags(string(name), "x")
	p.r.end(name)
	p.r.gone(string(name))
}

// away has the job edited while Consul does not answer.
func (p *played) away() {
	p.r.real.Proxy.Away(true)
	p.edit(func() { p.job = p.fresh("job"); p.tags = p.job })
	p.r.real.Proxy.Away(false)
}

// restarts kills Consul, and has it come back with what it has on its disk. It is dear, and so it is rare. Consul
// itself may take tags back then, to those of any moment before: what it took back is sent once more.
func (p *played) restarts() {
	if rapid.IntRange(0, 9).Draw(p.t, "rarely") > 0 {
		return
	}
	p.r.real.Kill()
	p.r.real.Up()
}

var _ servicesync.Allocs = (*rig)(nil)
