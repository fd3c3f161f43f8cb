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

	"berth/internal/base/redact"
	"berth/internal/base/storecheck"
	"berth/internal/client/localstate"
	"berth/internal/model/lineage"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/raftlog/files"
	"berth/internal/server"
	"berth/internal/server/fsm"
	"berth/internal/server/keyring"
	"berth/internal/server/state"
	"berth/internal/testkit/await"
)

// serversIn has servers run in a data directory while they are given something, and end.
func serversIn(t *testing.T, dir string, given func(*server.Server)) {
	t.Helper()
	cfg := server.Config{DataDir: filepath.Join(dir, "server")}
	cfg.Raft.SegmentSize, cfg.Raft.Reserve = 1<<20, 1<<20
	s := server.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, server.Listeners{}) }()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "the servers have made their own keys", func() bool {
		now := s.Store().Snapshot()
		keys := 0
		for range now.SigningKeys(nil) {
			keys++
		}
		return keys == 1 && now.Authority(nil) != nil
	})
	given(s)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// checked is what a check of a data directory finds of one store.
func checked(t *testing.T, dir, name string) (whole bool, s storecheck.Store) {
	t.Helper()
	r, _, err := CheckData(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(r.Stores, func(s storecheck.Store) bool { return s.Name == name })
	if at < 0 {
		t.Fatalf("nothing was found of the %s: %+v", name, r)
	}
	return r.Whole, r.Stores[at]
}

// Given servers whose state holds four sealed entries, three of which their key opens, when the directory is checked,
// then it is not whole, and the other entry is named: nobody would learn of it before he needs it.
func TestACheckNamesWhatTheKeyDoesNotOpen(t *testing.T) {
	dir := t.TempDir()
	serversIn(t, dir, func(*server.Server) {})
	if whole, s := checked(t, dir, "servers' state"); !whole || !strings.HasSuffix(s.Holds, "3 entries of it sealed") {
		t.Fatalf("before: %v, %+v", whole, s)
	}
	other, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := other.Seal(state.New().Snapshot(), "db", redact.MapOf(map[string]string{"password": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	serversIn(t, dir, func(s *server.Server) {
		if _, _, err := s.Propose(t.Context(), &fsm.SecretPut{Name: "db", Data: sealed}); err != nil {
			t.Fatal(err)
		}
	})
	whole, s := checked(t, dir, "servers' state")
	if whole || len(s.Damage) != 1 || !strings.Contains(s.Damage[0], "db") || !strings.HasSuffix(s.Holds,
		"4 entries of it sealed") {
		t.Errorf("whole: %v, %+v", whole, s)
	}
}

// Given credentials of a server and of a node that cannot be read, when the directory is checked, then it is not whole,
// and they are named with the way out: a start would refuse them. Those that are there or missing are no damage.
func TestACheckReadsCredentials(t *testing.T) {
	for name, of := range map[string]credentials.Config{
		"server's credentials": {Dir: "server", Role: trust.Server},
		"node's credentials":   {Dir: "client", Role: trust.Node},
	} {
		dir := t.TempDir()
		serversIn(t, dir, func(*server.Server) {})
		if whole, s := checked(t, dir, name); !whole || s.Holds != "" {
			t.Errorf("without them: %v, %+v", whole, s)
		}
		of.Dir = filepath.Join(dir, of.Dir)
		if err := os.MkdirAll(of.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := credentials.New(of).Open(); err != nil {
			t.Fatal(err)
		}
		whole, s := checked(t, dir, name)
		if !whole || s.Holds == "" {
			t.Errorf("with them: %v, %+v", whole, s)
		}
		if err := os.Truncate(s.Path, 10); err != nil {
			t.Fatal(err)
		}
		whole, s = checked(t, dir, name)
		if whole || len(s.Damage) != 1 || !strings.Contains(s.Damage[0], "restore it from a copy") ||
			!strings.Contains(s.Damage[0], s.Path) {
			t.Errorf("cut off: %v, %+v", whole, s)
		}
	}
}

// Given a log whose copy of the vote is damaged, when the directory is checked, then that is a warning with its path,
// and the log is whole: a start makes the copy anew. When the log's store is damaged, too, then both are named.
func TestACheckWarnsOfWhatIsNotMissed(t *testing.T) {
	dir := t.TempDir()
	serversIn(t, dir, func(*server.Server) {})
	vote := filepath.Join(dir, "server", "raft", files.VoteFile)
	for _, text := range []string{"", "{", `{"term":7,"vote_term":7,"crc32c":1}`} {
		if err := os.WriteFile(vote, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		whole, s := checked(t, dir, "servers' log")
		if !whole || len(s.Damage) > 0 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], vote) {
			t.Errorf("with %q as the copy of the vote: whole: %v, %+v", text, whole, s)
		}
	}
	meta := filepath.Join(filepath.Dir(vote), "wal", files.MetaFile)
	data, err := os.ReadFile(meta)
	if err == nil {
		err = os.Truncate(meta, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, s := checked(t, dir, "servers' log")
	if whole || len(s.Damage) != 2 || !strings.Contains(s.Damage[1], vote) {
		t.Errorf("without the vote in the log's store, too: whole: %v, %+v", whole, s)
	}
	if err := errors.Join(os.WriteFile(meta, data, 0o600), os.Remove(vote)); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "servers' log"); !whole || len(s.Warnings) > 0 {
		t.Errorf("without a copy of the vote, as a lone voter is: whole: %v, %+v", whole, s)
	}
}

// Given a log that is damaged where a snapshot holds the same, when the directory is checked, then that is a warning
// with its path, the state is made all the same, and the servers start; without the snapshot it is damage.
func TestACheckWarnsOfWhatASnapshotHolds(t *testing.T) {
	dir := t.TempDir()
	serversIn(t, dir, func(s *server.Server) {
		if err := s.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	_, was := checked(t, dir, "servers' state")
	segments, err := filepath.Glob(filepath.Join(dir, "server", "raft", "wal", "*.wal"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	data[files.SegmentHead+20] ^= 1 // of the first entry
	if err := os.WriteFile(segments[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	whole, s := checked(t, dir, "servers' log")
	if !whole || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], segments[0]) ||
		!strings.Contains(s.Warnings[0], "the next start drops what is damaged") {
		t.Errorf("whole: %v, %+v", whole, s)
	}
	if _, now := checked(t, dir, "servers' state"); now.Holds != was.Holds || len(now.Damage) > 0 {
		t.Errorf("of the state it says %+v, and said %+v", now, was)
	}
	if err := os.Rename(filepath.Join(dir, "server/raft/snapshots"), filepath.Join(dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "servers' log"); whole || len(s.Damage) != 1 || !strings.Contains(s.Damage[0],
		segments[0]) {
		t.Errorf("without the snapshot: whole: %v, %+v", whole, s)
	}
	if err := os.Rename(filepath.Join(dir, "snapshots"), filepath.Join(dir, "server/raft/snapshots")); err != nil {
		t.Fatal(err)
	}
	serversIn(t, dir, func(*server.Server) {})
	if whole, s := checked(t, dir, "servers' log"); !whole || len(s.Warnings) > 0 {
		t.Errorf("after a start: whole: %v, %+v", whole, s)
	}
}

// Given a data directory whose node's store was deleted, whose audit log is none, or in which a file that names a mount
// was emptied, when it is checked, then it is not whole, and what the start would say is said, by its path.
func TestACheckSaysWhatAStartWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		path, says string
		hurt       func(path string) error
	}{
		"node's store": {"client/client.db", "berth node identity keep", func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "client.identity"), []byte("x"), 0o600)
		}},
		"audit log": {"audit/audit.log", "audit { path", func(path string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink("/dev/null", path))
		}},
		"names of mounts": {"csi/plugin/s/x.id", "csi/plugin/s/x.id", func(path string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err == nil {
				err = errors.Join(os.MkdirAll(filepath.Join(dir, "server", "raft"), 0o700))
			}
			if err != nil {
				t.Fatal(err)
			}
			if whole, s := checked(t, dir, name); !whole {
				t.Fatalf("before: %+v", s)
			}
			if err := c.hurt(filepath.Join(dir, c.path)); err != nil {
				t.Fatal(err)
			}
			whole, s := checked(t, dir, name)
			if whole || len(s.Damage) != 1 || !strings.Contains(s.Damage[0], c.says) {
				t.Errorf("the check says %v, %+v", whole, s)
			}
		})
	}
}

// Given a recovery key that was emptied, or became another one, when the directory is checked, then it is not whole,
// and the key is named: it would be tried when all servers are lost.
func TestACheckTriesTheRecoveryKey(t *testing.T) {
	dir := t.TempDir()
	serversIn(t, dir, func(*server.Server) {})
	if whole, s := checked(t, dir, "recovery key"); !whole || s.Holds == "" {
		t.Fatalf("before: %v, %+v", whole, s)
	}
	path := filepath.Join(dir, "server", "keyring", "recovery.key")
	for _, text := range []string{"", strings.Repeat("A", 43) + "="} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if whole, s := checked(t, dir, "recovery key"); whole || len(s.Damage) != 1 ||
			!strings.Contains(s.Damage[0], path) {
			t.Errorf("with %q: whole: %v, %+v", text, whole, s)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "recovery key"); !whole || s.Holds != "" {
		t.Errorf("moved away: %v, %+v", whole, s)
	}
}

// Given an audit log or a copy of the node's identity that was damaged, when the directory is checked, then it is
// whole, as a start goes on, and both are named; beside a store that is damaged, too, the copy is damage.
func TestACheckNamesWhatAStartMends(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := localstate.Open(filepath.Join(dir, "client"))
	if err == nil {
		err = errors.Join(store.PutIdentity(localstate.Identity{Node: "n", Secret: redact.New("s")}, redact.Secret{}),
			store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"node's store": "client.identity", "audit log": "audit/audit.log"} {
		path = filepath.Join(dir, path)
		if whole, s := checked(t, dir, name); !whole || len(s.Warnings) > 0 {
			t.Errorf("before: %v, %+v", whole, s)
		}
		if err := os.WriteFile(path, []byte("\x07\xff\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		if whole, s := checked(t, dir, name); !whole || len(s.Warnings) != 1 ||
			!strings.HasPrefix(s.Warnings[0], path) {
			t.Errorf("with a damaged %s: %v, %+v", path, whole, s)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "client", "client.db"), 5000); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "node's store"); whole || len(s.Damage) != 2 ||
		!strings.Contains(s.Damage[1], "client.identity") {
		t.Errorf("with a damaged store, too: %v, %+v", whole, s)
	}
}

// Given a node's store in which one letter of a record of the node itself is another, when the directory is checked,
// then it is damaged, and the record is named: the agent would not start with it.
func TestACheckNamesADamagedRecordOfTheNode(t *testing.T) {
	dir := t.TempDir()
	store, err := localstate.Open(filepath.Join(dir, "client"))
	if err == nil {
		err = errors.Join(store.PutSeen(lineage.Point{Incarnation: "seen-of-the-servers"}, nil), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "client", "client.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.ReplaceAll(whole, []byte("seen-of-the-servers"), []byte("sEen-of-the-servers"))
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if whole, s := checked(t, dir, "node's store"); whole || len(s.Damage) != 1 ||
		!strings.Contains(s.Damage[0], "client-meta/seen") {
		t.Errorf("whole: %v, %+v", whole, s)
	}
}
