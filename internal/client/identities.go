package client

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/artifacts"
	"berth/internal/client/hook"
	"berth/internal/client/identities"
	"berth/internal/client/servers"
	"berth/internal/client/taskhooks"
	"berth/internal/wire"
)

// ownHooks are those of what a task has of Berth itself.
func (c *Client) ownHooks() []hook.Hook {
	return []hook.Hook{
		taskhooks.Payload{},
		&taskhooks.Identity{Keeper: c.beside.identities},
		&taskhooks.TaskAPI{Sockets: c.beside.sockets},
	}
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
