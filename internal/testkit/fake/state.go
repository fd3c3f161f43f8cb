package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// state is the whole backend: what a storage provider and its nodes would know. Several plugins (one per node) share
// it through one file, as real instances share one provider.
type state struct {
	Seq       int                  `json:"seq"`
	Volumes   map[string]*volume   `json:"volumes"`
	Snapshots map[string]*snapshot `json:"snapshots"`
	Nodes     map[string]nodeFacts `json:"nodes"`

	names map[string]*volume // those of Volumes by name
	bytes int64              // of all Volumes
}

type nodeFacts struct {
	Topology   map[string]string `json:"topology,omitempty"`
	MaxVolumes int64             `json:"max_volumes,omitempty"`
}

type volume struct {
	ID, Name       string
	Request        string // the arguments of its creation, for idempotency
	Size           int64
	FSSize         int64 // what the file system on it has grown to
	Context        map[string]string
	SourceSnapshot string              `json:",omitempty"`
	SourceVolume   string              `json:",omitempty"`
	Topology       []map[string]string `json:",omitempty"`
	Attached       map[string]string   // node -> arguments
	Staged         map[string]staged   // node -> where
	Published      map[string]map[string]published
}

type staged struct{ Path, Args string }

type published struct {
	Args     string
	ReadOnly bool
}

type snapshot struct {
	ID, Name, Volume string
	Args             string
	Size             int64
	CreatedAt        time.Time
	Polls            int
}

// store reads and writes the state under a lock that holds across processes.
type store struct {
	path string

	mu   sync.Mutex
	held *state // nil: the state is in the file
}

func newStore(cfg Config) *store {
	s := &store{path: filepath.Join(cfg.Dir, "state.json")}
	if cfg.Memory {
		s.held = &state{}
		s.held.init()
	}
	return s
}

// update runs fn on the state and keeps what it did, also when it fails: a failing call may have had an effect.
func (s *store) update(fn func(*state) error) (err error) {
	if s.held != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fn(s.held)
	}
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closing := lock.Close(); err == nil {
			err = closing
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the fake backend: %w", err)
	}
	st := &state{}
	b, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(b, st); err != nil {
			return fmt.Errorf("state of the fake backend: %w", err)
		}
	}
	st.init()
	result := fn(st)
	if b, err = json.MarshalIndent(st, "", " "); err != nil {
		return err
	}
	if err := os.WriteFile(s.path+".new", b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return err
	}
	return result
}

func (st *state) init() {
	if st.Volumes == nil {
		st.Volumes = map[string]*volume{}
	}
	if st.Snapshots == nil {
		st.Snapshots = map[string]*snapshot{}
	}
	if st.Nodes == nil {
		st.Nodes = map[string]nodeFacts{}
	}
	st.names = make(map[string]*volume, len(st.Volumes))
	for _, v := range st.Volumes {
		st.names[v.Name] = v
		st.bytes += v.Size
	}
}

func (st *state) newID(prefix string) string {
	st.Seq++
	return fmt.Sprintf("%s-%06d", prefix, st.Seq)
}

// Thing is a volume or a snapshot of a backend.
type Thing struct{ ID, Name string }

// Contents lists what the backend in a directory has.
func Contents(dir string) (out []Thing, err error) {
	err = (&store{path: filepath.Join(dir, "state.json")}).update(func(st *state) error {
		for _, v := range st.Volumes {
			out = append(out, Thing{v.ID, v.Name})
		}
		for _, s := range st.Snapshots {
			out = append(out, Thing{s.ID, s.Name})
		}
		return nil
	})
	return out, err
}

// Burn forgets what was staged and published on a node of the backend in a directory, whose machine is lost.
func Burn(dir, node string) error {
	return (&store{path: filepath.Join(dir, "state.json")}).update(func(st *state) error {
		for _, v := range st.Volumes {
			delete(v.Staged, node)
			delete(v.Published, node)
		}
		return nil
	})
}
