// Package stores owns what is found wrong with the stores in a data directory that no agent uses: the servers' log, key
// and state, and what the node remembers. It changes nothing. Only package agent imports it.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/agent/auditlog"
	"berth/internal/agent/datadir"
	"berth/internal/base/storecheck"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/httpapi/audit"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/raftlog/files"
	"berth/internal/server"
	"berth/internal/server/keyring"
	"berth/internal/server/saved"
	"berth/internal/server/state"
)

// Check reads every store in the data directory of a node, and adds what it finds to a report.
func Check(ctx context.Context, r *storecheck.Report, node identity.Config) {
	dataDir := node.DataDir
	servers := filepath.Join(dataDir, "server")
	raft, keys := filepath.Join(servers, "raft"), filepath.Join(servers, "keyring")
	begun := files.Begun(raft)
	log := checkLog(raft)
	r.Add(log)
	r.Add(checkKey(keys, begun))
	r.Add(checkCredentials("server's credentials", servers, trust.Server))
	var known *state.Snap // none: a log that is damaged says nothing of keys
	if log.Holds != "" && len(log.Damage) == 0 {
		s, made := checkState(servers)
		r.Add(s)
		known = made
	}
	r.Add(checkRecovery(keys, known))
	r.Add(checkWaiting(dataDir, keys, begun))
	r.Add(checkNode(ctx, node))
	r.Add(checkCredentials("node's credentials", identity.StoreDir(dataDir), trust.Node))
	r.Add(checkMounts(dataDir))
	r.Add(checkAudit((*auditlog.Block)(nil).Config(false, dataDir)))
}

func checkLog(dir string) storecheck.Store {
	s := storecheck.Store{Name: "servers' log", Path: dir}
	if !files.Begun(dir) {
		return s
	}
	found, err := files.Check(dir)
	if err != nil {
		if w := files.Covered(dir); w != nil {
			found.First, found.Last = w.Entries()
			err = fmt.Errorf("the next start drops what is damaged, as the snapshot up to entry %d holds it, too: %w",
				w.Snapshot, err)
			found.Warnings, err = append(found.Warnings, err), nil
		}
	}
	s.Damage = storecheck.Texts(err, found.NoVote)
	s.Holds = fmt.Sprintf("entries %d to %d, a snapshot up to %d", found.First, found.Last, found.Snapshot)
	if found.Snapshot == 0 {
		s.Holds = fmt.Sprintf("entries %d to %d", found.First, found.Last)
	}
	s.Warnings = storecheck.Texts(found.Warnings...)
	if found.Dropped > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf(
			"%d bytes after entry %d are not whole: of a write that was cut off, and never acknowledged, unless the disk "+
				"has damaged what was written before", found.Dropped, found.Last))
	}
	return s
}

// checkState makes the state of the servers anew from their log, as a start does.
func checkState(dir string) (storecheck.Store, *state.Snap) {
	s := storecheck.Store{Name: "servers' state", Path: filepath.Join(dir, "raft")}
	made, err := server.Replay(dir)
	s.Damage = storecheck.Texts(append([]error{err}, made.Unopened...)...)
	s.Holds = fmt.Sprintf("all up to entry %d, %d entries of it sealed", made.Index, made.Sealed)
	return s, made.State
}

// checkRecovery tries the recovery key that was not moved away against the data keys of the servers' state.
func checkRecovery(dir string, known *state.Snap) storecheck.Store {
	s := storecheck.Store{Name: "recovery key", Path: dir}
	there, err := keyring.CheckRecovery(dir, known)
	if s.Damage = storecheck.Texts(err); there {
		s.Holds = "what opens the data keys without a server"
	}
	return s
}

// checkWaiting looks at the state of a backup that the servers take up at the next start, with the key that they have
// by then. begun: they have a log, so that a key that is missing is not made anew.
func checkWaiting(dir, keys string, begun bool) storecheck.Store {
	path, there, err := datadir.Waiting(dir, func(r io.Reader) error {
		var opens saved.Secrets // none, if the key is damaged, which is said of the key
		if !begun && keyring.Missing(keys) {
			made, err := keyring.Unstored() // as one that the start makes: it opens nothing
			if err != nil {
				return err
			}
			opens = made
		} else if key, err := keyring.Open(keys); err == nil {
			opens = key
		}
		_, _, err := saved.Load(r, opens, nil)
		return err
	})
	s := storecheck.Store{Name: "waiting state", Path: path, Damage: storecheck.Texts(err)}
	if there {
		s.Holds = "the servers' state, of a backup"
	}
	return s
}

func checkKey(dir string, begun bool) storecheck.Store {
	s := storecheck.Store{Name: "servers' key", Path: dir}
	if !begun && keyring.Missing(dir) {
		return s // the start makes it
	}
	s.Holds = "the root key"
	_, err := keyring.Open(dir)
	s.Damage = storecheck.Texts(err)
	return s
}

// checkCredentials reads what a server or node shows to others, if it has joined them.
func checkCredentials(name, dir string, role trust.Role) storecheck.Store {
	path, there, err := credentials.Check(dir, role)
	s := storecheck.Store{Name: name, Path: path, Damage: storecheck.Texts(err)}
	if there {
		s.Holds = "a key, and what it is known by"
	}
	return s
}

// checkNode reads the node's store; of one that is not there it says what a start makes of that.
func checkNode(ctx context.Context, cfg identity.Config) storecheck.Store {
	dir := identity.StoreDir(cfg.DataDir)
	s := storecheck.Store{Name: "node's store", Path: filepath.Join(dir, "client.db")}
	if _, err := os.Stat(s.Path); errors.Is(err, fs.ErrNotExist) {
		taken, err := identity.Judge(ctx, cfg)
		s.Damage = storecheck.Texts(err)
		if taken {
			s.Warnings = []string{"it is lost: the next start goes on as the node whose tasks run, and has no record " +
				"of them"}
		}
		return s
	}
	loaded, others, err := localstate.Check(dir)
	if err != nil {
		s.Holds, s.Damage = "nothing that can be read", storecheck.Texts(err, copyDamaged(dir, ""))
		return s
	}
	// Beside a store that is whole the copy is not missed.
	s.Warnings = storecheck.Texts(copyDamaged(dir, "; the next start writes it anew from the store"))
	s.Holds = fmt.Sprintf("%d allocations", len(loaded.Allocs)+len(loaded.Damaged))
	for _, err := range loaded.Damaged {
		s.Damage = append(s.Damage, err.Error())
	}
	s.Damage = append(s.Damage, storecheck.Texts(others...)...)
	return s
}

// copyDamaged says that the copy of the node's identity beside its store is damaged, and what becomes of that.
func copyDamaged(dir, then string) error {
	_, damaged, err := localstate.IdentityBeside(dir)
	if damaged {
		err = fmt.Errorf("%s, the copy of the node's identity, is damaged%s", localstate.IdentityPath(dir), then)
	}
	return err
}

// checkMounts reads the files that name mounted volumes, by which a node finds them that has no record of them.
func checkMounts(dataDir string) storecheck.Store {
	s := storecheck.Store{Name: "names of mounts", Path: filepath.Join(dataDir, "csi")}
	n, bad, err := evidence.CheckIDFiles(localstate.Codec, dataDir)
	s.Damage = storecheck.Texts(append(bad, err)...)
	if n > 0 {
		s.Holds = fmt.Sprintf("%d files", n)
	}
	return s
}

// checkAudit looks whether an agent could go on with the audit log that it keeps where no other place is configured,
// and reads its lines. Those that are damaged keep no agent from it.
func checkAudit(cfg audit.Config) storecheck.Store {
	s := storecheck.Store{Name: "audit log", Path: cfg.Path}
	there, err := audit.Check(cfg)
	s.Damage = storecheck.Texts(err)
	if there {
		s.Holds = "lines of who did what"
	}
	s.Warnings = storecheck.Texts(audit.Damaged(cfg)...)
	return s
}
