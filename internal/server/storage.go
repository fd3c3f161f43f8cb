package server

import (
	"context"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/server/claims"
	"berth/internal/server/dispatch"
	"berth/internal/server/endpoint"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// sealed opens and seals entries of the secret store: ciphertext in the state, the key in the keyring.
type sealed struct {
	*keyring.Keyring
	store *state.Store
}

// Secrets implements claims.Secrets.
func (s sealed) Secrets(name string) (wire.Secrets, error) {
	if name == "" {
		return wire.Secrets{}, nil
	}
	e := s.store.Snapshot().Secret(nil, name)
	if e == nil {
		return wire.Secrets{}, fault.WithHint(fault.New(fault.NotFound, "open secret", `"`+name+`"`, "it is not in the store"), "register the volume again with its secrets")
	}
	m, err := s.Open(name, e.Data)
	if err != nil {
		return wire.Secrets{}, err
	}
	return wire.Seal(m), nil
}

// storage is the part that keeps claims, attachments, volumes and snapshots.
func storage(core Core) (Piece, error) {
	secrets := sealed{Keyring: core.Keyring, store: core.Store}
	d := dispatch.New()
	ck := claims.New(claims.Config{Store: core.Store, Proposer: core.Proposer, Dispatch: d, Secrets: secrets, NodeConn: core.Nodes.NodeConn, Log: core.Log,
		Authenticate: func(id wire.NodeIdentity) error {
			_, err := endpoint.Authenticate(core.Store.Snapshot(), id)
			return err
		}})
	vk := volumes.New(volumes.Config{Store: core.Store, Proposer: core.Proposer, Dispatch: d, Secrets: secrets,
		NodeConn: core.Nodes.NodeConn, Log: core.Log})
	return Piece{
		Name: "storage",
		Lead: func(ctx context.Context) error {
			return lifecycle.RunAll(ctx, map[string]func(context.Context) error{"claims": ck.Run, "volumes": vk.Run})
		},
		Register: func(s *wire.Server) {
			ck.Register(s)
			vk.Register(s)
		},
		Storage: claims.Describe,
	}, nil
}
