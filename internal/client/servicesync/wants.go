package servicesync

import (
	"maps"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/consultokens"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
)

type key struct {
	alloc ids.Alloc
	task  string
}

// entry is a service of an alloc that is here.
type entry struct {
	of    service.InConsul
	by    consultokens.Service // who it is to its token
	alloc ids.Alloc
	task  string
	state presence
	ran   bool // it was seen to run by this agent
	gone  bool // its alloc has ended, or has no such service any more

	sent *model.Sent
	tags *model.Shown // it is to come back with those, if its task starts again
	catalog
	registered bool
	why        string    // it is not; empty: nothing stands in its way
	since      time.Time // it is registered, or not
	said       bool      // why was said to its tasks
}

// catalog is what the catalog showed of a service.
type catalog struct {
	seen *model.Shown // what somebody wrote into it, until it is dealt with
	read uint64       // at which of its changes it was read when the service was dealt with last
	has  *model.Shown // the tags that the agent had then; nil: it was not dealt with yet
	had  []string     // marks of those and earlier ones
	lost bool         // it showed the service, and does no more
}

// presence is whether a service is to be registered.
type presence uint8

const (
	unsure presence = iota // its task was not seen to run yet: it is left as it is
	present
	absent
)

// take compares what allocs want with what they wanted before, and marks what is another.
func (k *Keeper) take(list []Served) {
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[string]bool{}
	for _, s := range list {
		all, err := k.derive(s)
		if err != nil {
			k.log.Warn("services of an allocation are left out", logkey.Alloc, s.Bundle.Alloc.ID, logkey.Error, err)
		}
		for _, of := range all {
			there[of.Service.ID] = true
			k.want(s, of)
		}
	}
	for id, e := range k.wanted {
		if e.gone = !there[id]; e.gone {
			e.state = absent
			k.loop.Mark(id)
		}
	}
	maps.DeleteFunc(k.left, func(at key, _ time.Time) bool {
		return !slices.ContainsFunc(list, func(s Served) bool { return s.Bundle.Alloc.ID == at.alloc })
	})
	k.ready = true
}

func (k *Keeper) derive(s Served) ([]service.InConsul, error) {
	as := *s.Bundle.Alloc
	if s.Report.Network != nil { // the servers' alloc has what was reported before, or nothing
		as.Network = s.Report.Network
	}
	return service.ForConsul(service.Source{Alloc: &as, Job: s.Bundle.Job, Node: k.cfg.Node()})
}

// want notes what is wanted of a service. The caller holds the lock.
func (k *Keeper) want(s Served, of service.InConsul) {
	id := of.Service.ID
	e := k.wanted[id]
	if e == nil {
		e = &entry{since: time.Now()}
		k.wanted[id] = e
	}
	was, before := e.state, e.of
	e.alloc, e.task = s.Bundle.Alloc.ID, of.Of.Task
	e.of, e.by = of, tokenOf(s, of)
	e.state = k.presence(s, e)
	e.ran = e.ran || e.state == present
	// A list that is another one has texts that may be others; those that are the same are no reason to look.
	if was != e.state || before.Service == nil || !same(before, of) {
		k.loop.Mark(id)
	}
}

// tokenOf is a service as its token is asked for.
func tokenOf(s Served, of service.InConsul) consultokens.Service {
	out := consultokens.Service{ID: of.Service.ID, Alloc: s.Bundle.Alloc.ID, Task: of.Of.Task, Of: of.Of.Of}
	g := s.Bundle.Job.Group(s.Bundle.Alloc.TaskGroup)
	if out.Task == "" && len(g.Tasks) > 0 {
		out.Task = g.Tasks[0].Name
	}
	for t, service := range g.AllServices() {
		if service == of.Of.Of && t != nil {
			out.Owner = t.Name
		}
	}
	return out
}

func same(a, b service.InConsul) bool {
	ids := func(all []model.Check) (out []string) {
		for _, c := range all {
			out = append(out, c.ID)
		}
		return out
	}
	return model.Differs(a.Service, b.Service) == "" && model.Mark(a.Service.Tags) == model.Mark(b.Service.Tags) &&
		slices.Equal(ids(a.Checks), ids(b.Checks))
}

// presence decides whether a service is registered now. The caller holds the lock.
func (k *Keeper) presence(s Served, e *entry) presence {
	if s.Stopping || s.Report.ProcessesGone() {
		return absent
	}
	as := *s.Report
	as.DesiredStatus = alloc.DesiredRun
	if e.of.Early() && as.ClientStatus == alloc.ClientPending {
		as.ClientStatus = alloc.ClientRunning
	}
	if service.Registered(&as, e.task) {
		if started, leaves := k.left[key{e.alloc, e.task}]; leaves && !startedOf(s, e.task).After(started) {
			return absent
		}
		delete(k.left, key{e.alloc, e.task})
		return present
	}
	if t := s.Report.TaskStates[e.task]; !e.ran && (t == nil || t.State != alloc.TaskDead) {
		return unsure // an agent that begins has yet to find its tasks
	}
	return absent
}

func startedOf(s Served, task string) (last time.Time) {
	for name, t := range s.Report.TaskStates {
		if (task == "" || name == task) && t.StartedAt.After(last) {
			last = t.StartedAt
		}
	}
	return last
}
