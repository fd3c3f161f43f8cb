package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/agent/datadir"
	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/savefile"
	"berth/internal/server"
	"berth/internal/testkit/oneserver"
)

// Given a data_dir that another user could change, or has prepared, then it is refused with the path, the reason and
// the way out, and nothing is written; one that others may only read is closed to them.
func TestADataDirThatOthersCanChangeIsRefused(t *testing.T) {
	const nobody = 65534
	make := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	give := func(path string) {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(top, dir string)
		want    []string // nil: it is taken
	}{
		"one that is not there":    {func(_, _ string) {}, nil},
		"the agent's own":          {func(_, dir string) { make(dir, 0o700) }, nil},
		"one that others may read": {func(_, dir string) { make(dir, 0o755) }, nil},
		"below a directory like /tmp": {func(top, dir string) {
			make(top, 0o777|os.ModeSticky)
			make(dir, 0o700)
		}, nil},
		"a file that is not the agent's": {func(_, dir string) { make(dir, 0o700); make(dir+"/notes", 0o777) }, nil},
		"another user's": {func(_, dir string) { make(dir, 0o700); give(dir) },
			[]string{"data belongs to user 65534, and the agent runs as user 0", "look who changed it"}},
		"one that its group may write": {func(_, dir string) { make(dir, 0o770) },
			[]string{"data can be written by others (mode 0770)", "chmod go-w"}},
		"one that all may write": {func(_, dir string) { make(dir, 0o702) }, []string{"written by others"}},
		"below another user's": {func(top, dir string) { make(dir, 0o700); give(top) },
			[]string{"top belongs to user"}},
		"below one that all change": {func(top, dir string) { make(dir, 0o700); make(top, 0o777) },
			[]string{"top can be"}},
		"where it would be made in one that all change": {func(top, _ string) { make(top, 0o777) },
			[]string{"top can be"}},
		"a link in it": {func(top, dir string) { make(dir, 0o700); link(top, dir+"/server") },
			[]string{"data/server is a symbolic link", "mount that there"}},
		"a link in a store": {func(top, dir string) {
			make(dir+"/server/raft", 0o700)
			link(top, dir+"/server/raft/wal")
		}, []string{"data/server/raft/wal is a symbolic link", "mount that there"}},
		"a link for a file": {func(top, dir string) { make(dir+"/client", 0o700); link(top, dir+"/client/client.db") },
			[]string{"data/client/client.db is a symbolic link"}},
		"a link for the key": {func(top, dir string) {
			make(dir+"/server/keyring", 0o700)
			link(top, dir+"/server/keyring/root.key")
		}, []string{"data/server/keyring/root.key is a symbolic link"}},
		"a link of the plugin's": {func(top, dir string) {
			make(dir+"/volumes/volumes/a", 0o700)
			link(top, dir+"/volumes/volumes/a/image")
		}, []string{"volumes/a/image is a symbolic link"}},
		"another user's file": {func(_, dir string) { make(dir+"/client/x", 0o700); give(dir + "/client/x") },
			[]string{"client/x belongs to user"}},
		"another user's part": {func(_, dir string) { make(dir+"/alloc", 0o711); give(dir + "/alloc") },
			[]string{"data/alloc belongs to user"}},
		"a part that all may write": {func(_, dir string) { make(dir+"/shim", 0o777) }, []string{"data/shim can be"}},
	} {
		t.Run(name, func(t *testing.T) {
			top := filepath.Join(t.TempDir(), "top")
			dir := filepath.Join(top, "data")
			make(top, 0o755)
			c.prepare(top, dir)
			if c.want == nil {
				r, _, err := CheckData(dir)
				if err == nil && !r.Whole || err != nil && !fault.Has(err, fault.NotFound) {
					t.Errorf("a check finds %+v, %v", r, err)
				}
				if err := datadir.Take(dir, 0); err != nil {
					t.Fatal(err)
				}
				if st, err := os.Stat(dir); err == nil && st.Mode().Perm() != 0o700 {
					t.Errorf("its mode is %#o", st.Mode().Perm())
				}
				return
			}
			ended, end := context.WithCancel(t.Context())
			end()
			err := Run(ended, &Config{DataDir: dir}, "", Signals{})
			if !fault.Has(err, fault.Denied) {
				t.Fatalf("%v, want a refusal", err)
			}
			sameOfACheck(t, dir, err)
			for _, w := range append(c.want, "data_dir "+dir) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v lacks %q", err, w)
				}
			}
		})
	}
}

// sameOfACheck holds that a check of a data_dir says what its start has said, nothing else, and in no other words. One
// that is not there is not for a check.
func sameOfACheck(t *testing.T, dir string, refusal error) {
	t.Helper()
	before, err := os.Lstat(dir)
	if err != nil {
		return
	}
	r, volumes, err := CheckData(dir)
	if err != nil || r.Whole || volumes != "" || len(r.Stores) != 1 ||
		!slices.Equal(r.Stores[0].Damage, []string{refusal.Error()}) {
		t.Errorf("a check says %+v, %q, %v; the start said: %v", r, volumes, err, refusal)
	}
	if after, err := os.Lstat(dir); err != nil || after.Mode() != before.Mode() {
		t.Errorf("the check changed it from %v to %v, %v", before.Mode(), after, err)
	}
}

// Given a data_dir into which a backup was put back in part, when a check looks at it, then it says what a start says,
// and how to finish it; of one whose waiting state is damaged it names the file and the way out, as its start does.
func TestACheckJudgesWhatABackupLeftAsAStartDoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	waiting := filepath.Join(dir, backup.WaitingState)
	err := errors.Join(os.MkdirAll(filepath.Dir(waiting), 0o700),
		os.WriteFile(filepath.Join(dir, "restoring"), []byte("/mnt/monday\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err = Run(ended, &Config{DataDir: dir}, "", Signals{})
	way := "backup restore -data-dir " + dir + " /mnt/monday"
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), way) {
		t.Fatalf("the start says %v", err)
	}
	sameOfACheck(t, dir, err)
	if err := os.Remove(filepath.Join(dir, "restoring")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(waiting, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, conn := oneserver.Start(t)
	_, err = datadir.TakeUp(t.Context(), dir, conn)
	if !fault.Has(err, fault.Invalid) {
		t.Fatalf("the start says %v", err)
	}
	whole, s := checked(t, dir, "waiting state")
	if whole || s.Path != waiting || len(s.Damage) != 1 {
		t.Fatalf("a check says %v, %+v", whole, s)
	}
	for _, want := range []string{
		"take up " + waiting,
		"put the backup back into an empty directory",
		"move that file away",
	} {
		if !strings.Contains(s.Damage[0], want) || !strings.Contains(err.Error(), want) {
			t.Errorf("of %q: a check says %q; the start says: %v", want, s.Damage[0], err)
		}
	}
}

// Given a state that waits to be taken up, sealed with the key of the servers that it is of, when the directory has
// another key, or none, then a check says what the start says; with their key it is whole.
func TestACheckTriesTheKeyAgainstAWaitingState(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	key := func(dir string) string { return filepath.Join(dir, "server", "keyring", "root.key") }
	waiting := filepath.Join(dir, backup.WaitingState)
	file := savedBy(t, from)
	err := errors.Join(os.MkdirAll(filepath.Dir(key(dir)), 0o700), os.WriteFile(waiting, file, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	_, conn := oneserver.Start(t)
	_, start := datadir.TakeUp(t.Context(), dir, conn)
	if !fault.Has(start, fault.Denied) {
		t.Fatalf("the start says %v", start)
	}
	for what, prepare := range map[string]func() error{
		"no key":      func() error { return nil },
		"another key": func() error { return os.WriteFile(key(dir), make([]byte, 32), 0o600) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		whole, s := checked(t, dir, "waiting state")
		if whole || s.Path != waiting || !slices.Equal(s.Damage, []string{start.Error()}) {
			t.Errorf("with %s: whole: %v, %+v; the start says: %v", what, whole, s, start)
		}
	}
	own, err := os.ReadFile(key(from))
	if err = errors.Join(err, os.WriteFile(key(dir), own, 0o600)); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "waiting state"); !whole || s.Holds == "" {
		t.Errorf("with the key: whole: %v, %+v", whole, s)
	}
}

// savedBy is a saved state of servers that run in a data directory for that.
func savedBy(t *testing.T, dir string) (file []byte) {
	t.Helper()
	serversIn(t, dir, func(s *server.Server) {
		now := s.Store().Snapshot()
		var data bytes.Buffer
		err := now.Persist(&data)
		m := savefile.Meta{Program: "berth", Time: time.Now().UTC(), ClusterID: now.Meta(nil).ClusterID}
		if err == nil {
			file, err = savefile.Encode(m, data.Bytes())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return file
}

// Given a directory that is no agent's, when it is checked, then it is not called whole, and the way out is named;
// a start takes an empty one, in which empty file systems may be mounted for parts of it and the lock may lie that a
// restore has left, and does not close to others one that has something of theirs.
func TestADirectoryThatIsNoDataDirIsNotCalledWhole(t *testing.T) {
	top := t.TempDir()
	for name, has := range map[string]string{
		"empty":   "",
		"mkfs":    "lost+found",
		"mounted": "volumes/lost+found",
		"locked":  "lock",
		"foreign": "letters",
		"theirs":  "volumes/letters",
	} {
		foreign := name == "foreign" || name == "theirs"
		dir := filepath.Join(top, name)
		err := os.Mkdir(dir, 0o755)
		if has == "lock" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, has), nil, 0o600))
		} else {
			err = errors.Join(err, os.MkdirAll(filepath.Join(dir, has), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := CheckData(dir)
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "name the data_dir") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		taken := datadir.Take(dir, 0)
		if (taken == nil) == foreign {
			t.Errorf("%s: a start says %v", name, taken)
		}
		if st, err := os.Stat(dir); err != nil || (st.Mode().Perm() == 0o700) != (taken == nil) {
			t.Errorf("%s: after a start: %v, %v", name, st, err)
		}
	}
}
