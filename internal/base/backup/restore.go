package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/sparse"
)

// restoring lies in a data directory from before the first file is put back until the last one is on disk.
const restoring = "restoring"

// ignored are names in a data directory that are of nobody's data.
var ignored = []string{"lock", "lost+found", restoring, restoring + ".tmp"}

// Unfinished refuses a data directory into which a backup was put back in part.
func Unfinished(dataDir string) error {
	switch from, err := os.ReadFile(filepath.Join(dataDir, restoring)); {
	case err == nil:
		return fault.WithHint(fault.New(fault.Conflict, "use", "data_dir "+dataDir,
			"a backup was put back into it in part only"),
			fmt.Sprintf("run \"berth operator backup restore -data-dir %s %s\" again, to its end", dataDir,
				strings.TrimSpace(string(from))))
	case !errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.Internal, "use", "data_dir "+dataDir)
	}
	return nil
}

// Restore puts the data of a backup back into a data directory that is empty, or that an earlier call did not finish
// with; nobody may use it meanwhile. The backup is read whole before anything is changed. step is called before each
// change.
func Restore(
	ctx context.Context, dir, dataDir string, progress Progress, step func(string),
) (m *Manifest, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "put back", "backup")
	}
	m, damaged, err := Verify(ctx, dir, progress)
	if err != nil {
		return nil, err
	}
	if len(damaged) > 0 {
		return m, fault.WithHint(fault.Wrap(errors.Join(damaged...), fault.Invalid, "put back", "backup "+dir),
			"nothing was changed; use another backup, or another copy of this one")
	}
	if Beneath(dir, dataDir) {
		return m, fault.WithHint(fault.New(fault.Invalid, "put back", "backup "+dir, "it lies beneath "+dataDir),
			"move the backup to another place")
	}
	into, err := vacant(dataDir)
	if err != nil {
		return m, err
	}
	if err := put(ctx, m, dir, into, progress, step); err != nil {
		hint := "mend that, and run the command again: nothing of the backup is there yet"
		if Unfinished(dataDir) != nil {
			hint = fmt.Sprintf("mend that, and run the command again: no agent starts on %s before", dataDir)
		}
		return m, fault.WithHint(fault.Wrap(err, fault.Internal, "put back", "backup "+dir), hint)
	}
	return m, nil
}

// target is a data directory that a backup can be put back into.
type target struct {
	dir     string
	again   bool     // a call was interrupted, and what it put back lies there
	mounted []string // directories in it on which a file system is mounted that is empty, as for volumes
}

// vacant refuses a data directory in which anything lies that is not of a call that was interrupted.
func vacant(dataDir string) (into target, err error) {
	into.dir = dataDir
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return into, fault.Wrap(err, fault.Invalid, "use", "data_dir "+dataDir)
	}
	if into.mounted, err = mountsIn(dataDir); err != nil {
		return into, err
	}
	var names []string
	for _, e := range entries {
		into.again = into.again || e.Name() == restoring
		if !slices.Contains(ignored, e.Name()) && !slices.Contains(into.mounted, e.Name()) {
			names = append(names, e.Name())
		}
	}
	if into.again || len(names) == 0 {
		return into, nil
	}
	return into, fault.WithHint(
		fault.New(fault.Conflict, "put a backup back into", dataDir, "it holds "+strings.Join(names, ", ")),
		"name an empty directory, or move what is there away: nothing of it is overwritten")
}

func put(
	ctx context.Context, m *Manifest, dir string, into target, progress Progress, step func(string),
) error {
	dataDir := into.dir
	if step == nil {
		step = func(string) {}
	}
	step("mark directory")
	if err := durable.WriteFile(filepath.Join(dataDir, restoring), []byte(dir+"\n"), 0o600); err != nil {
		return errors.Join(err, notRemoved(filepath.Join(dataDir, restoring+".tmp")))
	}
	if into.again { // what is there takes a part of the room
		if err := into.empty(step); err != nil {
			return err
		}
	}
	if err := m.fits(dir, into); err != nil {
		return err
	}
	for _, f := range m.Files {
		rel := f.back()
		if rel == "" {
			continue
		}
		step("write " + rel)
		if err := f.put(ctx, dir, filepath.Join(dataDir, rel), progress); err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
	}
	step("remove mark")
	if err := os.Remove(filepath.Join(dataDir, restoring)); err != nil {
		return err
	}
	return durable.SyncDir(dataDir)
}

// notRemoved removes a file that may not be there.
func notRemoved(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// back is where a file of the backup is put back beneath a data directory; empty: it is not.
func (f *File) back() string {
	if f.Path == StateFile {
		return WaitingState
	}
	rel, ok := strings.CutPrefix(f.Path, DataDir+"/")
	if !ok {
		return ""
	}
	return rel
}

// fits refuses, with figures, what a data directory has no room for, or one of its mounted directories.
func (m *Manifest) fits(dir string, into target) error {
	need := map[string]int64{}
	for _, f := range m.Files {
		n, err := Allocated(filepath.Join(dir, f.Path))
		if err != nil {
			return err
		}
		need[partOf(f.back(), into.mounted)] += n
	}
	for _, part := range slices.Sorted(maps.Keys(need)) {
		if err := fitsInto(filepath.Join(into.dir, part), filepath.Join(into.dir, part), need[part]); err != nil {
			return err
		}
	}
	return nil
}

// empty removes what an interrupted call put back. What is mounted holds nothing of it.
func (t target) empty(step func(string)) error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(ignored, e.Name()) || slices.Contains(t.mounted, e.Name()) {
			continue
		}
		step("remove " + e.Name())
		if err := os.RemoveAll(filepath.Join(t.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// put copies the file out of a backup, and holds what was read against its checksum once more.
func (f *File) put(ctx context.Context, dir, to string, progress Progress) error {
	src, err := f.open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it was only read
	return fillFile(to, func(dst *os.File) error {
		sum, err := f.copy(ctx, dst, src, progress)
		if err != nil {
			return err
		}
		return f.match(sum)
	})
}

// copy fills a file with what src holds, and returns the checksum of what was read.
func (f *File) copy(ctx context.Context, dst, src *os.File, progress Progress) (string, error) {
	if f.Sparse {
		return sparse.Copy(ctx, dst, src, progress.of(f.Path))
	}
	h := sha256.New()
	_, err := io.Copy(io.MultiWriter(dst, h), src)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Beneath tells whether a path lies in a directory, or is it. Links are followed as far as the path exists.
func Beneath(path, dir string) bool {
	path, dir = real(path), real(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func real(path string) string {
	path = filepath.Clean(path)
	if to, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return to
	}
	return filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
}
