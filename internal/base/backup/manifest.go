// Package backup owns the form of a backup directory: what lies in it, the manifest that says so, how one is written so
// that it appears whole or not at all, how it is checked, and how a data directory is put back from it. What is put
// back lies beneath "data", at the place that it has in the data directory. It knows nothing of what the files hold.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
	"berth/internal/base/sparse"
)

// Format is the number of this form.
const Format = 1

// Names in a backup.
const (
	ManifestFile = "manifest.json"
	// SumsFile holds the checksums of the manifest and of all files without holes, as sha256sum writes them.
	SumsFile = "SHA256SUMS"
	// StateFile is the servers' state, as "operator snapshot save" writes it.
	StateFile = "servers.snap"
	// WaitingState is where that is put in a data directory: the agent gives it to its servers before its node starts.
	WaitingState = "server/restore.snap"
	// DataDir holds what is put back into a data directory.
	DataDir = "data"
)

// Manifest says what a backup is of, and what is in it.
type Manifest struct {
	Format       int
	Program      string // version of what wrote it
	Begun, Ended time.Time
	// Of the servers' state.
	ClusterID   string
	Incarnation string
	Index       uint64
	Schema      uint64
	// Of the node.
	NodeID  string
	DataDir string
	Files   []File
	Volumes []Volume
	// Gaps are other things that are not in it, in sentences.
	Gaps []string
}

// File is one file.
type File struct {
	Path   string // beneath the backup, with slashes
	Size   int64  // bytes
	SHA256 string
	// Sparse: it may have holes, and SHA256 is that of package sparse.
	Sparse bool
}

// Volume is a volume that the servers knew, or that the bundled plugin had.
type Volume struct {
	Namespace, ID string
	Plugin        string
	ExternalID    string
	// Saved: what is on it is in the backup, as of the time At.
	Saved bool
	At    time.Time
	// Why says why it is not in it, and what else to do; Lost: it should have been.
	Why  string
	Lost bool
}

// Label is how people find the volume.
func (v *Volume) Label() string {
	if v.ID == "" {
		return v.ExternalID
	}
	return v.Namespace + "/" + v.ID
}

// Incomplete tells whether anything is missing that should be in the backup.
func (m *Manifest) Incomplete() bool {
	return slices.ContainsFunc(m.Volumes, func(v Volume) bool { return v.Lost })
}

// Bytes is how large all files are, holes included.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

func refuse(dir, text string) error {
	return fault.WithHint(fault.New(fault.Invalid, "read", "backup "+dir, text),
		`use a directory that "berth operator backup save" has written, whole`)
}

// Read reads the manifest of a backup and holds it against its own checksum, not the files.
func Read(dir string) (*Manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(dir, "it has no "+ManifestFile+": it is no backup, or was not finished")
	}
	if err != nil {
		return nil, refuse(dir, err.Error())
	}
	sums, err := os.ReadFile(filepath.Join(dir, SumsFile))
	if err != nil {
		return nil, refuse(dir, err.Error())
	}
	if first, _, _ := strings.Cut(string(sums), "\n"); first != sumLine(digest(data), ManifestFile) {
		return nil, refuse(dir, ManifestFile+" is damaged: it does not match its checksum in "+SumsFile)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, refuse(dir, ManifestFile+" can't be read: "+err.Error())
	}
	if m.Format != Format {
		return nil, refuse(dir, fmt.Sprintf("its form is %d, this program reads %d", m.Format, Format))
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) != f.Path || seen[f.Path] {
			return nil, refuse(dir, fmt.Sprintf("%s names %q, which no backup has, or names it twice", ManifestFile,
				f.Path))
		}
		seen[f.Path] = true
	}
	return &m, nil
}

func digest(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

func sumLine(sum, path string) string { return sum + "  " + path }

// Progress hears of bytes that have been read, by what they belong to; nil: nobody listens.
type Progress func(path string, bytes int64)

func (p Progress) of(path string) func(int64) {
	return func(n int64) {
		if p != nil {
			p(path, n)
		}
	}
}

// Verify reads a whole backup and returns its manifest, and what is damaged in it, one error for each file.
func Verify(ctx context.Context, dir string, progress Progress) (*Manifest, []error, error) {
	m, err := Read(dir)
	if err != nil {
		return nil, nil, err
	}
	var damaged []error
	for _, f := range m.Files {
		err := f.verify(ctx, dir, progress)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err != nil {
			damaged = append(damaged, fmt.Errorf("check %s: %w", filepath.Join(dir, f.Path), err))
		}
	}
	strays, err := strays(dir, m)
	return m, append(damaged, strays...), err
}

func (f *File) verify(ctx context.Context, dir string, progress Progress) error {
	file, err := f.open(dir)
	if err != nil {
		return err
	}
	sum, err := f.sum(ctx, file, progress)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f.match(sum)
}

// open opens the file in a backup, which must be as long as it was.
func (f *File) open(dir string) (*os.File, error) {
	path := filepath.Join(dir, f.Path)
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("it is missing")
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("it is no file, but a %s", st.Mode().Type())
	case st.Size() != f.Size:
		have, want := sizes.Differing(st.Size(), f.Size)
		return nil, fmt.Errorf("it has %s, and had %s", have, want)
	}
	return os.Open(path)
}

func (f *File) match(sum string) error {
	if sum != f.SHA256 {
		return fmt.Errorf("what it holds was changed: its checksum is %s, and was %s", sum, f.SHA256)
	}
	return nil
}

func (f *File) sum(ctx context.Context, file *os.File, progress Progress) (string, error) {
	if f.Sparse {
		return sparse.Sum(ctx, file, progress.of(f.Path))
	}
	h := sha256.New()
	n, err := io.Copy(h, file)
	progress.of(f.Path)(n)
	return hex.EncodeToString(h.Sum(nil)), err
}

// strays are files beneath a backup's data that its manifest does not name: they would not be put back.
func strays(dir string, m *Manifest) (found []error, err error) {
	known := map[string]bool{}
	for _, f := range m.Files {
		known[f.Path] = true
	}
	top := filepath.Join(dir, DataDir)
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err == nil && !known[rel] {
			found = append(found, fmt.Errorf("check %s: the manifest does not know it", path))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the files are missing then, which has been said
	}
	return found, err
}
