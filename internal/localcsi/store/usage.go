package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Usage says what was asked of this node for one volume since it booted. It is a note beside the mount table, which
// decides: a use counts only while the kernel agrees (datadir.Look). It is written before the mount it
// speaks of and taken back after the unmount, and it need not survive a power failure, which ends every mount.
type Usage struct {
	Boot    string            `json:"boot"`
	Staging *Staging          `json:"staging,omitempty"`
	Targets map[string]Target `json:"targets,omitempty"`
}

// Staging says where and how a volume was staged.
type Staging struct {
	Path        string `json:"path"`
	Fingerprint string `json:"fingerprint"`
	FS          string `json:"fs,omitempty"` // empty: staged as a device
	ReadOnly    bool   `json:"read_only,omitempty"`
	Loop        int    `json:"loop"` // -1 until it is known
}

// Target says how a volume was published at one path.
type Target struct {
	Fingerprint string `json:"fingerprint"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	Loop        int    `json:"loop"` // a read-only device of this target's own, or -1
}

func (u Usage) clone() Usage {
	u.Targets = maps.Clone(u.Targets)
	if u.Targets == nil {
		u.Targets = map[string]Target{}
	}
	if u.Staging != nil {
		s := *u.Staging
		u.Staging = &s
	}
	return u
}

func (u Usage) empty() bool { return u.Staging == nil && len(u.Targets) == 0 }

// Usages keeps the notes of all volumes, one file per volume in dir.
type Usages struct {
	dir  string
	boot string

	mu    sync.Mutex
	notes map[string]Usage
}

// NewUsages returns notes kept in dir that count for one boot of the machine.
func NewUsages(dir, boot string) *Usages {
	return &Usages{dir: dir, boot: boot, notes: map[string]Usage{}}
}

// Get returns a copy of the note of a volume.
func (s *Usages) Get(key string) Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[key].clone()
}

// Stage notes that a volume is about to be staged, unless as many others as limit are already; 0 is no limit.
func (s *Usages) Stage(key string, u Usage, limit int64) (fits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(0)
	for other, o := range s.notes {
		if other != key && o.Staging != nil {
			n++
		}
	}
	if limit > 0 && n >= limit {
		return false, nil
	}
	return true, s.put(key, u)
}

// Keys lists the volumes that have a note.
func (s *Usages) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.notes))
	for key := range s.notes {
		out = append(out, key)
	}
	return out
}

// Put replaces the note of a volume; an empty one is removed.
func (s *Usages) Put(key string, u Usage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(key, u)
}

// Release replaces the note of a volume by one that says less. It needs no room and no writable disk: where there is
// none, the file stays as it was, and the mount table does not agree with it any more.
func (s *Usages) Release(key string, u Usage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.put(key, u)
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS} {
		if errors.Is(err, full) {
			s.keep(key, u)
			return nil
		}
	}
	return err
}

// keep has a note count.
func (s *Usages) keep(key string, u Usage) {
	if u.empty() {
		delete(s.notes, key)
		return
	}
	u = u.clone()
	u.Boot = s.boot
	s.notes[key] = u
}

func (s *Usages) put(key string, u Usage) error {
	path := filepath.Join(s.dir, key+".json")
	if u.empty() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.keep(key, u)
		return nil
	}
	u.Boot = s.boot
	if err := WriteJSON(path, u, false); err != nil {
		return err
	}
	s.keep(key, u)
	return nil
}

// Load reads the notes of this boot and drops those of another. A note that cannot be read was cut off by a power
// failure, so it is of another boot too.
func (s *Usages) Load(dropped func(path string, err error)) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		var u Usage
		key, ok := strings.CutSuffix(e.Name(), ".json")
		var err error
		if !ok || !ValidKey(key) {
			err = errors.New("it is no note of a volume")
		} else if err = ReadJSON(path, &u); err == nil && u.Boot == s.boot {
			s.notes[key] = u.clone()
			continue
		}
		if err != nil {
			dropped(path, err)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// BootID identifies this boot of the machine.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}
