// Package stores owns what is found wrong with the stores in a data directory that no agent uses: the servers' log, key
// and state, and what the node remembers. It changes nothing. Only package agent imports it.
package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/agent/datadir"
	"berth/internal/base/storecheck"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/port/raftlog/files"
	"berth/internal/server"
	"berth/internal/server/keyring"
	"berth/internal/server/saved"
)

// Check reads every store in a data directory, and adds what it finds to a report.
func Check(r *storecheck.Report, dataDir string) {
	servers := filepath.Join(dataDir, "server")
	raft, keys := filepath.Join(servers, "raft"), filepath.Join(servers, "keyring")
	begun := files.Begun(raft)
	log := checkLog(raft)
	r.Add(log)
	r.Add(checkKey(keys, begun))
	if log.Holds != "" && len(log.Damage) == 0 {
		r.Add(checkState(servers))
	}
	r.Add(checkWaiting(dataDir, keys, begun))
	r.Add(checkNode(identity.StoreDir(dataDir)))
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
			"%d bytes after entry %d are of a write that was cut off, and were never acknowledged",
			found.Dropped, found.Last))
	}
	return s
}

// checkState makes the state of the servers anew from their log, as a start does.
func checkState(dir string) storecheck.Store {
	s := storecheck.Store{Name: "servers' state", Path: filepath.Join(dir, "raft")}
	made, err := server.Replay(dir)
	s.Damage = storecheck.Texts(append([]error{err}, made.Unopened...)...)
	s.Holds = fmt.Sprintf("all up to entry %d, %d entries of it sealed", made.Index, made.Sealed)
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

func checkNode(dir string) storecheck.Store {
	s := storecheck.Store{Name: "node's store", Path: filepath.Join(dir, "client.db")}
	if _, err := os.Stat(s.Path); errors.Is(err, fs.ErrNotExist) {
		return s
	}
	loaded, err := localstate.Check(dir)
	if err != nil {
		s.Holds, s.Damage = "nothing that can be read", storecheck.Texts(err)
		return s
	}
	s.Holds = fmt.Sprintf("%d allocations", len(loaded.Allocs)+len(loaded.Damaged))
	for _, err := range loaded.Damaged {
		s.Damage = append(s.Damage, err.Error())
	}
	return s
}
