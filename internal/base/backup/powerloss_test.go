package backup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"berth/internal/base/backup"
	"berth/internal/base/durable"
	"berth/internal/testkit/powerloss"
)

// Given a backup that is being written, when the power fails at any moment, then nothing bears its name, or all of it
// is there as it was written; once the command has ended, the latter. And what is left is in nobody's way.
func TestAPowerLossLeavesABackupWholeOrUnnamed(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{})
	p := newPlace(t)
	p.dest = filepath.Join(d.Dir, "monday")
	p.mustSave()
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		cut := &place{t: t, from: p.from, dest: filepath.Join(dir, "monday")}
		if _, err := os.Lstat(cut.dest); errors.Is(err, fs.ErrNotExist) && c.Acked == 0 {
			cut.mustSave()
		}
		if _, damaged, err := backup.Verify(t.Context(), cut.dest, nil); err != nil || len(damaged) > 0 {
			t.Errorf("it bears its name, and: %v, %v", err, damaged)
		}
	})
}

// Given a backup that is being put back, when the power fails at any moment, then agents refuse the directory, or it is
// empty, or all of it is there as it was saved; once the command has ended, the latter. The same command finishes it.
func TestAPowerLossLeavesARestoreWholeOrRefused(t *testing.T) {
	d := powerloss.Mount(t, powerloss.Config{})
	p := newPlace(t)
	p.mustSave()
	p.into = filepath.Join(d.Dir, "into")
	if err := durable.MakeDir(p.into, 0o700); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	if err := p.restore(nil); err != nil {
		t.Fatal(err)
	}
	d.Ack()
	d.Each(func(t *testing.T, c powerloss.Cut, dir string) {
		if c.Acked == 0 {
			return // the directory itself may not be there yet
		}
		cut := &place{t: t, from: p.from, dest: p.dest, into: filepath.Join(dir, "into")}
		left, err := os.ReadDir(cut.into)
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(left, func(e fs.DirEntry) bool { return e.Name() == "restoring.tmp" }) // of the mark
		if c.Acked == 1 && (backup.Unfinished(cut.into) != nil || len(left) == 0) {
			if err := cut.restore(nil); err != nil {
				t.Fatalf("with %v in it, the command again says %v", left, err)
			}
		}
		cut.back()
	})
}
