package servicesync

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/derive/service"
	model "berth/internal/model/consul"
)

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
