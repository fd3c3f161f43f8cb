package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/backup"
	"berth/internal/base/fault"
)

// place is a directory in which a test has what a data directory holds, and where its backup and what is put back go.
type place struct {
	t                *testing.T
	from, dest, into string
}

const imageSize = 3<<20 + 5000

func newPlace(t *testing.T) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{
		t:    t,
		from: filepath.Join(root, "from"),
		dest: filepath.Join(root, "monday"),
		into: filepath.Join(root, "into"),
	}
	for _, dir := range []string{p.from, p.into} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	image := make([]byte, imageSize)
	copy(image[:5000], bytes.Repeat([]byte("super"), 1000))
	copy(image[2<<20:], "in the middle")
	copy(image[imageSize-3:], "end")
	p.file("image", image)
	p.file("key", []byte("root key"))
	p.file("state", []byte("state"))
	return p
}

func (p *place) file(name string, data []byte) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.from, name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// contents are what is put back, by its place.
var contents = map[string]string{"server/key": "key", "volumes/v/image": "image", backup.WaitingState: "state"}

// save writes a backup of the place.
func (p *place) save(step func(string)) error {
	w, err := backup.Begin(p.dest, step)
	if err != nil {
		return err
	}
	w.Manifest.ClusterID, w.Manifest.Index = "c1", 7
	err = w.Add(backup.StateFile, strings.NewReader("state"))
	if err == nil {
		err = w.AddFile("data/server/key", filepath.Join(p.from, "key"))
	}
	if err == nil {
		err = w.AddSparse(context.Background(), "data/volumes/v/image", filepath.Join(p.from, "image"))
	}
	if err == nil {
		err = w.Finish()
	}
	return errors.Join(err, w.Close())
}

func (p *place) mustSave() {
	p.t.Helper()
	if err := p.save(nil); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) restore(step func(string)) error {
	_, err := backup.Restore(context.Background(), p.dest, p.into, nil, step)
	return err
}

// back fails the test unless everything is put back as it was.
func (p *place) back() {
	p.t.Helper()
	if err := backup.Unfinished(p.into); err != nil {
		p.t.Fatal(err)
	}
	files := map[string]bool{}
	err := filepath.WalkDir(p.into, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			p.t.Errorf("%s has mode %v", path, info.Mode())
		}
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(p.into, path) // it is beneath
			files[rel] = true
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for rel, from := range contents {
		want, err := os.ReadFile(filepath.Join(p.from, from))
		if err != nil {
			p.t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(p.into, rel))
		if err != nil || !bytes.Equal(got, want) {
			p.t.Errorf("%s was put back with %d bytes, it had %d: %v", rel, len(got), len(want), err)
		}
		delete(files, rel)
	}
	if len(files) > 0 {
		p.t.Errorf("put back besides: %v", files)
	}
}

// Given files with holes and without, when they are backed up and put back, then they are as they were, holes are
// holes, and nobody else may read them.
func TestWhatIsPutBackIsWhatWasSaved(t *testing.T) {
	p := newPlace(t)
	p.mustSave()
	m, damaged, err := backup.Verify(t.Context(), p.dest, nil)
	if err != nil || len(damaged) > 0 {
		t.Fatal(err, damaged)
	}
	if m.ClusterID != "c1" || m.Index != 7 || len(m.Files) != 3 || m.Ended.Before(m.Begun) {
		t.Errorf("the manifest is %+v", m)
	}
	if takes, err := backup.Allocated(filepath.Join(p.dest, "data/volumes/v/image")); err != nil || takes > 1<<20 {
		t.Errorf("an image with three blocks of data takes %d bytes in the backup: %v", takes, err)
	}
	if st, err := os.Stat(p.dest); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the backup has mode %v: %v", st.Mode(), err)
	}
	if err := p.restore(nil); err != nil {
		t.Fatal(err)
	}
	p.back()
}

// Given a backup, when anything in it is damaged, then checking it names the file, and nothing of it is put back.
func TestADamagedBackupIsRefused(t *testing.T) {
	change := func(at int64, text string) func(path string) error {
		return func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte(text), at)
			return errors.Join(err, f.Close())
		}
	}
	cut := func(path string) error { return os.Truncate(path, 4) }
	for _, c := range []struct {
		what, file string
		damage     func(path string) error
	}{
		{"manifest, a byte", backup.ManifestFile, change(30, "x")},
		{"manifest, cut off", backup.ManifestFile, cut},
		{"manifest, gone", backup.ManifestFile, os.Remove},
		{"checksums, a byte", backup.SumsFile, change(2, "-")},
		{"checksums, gone", backup.SumsFile, os.Remove},
		{"state, a byte", backup.StateFile, change(0, "S")},
		{"key, cut off", "data/server/key", cut},
		{"key, gone", "data/server/key", os.Remove},
		{"image, data", "data/volumes/v/image", change(2<<20, "IN")},
		{"image, a hole", "data/volumes/v/image", change(1<<20, "x")},
		{"image, its last byte", "data/volumes/v/image", change(imageSize-1, "D")},
		{"image, longer", "data/volumes/v/image", change(imageSize, "x")},
		{"image, cut off", "data/volumes/v/image", cut},
		{"a file beside", "data/volumes/other", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"a link", "data/server/key", func(path string) error {
			return errors.Join(os.Rename(path, path+".was"), os.Symlink(path+".was", path))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPlace(t)
			p.mustSave()
			if err := c.damage(filepath.Join(p.dest, c.file)); err != nil {
				t.Fatal(err)
			}
			_, damaged, err := backup.Verify(t.Context(), p.dest, nil)
			text := errors.Join(append(damaged, err)...)
			if text == nil || !strings.Contains(text.Error(), filepath.Base(c.file)) {
				t.Errorf("checking says %v", text)
			}
			if err := p.restore(nil); !fault.Has(err, fault.Invalid) {
				t.Errorf("putting back says %v", err)
			}
			left, err := os.ReadDir(p.into)
			if err != nil || len(left) > 0 {
				t.Errorf("was put back all the same: %v, %v", left, err)
			}
		})
	}
}

// Given a directory with a manifest that no backup has, though its checksum is right, as one that somebody else has
// made, then it is refused, and nothing is read or written beside the backup and the data directory.
func TestAManifestThatNoBackupHasIsRefused(t *testing.T) {
	file := func(path string) func(*backup.Manifest) {
		return func(m *backup.Manifest) {
			f := m.Files[1]
			f.Path = path
			m.Files = append(m.Files, f)
		}
	}
	for what, c := range map[string]struct {
		edit func(*backup.Manifest)
		says string
	}{
		"a file above":          {file("data/../../beside"), "beside"},
		"a file above the data": {file("data/../beside"), "beside"},
		"a file elsewhere":      {file("/beside"), "beside"},
		"a file beside":         {file("../beside"), "beside"},
		"a file twice":          {file("data/server/key"), "twice"},
		"a file by another way": {file("data//server/key"), "server/key"},
		"a later form":          {func(m *backup.Manifest) { m.Format++ }, "its form is"},
		"an earlier form":       {func(m *backup.Manifest) { m.Format-- }, "its form is"},
	} {
		p := newPlace(t)
		p.mustSave()
		m, err := backup.Read(p.dest)
		if err != nil {
			t.Fatal(err)
		}
		c.edit(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		sums := fmt.Sprintf("%x  %s\n", sha256.Sum256(text), backup.ManifestFile)
		key, err := os.ReadFile(filepath.Join(p.from, "key"))
		for name, data := range map[string][]byte{
			backup.ManifestFile: text, backup.SumsFile: []byte(sums), "beside": key, "../beside": key} {
			err = errors.Join(err, os.WriteFile(filepath.Join(p.dest, name), data, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		err = p.restore(nil)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(p.into); err != nil || len(left) > 0 {
			t.Errorf("%s: was put back all the same: %v, %v", what, left, err)
		}
	}
}

// Given a backup that is whole when it is checked, when a file of it changes before it is copied, then the command
// fails by that file, and agents refuse the directory.
func TestABackupThatChangesWhileItIsPutBack(t *testing.T) {
	for _, name := range []string{"server/key", "volumes/v/image"} {
		p := newPlace(t)
		p.mustSave()
		err := p.restore(func(step string) {
			if step != "write "+name {
				return
			}
			f, err := os.OpenFile(filepath.Join(p.dest, backup.DataDir, name), os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("X"), 1)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Error(err)
			}
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if backup.Unfinished(p.into) == nil {
			t.Errorf("%s: an agent would start", name)
		}
	}
}

// crashing, in the environment, makes this program one that dies: what it does, in front of which step, and where.
const crashing = "BERTH_TEST_DYING"

// TestMain does what a test has asked for, or runs the tests.
func TestMain(m *testing.M) {
	order := strings.Split(os.Getenv(crashing), "|")
	if len(order) != 4 {
		os.Exit(m.Run())
	}
	left, err := strconv.Atoi(order[1])
	if err != nil {
		panic(err)
	}
	step := func(what string) {
		if left--; left < 0 {
			fmt.Print(what)
			os.Exit(died)
		}
	}
	p := &place{from: filepath.Join(filepath.Dir(order[2]), "from"), dest: order[2], into: order[3]}
	if order[0] == "save" {
		err = p.save(step)
	} else {
		err = p.restore(step)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// died is the exit code of a process that died as it was asked to.
const died = 9

// before has a process save or restore, and die in front of its nth step; done: it has no such step, and came to its
// end.
func (p *place) before(n int, what string) (at string, done bool) {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%s|%s", crashing, what, n, p.dest, p.into))
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err != nil && code != died {
		p.t.Fatalf("%s, step %d: %v\n%s", what, n, err, out)
	}
	return string(out), err == nil
}

// Given a backup, when the process that writes it dies in front of any step, then nothing bears its name, and the same
// command again writes it whole.
func TestABackupThatDiedAnywhereIsWrittenAgain(t *testing.T) {
	steps := map[string]bool{}
	for n := 0; ; n++ {
		p := newPlace(t)
		at, done := p.before(n, "save")
		if done {
			break
		}
		steps[at] = true
		if _, err := os.Lstat(p.dest); err == nil {
			t.Fatalf("a backup that died in front of %q bears its name", at)
		}
		p.mustSave()
		if _, damaged, err := backup.Verify(t.Context(), p.dest, nil); err != nil || len(damaged) > 0 {
			t.Fatalf("after one that died in front of %q: %v, %v", at, err, damaged)
		}
		if _, err := os.Lstat(p.dest + ".tmp"); err == nil {
			t.Fatalf("what died in front of %q is there still", at)
		}
	}
	if len(steps) != 9 {
		t.Errorf("the steps are %v", steps)
	}
}

// Given a backup, when the process that puts it back dies in front of any step, then the directory is refused by agents
// once anything lies in it, and the same command again finishes it.
func TestARestoreThatDiedAnywhereIsFinished(t *testing.T) {
	steps := map[string]bool{}
	for n := 0; ; n++ {
		p := newPlace(t)
		p.mustSave()
		at, done := p.before(n, "restore")
		if done {
			break
		}
		steps[at] = true
		left, err := os.ReadDir(p.into)
		if err != nil {
			t.Fatal(err)
		}
		if err := backup.Unfinished(p.into); (err == nil) != (len(left) == 0) {
			t.Errorf("died in front of %q: of %v an agent says %v", at, left, err)
		} else if err != nil && !strings.Contains(err.Error(), p.dest) {
			t.Errorf("the refusal does not name the backup: %v", err)
		}
		if n > 0 { // and again, in front of what the second try does first
			p.before(n-1, "restore")
		}
		if err := p.restore(nil); err != nil {
			t.Fatalf("after one that died in front of %q: %v", at, err)
		}
		p.back()
	}
	if len(steps) != 5 {
		t.Errorf("the steps are %v", steps)
	}
}

// Given a directory without room for a backup, when it is put back there, then the message says what is so: agents
// refuse the directory once it is marked, and if even the mark has no room, nothing is left in it; with room the same
// command finishes it.
func TestARestoreOnAFullDiskSaysWhatIsSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted, which takes root")
	}
	for name, c := range map[string]struct {
		filled bool
		says   string
	}{
		"no room for all of it": {says: "no agent starts on"},
		"no room for the mark":  {filled: true, says: "nothing of the backup is there"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.mustSave()
			if err := unix.Mount("tmpfs", p.into, "tmpfs", 0, "size=16k,mode=700"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(p.into, 0); err != nil {
					t.Error(err)
				}
			})
			filler := filepath.Join(p.into, "lost+found")
			if c.filled {
				if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
					t.Fatal(err)
				}
			}
			if err := p.restore(nil); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it does not say %q: %v", c.says, err)
			}
			if err := backup.Unfinished(p.into); (err == nil) != c.filled {
				t.Errorf("an agent says %v", err)
			}
			if left, err := os.ReadDir(p.into); err != nil || len(left) != 1 {
				t.Errorf("it left %v: %v", left, err)
			}
			grown := unix.Mount("", p.into, "", unix.MS_REMOUNT, "size=64m,mode=700")
			if err := errors.Join(grown, os.RemoveAll(filler)); err != nil {
				t.Fatal(err)
			}
			if err := p.restore(nil); err != nil {
				t.Fatal(err)
			}
			p.back()
		})
	}
}

// Given names that are taken and directories that hold something, when a backup is written or put back there, then it
// is refused and nothing of it is touched.
func TestWhatIsThereIsNotTouched(t *testing.T) {
	p := newPlace(t)
	foreign := filepath.Join(p.dest+".tmp", "mine")
	if err := errors.Join(os.Mkdir(p.dest+".tmp", 0o700), os.WriteFile(foreign, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := p.save(nil); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), p.dest+".tmp") {
		t.Errorf("beside somebody's directory: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(foreign)); err != nil {
		t.Fatal(err)
	}
	p.mustSave()
	if err := p.save(nil); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "there already") {
		t.Errorf("over a backup: %v", err)
	}
	mine := filepath.Join(p.into, "server")
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.restore(nil); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "it holds server") {
		t.Errorf("into a directory in use: %v", err)
	}
	if err := backup.Unfinished(p.into); err != nil {
		t.Error(err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.dest, filepath.Join(p.into, "backup")); err != nil {
		t.Fatal(err)
	}
	p.dest = filepath.Join(p.into, "backup")
	if err := p.restore(nil); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "beneath") {
		t.Errorf("out of the directory itself: %v", err)
	}
}

// Given a backup that is being written, when another begins under its name, then that is refused, and the first one
// comes to its end.
func TestTwoBackupsUnderOneName(t *testing.T) {
	p := newPlace(t)
	w, err := backup.Begin(p.dest, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.save(nil); !fault.Has(err, fault.Busy) {
		t.Errorf("the second one: %v", err)
	}
	if err := errors.Join(w.Add(backup.StateFile, strings.NewReader("x")), w.Finish(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, damaged, err := backup.Verify(t.Context(), p.dest, nil); err != nil || len(damaged) > 0 {
		t.Error(err, damaged)
	}
}

// Given less room than a backup takes, when it begins, then it is refused with both figures; and one that does not come
// to its end leaves nothing.
func TestABackupThatDoesNotFitIsRefusedWithFigures(t *testing.T) {
	p := newPlace(t)
	w, err := backup.Begin(p.dest, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Fits(1 << 60)
	if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), "1 EiB") ||
		!strings.Contains(err.Error(), " left") {
		t.Errorf("too little room: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.AddSparse(ctx, "data/image", filepath.Join(p.from, "image")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of patience: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(p.dest + "*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Given a data directory with a disk mounted on volumes, when a backup is put back into it, then the images go to the
// disk if that is empty; and what lies on it stays as it is, and is named, also where an earlier call was interrupted:
// it may be the node's own volumes.
func TestADiskThatIsMountedIsFilledAndNeverEmptied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	p := newPlace(t)
	p.mustSave()
	volumes := filepath.Join(p.into, "volumes")
	err := errors.Join(os.MkdirAll(volumes, 0o700), unix.Mount("tmpfs", volumes, "tmpfs", 0, "size=64m"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(volumes, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(volumes, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.restore(nil); err != nil {
		t.Fatal(err)
	}
	held := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(volumes)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	before := held()
	if len(before) < 2 {
		t.Fatalf("on the disk lies %v", before)
	}
	for _, interrupted := range []bool{false, true} {
		if interrupted {
			if err := os.WriteFile(filepath.Join(p.into, "restoring"), []byte("/b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := p.restore(nil)
		if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), volumes+" is a file system of its own") {
			t.Errorf("interrupted: %t: %v", interrupted, err)
		}
		if now := held(); !slices.Equal(now, before) {
			t.Errorf("interrupted: %t: on the disk lies %v, was %v", interrupted, now, before)
		}
	}
}
