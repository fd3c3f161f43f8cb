package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/agent/datadir"
	"berth/internal/base/fault"
	"berth/internal/base/storecheck"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/port/raftlog/files"
	"berth/internal/server"
	"berth/internal/server/keyring"
	"berth/internal/server/saved"
)

// CheckData reads every store of a data directory that no agent uses, and reports what is damaged. It changes nothing.
// What the bundled plugin keeps there is its own to check, in the directory that is returned. One that a start of this
// user's would refuse is damaged by that alone, and nothing in it is opened; then the directory returned is empty. One
// that no agent has begun to use is NotFound.
func CheckData(dataDir string) (r *storecheck.Report, volumes string, err error) {
	c := &Config{DataDir: dataDir}
	if err := c.resolve(); err != nil {
		return nil, "", err
	}
	if st, err := os.Stat(c.DataDir); err != nil || !st.IsDir() {
		return nil, "", fault.WithHint(fault.New(fault.NotFound, "check", c.DataDir, "it is no directory"),
			"name the data_dir of an agent")
	}
	uid := os.Geteuid()
	release, refused, err := datadir.Hold(c.DataDir, uid)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := datadir.Used(c.DataDir); err != nil && refused == nil {
		return nil, "", err
	}
	a := &Agent{cfg: c}
	r = &storecheck.Report{DataDir: c.DataDir, Whole: true}
	if refused != nil {
		r.Add(storecheck.Store{
			Name:   "directory",
			Path:   c.DataDir,
			Holds:  "not looked at: no agent starts on it",
			Damage: storecheck.Texts(refused),
		})
		return r, "", nil
	}
	own := fmt.Sprintf("what user %d alone can change", uid)
	r.Add(storecheck.Store{Name: "directory", Path: c.DataDir, Holds: own})
	raft, keys := a.dir("server", "raft"), a.dir("server", "keyring")
	begun := files.Begun(raft)
	log := checkLog(raft)
	r.Add(log)
	r.Add(checkKey(keys, begun))
	if log.Holds != "" && len(log.Damage) == 0 {
		r.Add(checkState(a.dir("server")))
	}
	r.Add(checkWaiting(c.DataDir, keys, begun))
	r.Add(checkNode(identity.StoreDir(c.DataDir)))
	return r, a.volumes(), nil
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
			opens = new(keyring.Keyring) // as one that the start makes: it opens nothing
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
