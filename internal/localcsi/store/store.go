// Package store owns the records of the bundled plugin: what exists (volumes and snapshots, durable) and what was asked
// of this node since it booted (usages). Only package localcsi and its parts import it.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
)

const (
	// MetaFile is the name of the record in its directory.
	MetaFile = "meta.json"
	// ImageFile is the name of the image in a record's directory.
	ImageFile = "image"
	// Schema is the number of the records' form.
	Schema = 1
)

// Volume is the durable record of a volume. Records are never changed in place: a change makes a copy.
type Volume struct {
	Schema     int    `json:"schema"`
	Key        string `json:"key"`
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	FS         string `json:"fs,omitempty"` // what a mount finds or gets; empty: raw block only
	Mount      bool   `json:"mount"`        // may be used as a file system
	Block      bool   `json:"block"`        // may be used as a device
	Formatting bool   `json:"formatting,omitempty"`
	// FirstMounted: the file system of a volume that may be used both ways was made, when it was first mounted.
	FirstMounted bool `json:"first_mounted,omitempty"`
	// GrownFrom is the size in bytes before the last expansion, which its image may still have; 0: there was none.
	GrownFrom int64   `json:"grown_from,omitempty"`
	Asked     Asked   `json:"asked"`
	Source    *Source `json:"source,omitempty"`
	// bytes whose blocks were shared with another image when it was made
	Shared     int64       `json:"shared,omitempty"`
	Attachment *Attachment `json:"attachment,omitempty"`
	Created    time.Time   `json:"created"`
}

// LeastImage is how many bytes the image has at least.
func (v *Volume) LeastImage() int64 {
	if v.GrownFrom > 0 {
		return v.GrownFrom
	}
	return v.Size
}

// Formatted tells whether a file system was made in the volume: when the volume was made, unless it may be used as a
// device too.
func (v *Volume) Formatted() bool { return v.Mount && (!v.Block || v.FirstMounted) }

// Asked is what the call that made the volume asked for, to tell a repetition from a different wish.
type Asked struct {
	Required   int64             `json:"required,omitempty"`
	Limit      int64             `json:"limit,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Source names what a volume was filled from, by external id.
type Source struct {
	Snapshot string `json:"snapshot,omitempty"`
	Volume   string `json:"volume,omitempty"`
}

// Attachment says how the volume was attached to this node.
type Attachment struct {
	ReadOnly    bool   `json:"read_only"`
	Fingerprint string `json:"fingerprint"`
}

// Snapshot is the durable record of a snapshot.
type Snapshot struct {
	Schema   int       `json:"schema"`
	Key      string    `json:"key"`
	Name     string    `json:"name"`
	VolumeID string    `json:"volume_id"`
	Size     int64     `json:"size"`
	Stored   int64     `json:"stored"` // bytes that it took when it was made
	FS       string    `json:"fs,omitempty"`
	Mount    bool      `json:"mount"`
	Block    bool      `json:"block"`
	Shared   int64     `json:"shared,omitempty"`
	Created  time.Time `json:"created"`
}

// Identity returns what a volume is found by.
func (v *Volume) Identity() (string, string) { return v.Key, v.Name }

// Identity returns what a snapshot is found by.
func (s *Snapshot) Identity() (string, string) { return s.Key, s.Name }

// SchemaNumber returns the form that the record was written in.
func (v *Volume) SchemaNumber() int { return v.Schema }

// SchemaNumber returns the form that the record was written in.
func (s *Snapshot) SchemaNumber() int { return s.Schema }

// Record is a volume or a snapshot.
type Record interface {
	Identity() (key, name string)
	SchemaNumber() int
}

// Collection keeps the records of one kind. What it answers is on disk: one directory per record, with meta.json and
// the image, that appeared by a rename.
type Collection[R Record] struct {
	dir   string
	trash string

	mu    sync.RWMutex
	items map[string]R
	names map[string]string
}

// NewCollection returns an empty collection over dir; what is removed goes by way of the directory trash.
func NewCollection[R Record](dir, trash string) *Collection[R] {
	return &Collection[R]{dir: dir, trash: trash, items: map[string]R{}, names: map[string]string{}}
}

// Get returns the record of a key.
func (s *Collection[R]) Get(key string) (R, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.items[key]
	return r, ok
}

// Named returns the record of a name.
func (s *Collection[R]) Named(name string) (R, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.items[s.names[name]]
	return r, ok
}

// All returns the records in the order of their keys.
func (s *Collection[R]) All() []R {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]R, 0, len(s.items))
	for _, k := range slices.Sorted(maps.Keys(s.items)) {
		out = append(out, s.items[k])
	}
	return out
}

// Image returns the path of the image of a key.
func (s *Collection[R]) Image(key string) string { return filepath.Join(s.dir, key, ImageFile) }

func (s *Collection[R]) remember(r R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, name := r.Identity()
	s.items[key] = r
	s.names[name] = key
}

// Add moves the directory made, which holds a synced image, into the collection under the record's key.
func (s *Collection[R]) Add(made string, r R) error {
	key, _ := r.Identity()
	if err := WriteJSON(filepath.Join(made, MetaFile), r, true); err != nil {
		return err
	}
	if err := os.Rename(made, filepath.Join(s.dir, key)); err != nil {
		return err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	s.remember(r)
	return nil
}

// Update replaces the record on disk and in memory.
func (s *Collection[R]) Update(r R) error {
	key, _ := r.Identity()
	if err := WriteJSON(filepath.Join(s.dir, key, MetaFile), r, true); err != nil {
		return err
	}
	s.remember(r)
	return nil
}

// Remove takes the record and its image away. After the rename it is gone for good; an image that could not be
// emptied out at once goes at the next start.
func (s *Collection[R]) Remove(key string) error {
	bin := filepath.Join(s.trash, key+"-"+NewKey())
	if err := os.Rename(filepath.Join(s.dir, key), bin); err != nil {
		return err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	_, name := s.items[key].Identity()
	delete(s.items, key)
	delete(s.names, name)
	s.mu.Unlock()
	return RemoveFlat(bin)
}

// Load reads the collection from disk. A record that cannot be read is reported by its path and left alone: one bad
// volume does not stop the others.
func (s *Collection[R]) Load(bad func(path string, err error)) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		var r R
		err := ReadJSON(filepath.Join(path, MetaFile), &r)
		if err == nil {
			err = s.plausible(e.Name(), r)
		}
		if err != nil {
			bad(filepath.Join(path, MetaFile), err)
			continue
		}
		s.remember(r)
	}
	return nil
}

func (s *Collection[R]) plausible(dir string, r R) error {
	key, _ := r.Identity()
	if r.SchemaNumber() != Schema {
		return fmt.Errorf("its schema is %d, this plugin reads %d", r.SchemaNumber(), Schema)
	}
	if key != dir || !ValidKey(key) {
		return fmt.Errorf("its record says %q", key)
	}
	st, err := os.Lstat(s.Image(key))
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("its image is a %s", st.Mode().Type())
	}
	return err
}

// WriteJSON replaces the file at path in one step; lasting says that it must survive a power failure, not only the
// end of this process.
func WriteJSON(path string, v any, lasting bool) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err == nil && lasting {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if !lasting {
		return nil
	}
	return durable.SyncDir(filepath.Dir(path))
}

// ReadJSON reads a record and accepts nothing that it does not know.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("decode %s: something follows the record", path)
	}
	if string(bytes.TrimSpace(text)) == "null" {
		return fmt.Errorf("decode %s: it holds nothing", path)
	}
	return nil
}

// RemoveFlat removes a directory of files. It does not descend: what is no file or empty directory stays and is an
// error, so nothing that is mounted there is ever touched.
func RemoveFlat(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
