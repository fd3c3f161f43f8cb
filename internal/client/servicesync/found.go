package servicesync

import (
	"context"
	"time"

	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/derive/service"
	model "berth/internal/model/consul"
	"berth/internal/port/consul"
)

// found is what Consul's own checks have found, as its catalog tells when it changes: nobody asks for each check.
type found struct {
	states map[string]consul.State // by id; nil: it is not known, and the agent is asked
	asked  chan struct{}           // somebody wants to know
}

// Answer is what the agent of Consul found last by a check of its own.
func (k *Keeper) Answer(ctx context.Context, c *service.Check) service.Answer {
	k.mu.Lock()
	all := k.found.states
	k.mu.Unlock()
	select {
	case k.found.asked <- struct{}{}:
	default: // it is known that somebody asks
	}
	if all != nil && all[c.Consul.ID].Status != "" {
		return answer(all[c.Consul.ID])
	}
	// The catalog has yet to tell of it, or cannot be asked.
	all, err := k.cfg.Agent.Checks(ctx, c.Service.ID)
	switch {
	case err != nil:
		return service.Answer{At: time.Now(), Output: err.Error(), Unknown: true}
	case all[c.Consul.ID].Status == "":
		return service.Answer{At: time.Now(), Output: "Consul has yet to ask", Unknown: true}
	}
	return answer(all[c.Consul.ID])
}

func answer(s consul.State) service.Answer {
	return service.Answer{
		At:     time.Now(),
		Output: s.Output,
		Passed: s.Status == model.Passing,
		Warned: s.Status == model.Warning,
	}
}

// health follows what checks find, from the first question on.
func (k *Keeper) health(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-k.found.asked:
		}
		if err := k.followHealth(ctx); err != nil && ctx.Err() == nil {
			k.log.Debug("the agent of Consul is asked for each check", logkey.Error, err)
		}
		retry.Sleep(ctx, time.Second)
	}
	return nil
}

// followHealth follows it until it cannot.
func (k *Keeper) followHealth(ctx context.Context) error {
	k.mu.Lock()
	node := k.node
	k.mu.Unlock()
	if node == "" {
		return nil // it is asked again then
	}
	for index := uint64(0); ; {
		all, next, err := k.cfg.Agent.Found(ctx, node, index, longest)
		if err != nil {
			all = nil
		}
		k.mu.Lock()
		k.found.states = all
		k.mu.Unlock()
		if err != nil {
			return err
		}
		if next < index { // it began anew
			next = 0
		}
		index = next
		retry.Sleep(ctx, settle) // several that turn at once are heard of at once
	}
}
