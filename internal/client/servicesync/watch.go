package servicesync

import (
	"context"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	model "berth/internal/model/consul"
)

// perService is for how long the catalog is left alone after an answer, for each service in it. A second edit, or a
// check that turns in that time, is heard of so much later.
const perService = 20 * time.Microsecond

// watch follows the catalog of the agent's node: who that is, what somebody edited there, and whether it came back.
func (k *Keeper) watch(ctx context.Context) error {
	pauses := retry.Backoff{Min: 100 * time.Millisecond, Max: 250 * time.Millisecond}
	var index uint64
	failures := 0
	for ctx.Err() == nil {
		all, next, err := k.ask(ctx, index)
		if err != nil {
			if failures == 0 && ctx.Err() == nil {
				k.log.Warn("Consul does not answer: services that come are registered when it does", logkey.Error, err)
			}
			failures++
			index = 0
			pauses.Sleep(ctx, failures)
			continue
		}
		if failures > 0 {
			k.log.Info("Consul answers again")
			k.mu.Lock()
			k.back = time.Now()
			k.mu.Unlock()
		}
		if next < index { // it began anew
			next = 0
		}
		k.saw(all, failures > 0 || index == 0)
		failures, index = 0, next
		// Each answer has all services: of many that come at once, several are heard of at once.
		retry.Sleep(ctx, time.Duration(len(all))*perService)
	}
	return nil
}

func (k *Keeper) ask(ctx context.Context, index uint64) (map[string]model.Shown, uint64, error) {
	k.mu.Lock()
	name := k.node
	k.mu.Unlock()
	if name == "" || index == 0 {
		self, err := k.cfg.Agent.Self(ctx)
		if err != nil {
			return nil, 0, err
		}
		k.mu.Lock()
		news := k.self != self
		k.node, k.self = self.Node, self
		k.mu.Unlock()
		if name = self.Node; news {
			k.changed.Notify()
		}
	}
	return k.cfg.Agent.Catalog(ctx, name, index, longest)
}

// saw marks services of the node of which the catalog shows something else than before, and all when it was away.
func (k *Keeper) saw(all map[string]model.Shown, whole bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, e := range k.wanted {
		now, there := all[id]
		was, known := k.shown[id]
		if whole || e.state == present && (there != known || !model.SameTags(now.Tags, was.Tags) ||
			now.Mark != was.Mark) { // what was sent has arrived
			k.loop.Mark(id)
		}
		if e.state != present {
			continue
		}
		e.lost = known && !there && e.registered || e.lost && !there
		if there && e.of.Service.EnableTagOverride {
			e.tags = &now
			// What falls back to what the agent has was pushed by the agent, and takes nobody's edit back.
			if known && now.Index > e.read && !model.SameTags(now.Tags, was.Tags) &&
				(e.has == nil || !model.SameTags(now.Tags, e.has.Tags)) {
				e.seen = &now
			}
		}
	}
	k.shown = all
}

// audits compares all from time to time.
func (k *Keeper) audits(ctx context.Context) error {
	for {
		if err := k.auditAll(ctx); err != nil && ctx.Err() == nil {
			k.log.Debug("services in Consul could not be compared", logkey.Error, err)
		}
		k.mu.Lock()
		known := k.node != ""
		changed := k.changed.C()
		k.mu.Unlock()
		pause := k.cfg.Audit
		if !known {
			changed = nil
			pause = min(pause, time.Second)
		}
		retry.SleepOr(ctx, pause, changed)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// auditAll marks what differs, and what is this node's and nobody wants.
func (k *Keeper) auditAll(ctx context.Context) error {
	services, err := k.cfg.Agent.Services(ctx)
	if err != nil {
		return err
	}
	checks, err := k.cfg.Agent.Checks(ctx, "")
	if err != nil {
		return err
	}
	has := map[string][]string{}
	for id, c := range checks {
		has[c.Service] = append(has[c.Service], id)
	}
	own := k.cfg.Node().ID
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ready {
		return nil
	}
	for id := range services {
		if model.Own(own, id) && k.wanted[id] == nil {
			k.loop.Mark(id)
		}
	}
	for id, e := range k.wanted {
		f := model.Facts{Agent: services[id], Sent: e.sent, Has: has[id]}
		if e.state == unsure {
			continue
		}
		if e.state == present {
			f.Wanted, f.Checks = e.of.Service, e.of.Checks
		}
		if s, there := k.shown[id]; there {
			f.Catalog = &s
		}
		if !model.Next(f).Idle() {
			k.loop.Mark(id)
		}
	}
	return nil
}
