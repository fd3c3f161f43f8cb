package datadir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/internal/agent/datadir"
	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/testkit/oneserver"
	"berth/internal/wire"
)

// saved is the state of a server as a file.
func saved(t *testing.T, conn wire.Conn) (file []byte) {
	t.Helper()
	stream, err := wire.StateSave.Open(t.Context(), conn, &wire.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if file = append(file, c.Data...); c.Last {
			return file
		}
	}
}

// incarnation is that of a server's state.
func incarnation(t *testing.T, conn wire.Conn) string {
	t.Helper()
	out, err := wire.RecoveryStatus.Call(t.Context(), conn, &wire.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Record == nil {
		return "" // it was never restored
	}
	return fmt.Sprint(out.Record.Incarnation)
}

// Given a state that waits beside the servers, when an agent starts, then they take it up, which begins an incarnation,
// and it waits no more; one that is damaged is refused by its path, and stays.
func TestAWaitingStateIsTakenUpOnce(t *testing.T) {
	_, conn := oneserver.Start(t)
	dir := t.TempDir()
	waiting := filepath.Join(dir, backup.WaitingState)
	if err := os.Mkdir(filepath.Dir(waiting), 0o700); err != nil {
		t.Fatal(err)
	}
	file := saved(t, conn)
	was := incarnation(t, conn)
	if taken, err := datadir.TakeUp(t.Context(), dir, conn); taken || err != nil {
		t.Errorf("without one: %v, %v", taken, err)
	}
	if err := os.WriteFile(waiting, file[:len(file)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := datadir.TakeUp(t.Context(), dir, conn)
	if taken || !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), waiting) {
		t.Errorf("one that is cut off: %v, %v", taken, err)
	}
	if now := incarnation(t, conn); now != was {
		t.Errorf("by a state that is cut off the incarnation %s became %s", was, now)
	}
	if err := os.WriteFile(waiting, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if taken, err := datadir.TakeUp(t.Context(), dir, conn); !taken || err != nil {
		t.Fatalf("one that is whole: %v, %v", taken, err)
	}
	now := incarnation(t, conn)
	if now == was {
		t.Errorf("no incarnation began: %s", now)
	}
	if taken, err := datadir.TakeUp(t.Context(), dir, conn); taken || err != nil {
		t.Errorf("once more: %v, %v", taken, err)
	}
	if again := incarnation(t, conn); again != now {
		t.Errorf("it was taken up twice")
	}
}

// Given a data directory into which a backup was put back in part, when an agent takes it, then it is refused with the
// command that finishes it, and is nobody's.
func TestAHalfRestoredDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "restoring"), []byte("/mnt/monday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := datadir.Lock(dir)
	way := "backup restore -data-dir " + dir + " /mnt/monday"
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), way) {
		t.Errorf("it says %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "restoring")); err != nil {
		t.Fatal(err)
	}
	lock, err := datadir.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// Given a data directory in which any of the names that an agent uses is a link, a pipe or somebody else's, when an
// agent takes it, then it is refused by that name, before it is opened.
func TestEveryPartOfADataDirIsLookedAt(t *testing.T) {
	const nobody = 65534
	for _, name := range []string{"alloc", "audit", "client", "client.identity", "csi", "lock", "run", "server", "shim",
		"volumes", "volumes.identity", "client/client.db", "server/raft/wal/wal-meta.db"} {
		for what, prepare := range map[string]func(path string) error{
			"is a symbolic link":                func(path string) error { return os.Symlink(t.TempDir(), path) },
			"is neither a file nor a directory": func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"belongs to user 65534": func(path string) error {
				return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, nobody, nobody))
			},
		} {
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), prepare(path)); err != nil {
				t.Fatal(err)
			}
			want := path + " " + what
			if err := datadir.Take(dir, 0); !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s that %s: %v", name, what, err)
			}
		}
	}
}

// Given a data directory with a directory in the place of a file, or the other way round, then it is refused by that
// name.
func TestEveryPartOfADataDirIsOfItsKind(t *testing.T) {
	for name, what := range map[string]string{
		"lock":             "is a directory, where a file belongs",
		"client.identity":  "is a directory, where a file belongs",
		"volumes.identity": "is a directory, where a file belongs",
		"server":           "is a file, where a directory belongs",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(path, 0o700)
		if name == "server" {
			err = errors.Join(err, os.Remove(path), os.WriteFile(path, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := datadir.Take(dir, 0); !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), path+" "+what) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given a data directory that an agent uses, then what of it goes into a backup is listed, as far as it is there; one
// that no agent uses is refused: it is not the one of which an agent has told.
func TestABackupIsOfADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join("server", "keyring", "root.key")
	node := ids.Node(ids.New())
	store, err := localstate.Open(identity.StoreDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	err = store.PutIdentity(localstate.Identity{Node: node, Secret: redact.New("secret")}, redact.Secret{})
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Sources(dir); !fault.Has(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "no agent uses it") {
		t.Errorf("of one that nobody uses: %v", err)
	}
	lock, err := datadir.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	got, err := datadir.Sources(dir)
	if err != nil || got.NodeID != string(node) || got.Store != "client/client.db" ||
		!slices.Equal(got.Files, []string{"client.identity"}) {
		t.Errorf("of a node alone: %+v, %v", got, err)
	}
	err = os.MkdirAll(filepath.Join(dir, filepath.Dir(key)), 0o700)
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, key), []byte("key"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := datadir.Sources(dir); err != nil || !slices.Equal(got.Files, []string{"client.identity", key}) {
		t.Errorf("with a server: %+v, %v", got, err)
	}
}
