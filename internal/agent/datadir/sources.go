package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/port/kv"
)

// Sources says what of a data directory that an agent uses on this machine goes into a backup, without what the bundled
// plugin keeps. A directory that no agent uses is refused: it is not the one that the caller has heard of.
func Sources(dataDir string) (*backup.Sources, error) {
	release, err := kv.HoldDir(dataDir)
	if err == nil {
		err = fault.WithHint(fault.New(fault.NotFound, "back up", dataDir, "no agent uses it on this machine"),
			"run the command on the agent's own machine; while no agent runs, copy the directory itself")
		return nil, errors.Join(err, release())
	}
	if !fault.Has(err, fault.Busy) {
		return nil, err
	}
	node, err := localstate.NodeBeside(identity.StoreDir(dataDir))
	if err != nil {
		return nil, err
	}
	p := &backup.Sources{NodeID: string(node)}
	if p.Store, err = filepath.Rel(dataDir, filepath.Join(identity.StoreDir(dataDir), "client.db")); err != nil {
		return nil, err
	}
	// By its copy the store's loss is told from a node that never was.
	for _, path := range []string{"client.identity", filepath.Join("server", "keyring", "root.key")} {
		switch _, err := os.Lstat(filepath.Join(dataDir, path)); {
		case err == nil:
			p.Files = append(p.Files, path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return p, nil
}
