package servicesync

import (
	"context"

	"berth/internal/client/consultokens"
	"berth/internal/port/consul"
)

// agent is the agent of Consul as a service speaks to it. What its alloc has no service of any more is this node's own.
func (k *Keeper) agent(ctx context.Context, id string) (*consul.Agent, error) {
	by, is := k.by(id)
	if !is {
		return k.cfg.Agent, nil
	}
	return k.cfg.Tokens.Agent(ctx, by)
}

// known is the same by no other token than is there already.
func (k *Keeper) known(id string) *consul.Agent {
	by, is := k.by(id)
	if !is {
		return k.cfg.Agent
	}
	return k.cfg.Tokens.Known(by)
}

// release gives the token of a service back that is not registered: never before, because by it the service is
// deregistered.
func (k *Keeper) release(ctx context.Context, id string) error {
	by, is := k.by(id)
	if !is {
		return nil
	}
	return k.cfg.Tokens.Release(ctx, by)
}

func (k *Keeper) by(id string) (consultokens.Service, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.wanted[id]
	if e == nil || k.cfg.Tokens == nil {
		return consultokens.Service{}, false
	}
	return e.by, true
}
