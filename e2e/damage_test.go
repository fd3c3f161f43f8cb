package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDamagedFilesAreRefusedWhileTasksRun: given tasks that run, one on a volume, and an agent that was killed, when a
// file of its stores is damaged, then check-data names it, and the agent ends with the path, what was not done and what
// to do, neither by a panic nor by a signal, and the tasks run on; with the file put back, everything goes on as if
// nothing had been.
func TestDamagedFilesAreRefusedWhileTasksRun(t *testing.T) {
	m, db, other := settled(t)
	m.window = "30s" // as users have it: kills, and ends by a server that refuses its files, accuse no task
	half := func(b []byte) []byte { return b[:len(b)/2] }
	none := func([]byte) []byte { return nil }
	middle := func(b []byte) []byte { clear(b[8192 : len(b)-4096]); return b }
	used := func(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }
	for _, c := range []struct {
		what, file string
		damage     func([]byte) []byte // nil: it is deleted
		says       string              // of what to do
	}{
		{"list of segments, emptied", "server/raft/wal/wal-meta.db", none, "snapshot restore"},
		{"list of segments, half", "server/raft/wal/wal-meta.db", half, "snapshot restore"},
		{"list of segments, pages", "server/raft/wal/wal-meta.db", middle, "snapshot restore"},
		{"log, emptied", "server/raft/wal/*.wal", none, "snapshot restore"},
		{"log, gone", "server/raft/wal/*.wal", nil, "snapshot restore"},
		{"log, cut in half", "server/raft/wal/*.wal", func(b []byte) []byte { return b[:used(b)/2] }, "it is cut off"},
		{"log, a byte", "server/raft/wal/*.wal", func(b []byte) []byte { b[used(b)/2] ^= 1; return b }, "entry "},
		{"log, its head", "server/raft/wal/*.wal", func(b []byte) []byte { b[9] ^= 1; return b }, "snapshot restore"},
		{"node store, middle", "client/client.db", middle, "nothing was started or stopped"},
		{"node store, half", "client/client.db", half, "nothing was started or stopped"},
		{"key, ten bytes", "server/keyring/root.key", func(b []byte) []byte { return b[:10] }, "restore the file"},
		{"key, another", "server/keyring/root.key", func(b []byte) []byte { b[0] ^= 1; return b }, "restore the file"},
		{"key, gone", "server/keyring/root.key", nil, "restore the file"},
	} {
		if out, code := m.cli("operator", "check-data", m.data); code != 1 || !strings.Contains(out, "uses it") {
			t.Errorf("beside the agent, check-data: %d\n%s", code, out)
		}
		m.kill()
		if out, code := m.cli("operator", "check-data", m.data); code != 0 || strings.Contains(out, "Damaged") {
			t.Errorf("%s: before, check-data: %d\n%s", c.what, code, out)
		}
		path := one(t, filepath.Join(m.data, c.file))
		whole, err := os.ReadFile(path)
		must(t, err)
		if c.damage == nil {
			must(t, os.Remove(path))
		} else {
			must(t, os.WriteFile(path, c.damage(bytes.Clone(whole)), 0o600))
		}
		files := digests(t, m.data)
		if out, code := m.cli("operator", "check-data", "-json", m.data); code != 2 || !strings.Contains(out, path) {
			t.Errorf("%s: check-data: %d\n%s", c.what, code, out)
		}
		if after := digests(t, m.data); !maps.Equal(after, files) {
			t.Errorf("%s: check-data changed files: %v, before %v", c.what, after, files)
		}
		before, err := os.ReadFile(m.logPath())
		must(t, err)
		m.launch()
		select {
		case err := <-m.done:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("%s: the agent ended with %v", c.what, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the agent goes on\n%s", c.what, m.tail())
		}
		after, err := os.ReadFile(m.logPath())
		must(t, err)
		said := string(after[len(before):])
		for _, word := range []string{"Error: ", path, c.says} {
			if !strings.Contains(said, word) {
				t.Errorf("%s: it does not say %q:\n%s", c.what, word, said)
			}
		}
		if strings.Contains(said, "goroutine ") {
			t.Errorf("%s: it panicked:\n%s", c.what, said)
		}
		m.alive(c.what, db, other)
		must(t, os.WriteFile(path, whole, 0o600))
		m.start()
		m.orphans(0)
	}
	m.lives(db, 0)
	m.stopJob("db")
	m.stopJob("plain")
	m.free("data")
	m.remove("data")
}

// digests are of all that Berth keeps in a data directory, without what tasks write: of names, modes and contents.
func digests(t *testing.T, data string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, sub := range []string{"server", "client"} {
		must(t, filepath.WalkDir(filepath.Join(data, sub), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			var content []byte
			if info.Mode().IsRegular() {
				if content, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			out[path] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(content))
			return nil
		}))
	}
	return out
}

// one is the only file that a pattern matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %q: %v", pattern, found, err)
	}
	return found[0]
}
