// Package servicesync owns that an agent of Consul has the services of the allocs that run here, and no others of this
// node. What is to be done about one service decides internal/model/consul; here it is looked, done and looked again:
// for one service at a time, at each event of an alloc or the catalog, and for all from time to time. All of it is in
// memory: after a restart ids tell what is this node's, and registrations what they were made of. Only the client's
// composition imports it.
package servicesync

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/consultokens"
	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/port/consul"
)

// Allocs is whose services are registered; the client's allocs implement it.
type Allocs interface {
	// Served lists the allocs that may have processes and whose job has services.
	Served() []Served
	// Changed returns a channel that is closed when that list, or what it says, may have changed.
	Changed() <-chan struct{}
	// Say adds an event to the tasks of an alloc; an empty name means all of them.
	Say(id ids.Alloc, task, text string)
}

// Served is an alloc with services.
type Served struct {
	Bundle   alloc.Bundle
	Report   *alloc.Alloc // its status, the states of its tasks and its own network
	Stopping bool
}

// Config wires a keeper.
type Config struct {
	Agent  *consul.Agent
	Allocs Allocs
	Node   func() *node.Node
	// Audit is how often all is compared without an event; 0: 45 s.
	Audit time.Duration
	// Tokens are those of services; nil: all are registered by the node's own.
	Tokens Tokens
	Log    *slog.Logger
}

// Tokens are those by which services are registered that have identities; client/consultokens implements it.
type Tokens interface {
	// Agent is the agent of Consul, spoken to by the token of a service; Known asks for none that is not there.
	Agent(ctx context.Context, of consultokens.Service) (*consul.Agent, error)
	Known(of consultokens.Service) *consul.Agent
	// Release gives a token back, once the service is not registered any more.
	Release(ctx context.Context, of consultokens.Service) error
}

// Bounds: how long changes are collected, how often all is compared, how long the catalog is waited for, for how long
// the end of a task waits until its services are gone, and for how long a server of Consul that is back may still take
// older tags over: it does so as it begins, before or while the first question is answered.
const (
	settle   = 20 * time.Millisecond
	audit    = 45 * time.Second
	longest  = 5 * time.Minute
	patience = 5 * time.Second
	recovery = 10 * time.Second
)

// Keeper registers.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	loop *reconcile.Loop[string]

	found found

	mu      sync.Mutex
	node    string // the agent's name in the catalog; empty: it was not reached yet
	self    consul.Self
	back    time.Time        // Consul answered again, after it had not; zero: it always did
	changed lifecycle.Signal // of what Attributes says
	moved   lifecycle.Signal // of registrations
	ready   bool             // the list of allocs was looked at
	wanted  map[string]*entry
	shown   map[string]model.Shown // the catalog's, by id, as it was seen last
	left    map[key]time.Time      // by alloc and task: the start of the run that is about to end
}

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

// New returns a keeper that does nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Audit == 0 {
		cfg.Audit = audit
	}
	k := &Keeper{
		cfg:    cfg,
		log:    cfg.Log.With(logkey.Component, "consul"),
		wanted: map[string]*entry{},
		shown:  map[string]model.Shown{},
		left:   map[key]time.Time{},
		found:  found{asked: make(chan struct{}, 1)},
	}
	k.loop = reconcile.New(reconcile.Config{
		Name:     "services in Consul",
		Parallel: 8,
		MinPause: 250 * time.Millisecond,
		MaxPause: 30 * time.Second,
	}, k.pass)
	return k
}

// Run registers until ctx ends. What is registered stays: the next agent goes on with it.
func (k *Keeper) Run(ctx context.Context) error {
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"register": k.loop.Run,
		"allocs":   k.follow,
		"catalog":  k.watch,
		"health":   k.health,
		"audit":    k.audits,
	})
}

func (k *Keeper) follow(ctx context.Context) error {
	return lifecycle.Follow(ctx, k.cfg.Allocs.Changed, settle, func() { k.take(k.cfg.Allocs.Served()) })
}

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

// pass looks at one service, and does what is to be done.
func (k *Keeper) pass(ctx context.Context, id string) (reconcile.Result, error) {
	was, err := k.look(ctx, id)
	if ctx.Err() != nil {
		return reconcile.Done(), nil
	}
	k.note(id, was, err)
	return reconcile.Done(), err
}

// look returns what was wanted when it looked: that may be another meanwhile, and is looked at again then.
func (k *Keeper) look(ctx context.Context, id string) (presence, error) {
	have, err := k.cfg.Agent.Service(ctx, id)
	if err != nil {
		return present, err
	}
	f, state, err := k.facts(ctx, id, have)
	if err != nil || state == unsure {
		return state, err
	}
	if have != nil && f.Wanted != nil {
		checks, err := k.cfg.Agent.Checks(ctx, id)
		if err != nil {
			return state, err
		}
		f.Has = slices.Collect(maps.Keys(checks))
	}
	step := model.Next(f)
	if err := k.do(ctx, id, step); err != nil {
		return state, err
	}
	k.settled(id, f, step)
	if state != absent {
		return state, nil
	}
	return state, k.release(ctx, id)
}

// facts are those of one service; the catalog is read anew where its tags may be another's.
func (k *Keeper) facts(ctx context.Context, id string, have *model.Service) (model.Facts, presence, error) {
	k.mu.Lock()
	e, node := k.wanted[id], k.node
	f := model.Facts{Agent: have}
	state := absent
	if e != nil {
		state, f.Sent = e.state, e.sent
		if state == present {
			f.Wanted, f.Checks = e.of.Service, e.of.Checks
			f.Seen, f.Lost = e.seen, e.lost
			f.Had, f.Held = e.had, k.held(e)
		}
	}
	k.mu.Unlock()
	if f.Wanted == nil || !f.Wanted.EnableTagOverride {
		return f, state, nil
	}
	if node != "" {
		shown, err := k.cfg.Agent.Shown(ctx, node, id)
		if err != nil {
			// Without the catalog nobody knows who wrote last; what is new may be registered all the same.
			if have != nil {
				return f, state, err
			}
			k.log.Debug("the catalog can't be read", logkey.Error, err)
		}
		f.Catalog = shown
	}
	if have == nil && f.Catalog == nil && e.tags != nil {
		f.Catalog = e.tags
	}
	return f, state, nil
}

// settled notes that what was seen of a service is dealt with; what was seen meanwhile is not.
func (k *Keeper) settled(id string, f model.Facts, s model.Step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.wanted[id]
	if e == nil {
		return
	}
	if e.seen == f.Seen {
		e.seen = nil
	}
	if f.Lost {
		e.lost = false
	}
	if f.Catalog != nil {
		e.read = max(e.read, f.Catalog.Index)
	}
	e.had = model.Had(e.had, f.Agent)
	if s.Register != nil {
		e.has = &model.Shown{Tags: s.Register.Tags}
	} else if f.Agent != nil {
		e.has = &model.Shown{Tags: f.Agent.Tags}
	}
}

// held are the tags that a service had when a server of Consul went away that is back since a moment; nil: none did.
// The caller holds the lock.
func (k *Keeper) held(e *entry) *model.Shown {
	if !k.self.Server || time.Since(k.back) > recovery {
		return nil
	}
	return e.has
}

// takeOut deregisters a service by the token that it was registered with.
func (k *Keeper) takeOut(ctx context.Context, id string) error {
	err := k.known(id).Deregister(ctx, id)
	if fault.Has(err, fault.Denied) {
		// Its token is gone, or it was registered before it had one: what the node registers it may take away.
		err = k.cfg.Agent.Deregister(ctx, id)
	}
	return err
}

func (k *Keeper) do(ctx context.Context, id string, s model.Step) error {
	if s.Deregister {
		k.log.Info("a service is taken out of Consul", "service", id)
		if k.mayHaveSidecar(id) { // nobody is sent to a proxy with nothing behind it
			if err := k.takeOut(ctx, service.SidecarID(id)); err != nil {
				return err
			}
		}
		return k.takeOut(ctx, id)
	}
	agent := k.cfg.Agent
	if !s.Idle() {
		var err error
		if agent, err = k.agent(ctx, id); err != nil {
			return err
		}
	}
	if s.Register != nil {
		var with []model.Check
		if s.Why == model.New {
			with = s.Add
		}
		if err := agent.Register(ctx, s.Register, with); err != nil {
			return err
		}
		k.log.Info("a service is registered in Consul", "service", id, "reason", s.Why, "tags", s.Register.Tags)
	}
	k.mu.Lock()
	if e := k.wanted[id]; e != nil {
		e.sent = s.Sent
		if s.Register != nil {
			e.tags = &model.Shown{Tags: s.Register.Tags, Mark: s.Register.Meta[model.MetaMark]}
		}
	}
	k.mu.Unlock()
	if s.Register == nil || s.Why != model.New {
		for _, c := range s.Add {
			if err := agent.AddCheck(ctx, id, c); err != nil {
				return err
			}
		}
	}
	for _, c := range s.Remove {
		if err := agent.RemoveCheck(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// note keeps what came of a look, and says it to the tasks of the alloc when it is not as it should be for a while.
func (k *Keeper) note(id string, was presence, err error) {
	k.mu.Lock()
	e := k.wanted[id]
	if e == nil {
		k.mu.Unlock()
		return
	}
	if was == absent && err == nil {
		e.stands(false, "")
		if e.sent = nil; e.gone {
			delete(k.wanted, id)
		}
		k.mu.Unlock()
		k.moved.Notify()
		return
	}
	registered := err == nil && was == present
	if was == unsure || e.state != present && err != nil {
		registered = e.registered
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	e.stands(registered, why)
	text := ""
	switch {
	case registered && e.said:
		text, e.said = "Service "+e.of.Service.Name+" is registered in Consul", false
	case !registered && err != nil && !e.said && e.state == present:
		text, e.said = "Service "+e.of.Service.Name+" is not registered in Consul: "+err.Error(), true
	}
	alloc, task := e.alloc, e.task
	k.mu.Unlock()
	k.moved.Notify()
	if text != "" {
		k.cfg.Allocs.Say(alloc, task, text)
	}
}
