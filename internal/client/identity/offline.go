package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/base/volumestore"
	"berth/internal/client/localstate"
	"berth/internal/port/kv"
)

// Keep has a node whose store was lost go on as the node that a token of the servers readmits: its next start shows the
// token. It changes nothing but the store, and works where no agent runs. What lives and what is mounted stays as it
// is: the agent finds it.
func Keep(ctx context.Context, cfg Config, token redact.Secret) (ids.Node, error) {
	node, _, ok := strings.Cut(token.Reveal(), ".")
	if !ok || !ids.IsUUID(node) {
		return "", fault.WithHint(fault.New(fault.Invalid, "keep the identity of", cfg.DataDir, "this is no token"),
			"the servers make one: berth node readmit -reason … NODE")
	}
	id := fresh(ids.Node(node))
	err := offline(ctx, cfg, "keep the identity of", func(store *localstate.Store, left *found) error {
		if left.Copy != "" && left.Copy != id.Node {
			return other(cfg, fmt.Sprintf("client.identity is of node %s, the token of node %s", left.Copy, id.Node))
		}
		for a, n := range left.Living { // any of them will do
			if n != "" && n != id.Node {
				return other(cfg,
					fmt.Sprintf("allocation %s, which runs, is of node %s, the token of node %s", a, n, id.Node))
			}
		}
		if left.Copy != "" {
			id = left.identity
		}
		return store.PutIdentity(id, token)
	})
	return id.Node, err
}

func other(cfg Config, why string) error {
	return fault.WithHint(fault.New(fault.Conflict, "keep the identity of", cfg.DataDir, why),
		"ask for the token of that node: berth node readmit -reason … NODE")
}

// New has a node whose store was lost begin as another one. It is refused while anything of the old one is mounted or
// runs: nobody would know whose it is. What lies on disk stays, volumes of a bundled plugin beside their place: they
// carry the name of the old node. The servers keep that node's claims until a person says that it is dead.
func New(ctx context.Context, cfg Config) (ids.Node, error) {
	id := fresh(ids.Node(ids.New()))
	err := offline(ctx, cfg, "begin another node on", func(store *localstate.Store, left *found) error {
		refused := func(why, hint string) error {
			return fault.WithHint(fault.New(fault.Conflict, "begin another node on", cfg.DataDir, why), hint)
		}
		held, err := living(ctx, cfg.Shims, cfg.Slice)
		switch {
		case err != nil:
			return err
		case len(held) > 0:
			return refused(fmt.Sprintf("processes of allocation %s live", held[0].Alloc),
				"they are of the node that it was: keep that identity (\"berth node identity keep\"), or end them first")
		case len(left.Mounts) > 0:
			return refused("something is mounted at "+left.Mounts[0],
				"it may be a volume that is in use: keep the identity (\"berth node identity keep\"), or unmount it first")
		}
		for _, dir := range cfg.Volumes {
			if err := setAside(dir, cmp.Or(string(left.Copy), "lost")); err != nil {
				return err
			}
		}
		return store.PutIdentity(id, redact.Secret{})
	})
	return id.Node, err
}

// setAside gives a directory that is not empty, and the copy of its identity, names that say whose they were.
func setAside(dir, whose string) error {
	aside := dir + ".of-" + whose
	// The copy first: without it the rest can be done again.
	err := os.Rename(volumestore.Copy(dir), volumestore.Copy(aside))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "set aside", volumestore.Copy(dir))
	}
	if n, err := entries(dir); err != nil || n == 0 {
		return errors.Join(err, durable.SyncDir(filepath.Dir(dir)))
	}
	if n, err := entries(aside); err != nil || n > 0 {
		return errors.Join(err, fault.New(fault.Conflict, "set aside", dir, aside+" is there already"))
	}
	if err := os.Rename(dir, aside); err != nil {
		return fault.Wrap(err, fault.Internal, "set aside", dir)
	}
	return fault.Wrap(durable.SyncDir(filepath.Dir(dir)), fault.Internal, "set aside", dir)
}

// offline opens the store of a directory that no agent uses, and has it changed if it does not say who the node is. An
// identity that still waits for its readmission may be given again, with another token.
func offline(
	ctx context.Context, cfg Config, what string, change func(*localstate.Store, *found) error,
) (err error) {
	if _, err := os.Stat(cfg.DataDir); err != nil {
		return fault.Wrap(err, fault.NotFound, what, cfg.DataDir)
	}
	lock, err := kv.LockDir(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	store, err := localstate.Open(StoreDir(cfg.DataDir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := settle(ctx, store, cfg); err != nil {
		return err
	}
	id, known, err := store.Identity()
	if err != nil {
		return err
	}
	waits, err := store.Readmits()
	switch {
	case err != nil:
		return err
	case known && !waits:
		return fault.WithHint(fault.New(fault.Conflict, what, cfg.DataDir,
			fmt.Sprintf("its store knows that it is node %s", id.Node)), "start the agent")
	}
	left, err := look(ctx, cfg)
	if err != nil {
		return err
	}
	return change(store, left)
}
