package client

import (
	"time"

	"context"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/artifacts"
	"berth/internal/client/hook"
	"berth/internal/client/identities"
	"berth/internal/client/servers"
	"berth/internal/client/taskhooks"
	"berth/internal/wire"
)

// ownHooks are those of what a task has of Berth itself.
func (c *Client) ownHooks() []hook.Hook {
	return append([]hook.Hook{
		taskhooks.Payload{},
		&taskhooks.Identity{Keeper: c.beside.identities},
		&taskhooks.TaskAPI{Sockets: c.beside.sockets},
		c.deviceHook(),
	}, c.tokenHooks()...)
}

// contact is when the servers answered last: before they have, as long ago as the agent began.
func (c *Client) contact(began time.Time) func() time.Time {
	return func() time.Time {
		if _, last := c.session.Heartbeat(); last.After(began) {
			return last
		}
		return began
	}
}

// contents are the hooks of what lies in a task's directories and texts.
func (c *Client) contents() []hook.Hook {
	return []hook.Hook{&taskhooks.Secrets{Sources: c.beside.sources}, c.artifacts()}
}

// artifacts fetches what tasks want fetched, within the disk that their groups ask for.
func (c *Client) artifacts() hook.Hook {
	s := c.cfg.Artifacts
	s.UnlimitedDisks = c.cfg.UnlimitedDisks
	return artifacts.New(s)
}

// signer asks the servers for identities.
type signer struct{ link *servers.Link }

// Sign implements identities.Signer.
func (s signer) Sign(ctx context.Context, id ids.Alloc, task string, names []string) ([]identities.Signed, error) {
	reply, err := wire.NodeIdentities.Call(ctx, s.link.Conn(), &wire.IdentitiesRequest{
		NodeIdentity: s.link.Identity(),
		Alloc:        id,
		Task:         task,
		Names:        names,
	})
	if err != nil {
		return nil, err
	}
	if len(reply.Items) != len(names) {
		return nil, fault.New(fault.Internal, "sign", "identities of task "+task, "the servers answered something else")
	}
	out := make([]identities.Signed, len(names))
	for i := range out {
		out[i] = identities.Signed{Token: reply.Items[i].Token.Secret(), Lives: reply.Items[i].Lives}
	}
	return out, nil
}

// SignService asks the servers for the identity of a service, by the names that the job gives the task that it belongs
// to (empty: it is the group's), it and its port.
func (s signer) SignService(ctx context.Context, id ids.Alloc, task, service, port string) (identities.Signed, error) {
	reply, err := wire.NodeServiceIdentity.Call(ctx, s.link.Conn(), &wire.ServiceIdentityRequest{
		NodeIdentity: s.link.Identity(),
		Alloc:        id,
		Task:         task,
		Service:      service,
		Port:         port,
	})
	if err != nil {
		return identities.Signed{}, err
	}
	return identities.Signed{Token: reply.Token.Secret(), Lives: reply.Lives}, nil
}

// ServiceToken implements consultokens.Servers.
func (s signer) ServiceToken(ctx context.Context, id ids.Alloc, task, service string) (redact.Secret, error) {
	reply, err := wire.NodeConsulToken.Call(ctx, s.link.Conn(), &wire.ConsulTokenRequest{
		NodeIdentity: s.link.Identity(),
		Alloc:        id,
		Task:         task,
		Service:      service,
	})
	if err != nil {
		return redact.Secret{}, err
	}
	return reply.Token.Secret(), nil
}
