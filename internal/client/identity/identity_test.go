package identity_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/identity"
	"berth/internal/client/localstate"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
	"berth/internal/testkit/mountns"
)

func TestMain(m *testing.M) { mountns.Main(m.Run) }

// place is a data directory on which no agent runs.
type place struct {
	t   *testing.T
	cfg identity.Config
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return at(t, filepath.Join(dir, "d"))
}

func at(t *testing.T, dir string) *place {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	return &place{t: t, cfg: identity.Config{
		DataDir: dir,
		Shims:   filepath.Join(dir, "shim"),
		Volumes: []string{filepath.Join(dir, "volumes")},
		Log:     slog.New(slog.DiscardHandler),
	}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) path(parts ...string) string {
	return filepath.Join(append([]string{p.cfg.DataDir}, parts...)...)
}

func (p *place) make(parts ...string) string {
	p.t.Helper()
	path := p.path(parts...)
	must(p.t, os.MkdirAll(path, 0o700))
	return path
}

// store has something done with the node's store, as by an agent that runs meanwhile.
func (p *place) store(fn func(*localstate.Store)) {
	p.t.Helper()
	s, err := localstate.Open(identity.StoreDir(p.cfg.DataDir))
	must(p.t, err)
	fn(s)
	must(p.t, s.Close())
}

// starts is the beginning of an agent's start.
func (p *place) starts() (id localstate.Identity, err error) {
	p.store(func(s *localstate.Store) { id, err = identity.Establish(p.t.Context(), s, p.cfg) })
	return id, err
}

// is fails the test unless the agent starts as the node.
func (p *place) is(node ids.Node) localstate.Identity {
	p.t.Helper()
	id, err := p.starts()
	if err != nil || node != "" && id.Node != node || !ids.IsUUID(string(id.Node)) || id.Secret.Empty() {
		p.t.Fatalf("it starts as %q, want %q: %v", id.Node, node, err)
	}
	return id
}

// lost fails the test unless the start is refused for both ways out, and says something.
func (p *place) lost(says ...string) {
	p.t.Helper()
	_, err := p.starts()
	var lost *identity.Lost
	if !errors.As(err, &lost) {
		p.t.Fatalf("the start is not refused: %v", err)
	}
	for _, text := range append(says, "node identity keep", "node readmit", "node identity new", p.cfg.DataDir) {
		if !strings.Contains(err.Error(), text) {
			p.t.Errorf("the refusal does not say %q: %v", text, err)
		}
	}
}

func (p *place) lose(parts ...string) {
	p.t.Helper()
	must(p.t, os.RemoveAll(p.path(parts...)))
}

// Given a copy of the identity that was damaged, or is of another node, beside a whole store, when the agent starts,
// then the node is who it was, and the copy is whole again, which is said by its path; of a whole one nothing is said.
func TestACopyOfTheIdentityThatIsDamagedIsSaid(t *testing.T) {
	p := newPlace(t)
	was := p.is("")
	path := p.path("client.identity")
	good, err := os.ReadFile(path)
	must(t, err)
	another := newPlace(t)
	another.is("")
	other, err := os.ReadFile(another.path("client.identity"))
	must(t, err)
	for name, text := range map[string][]byte{
		"whole":           good,
		"empty":           {},
		"half":            good[:len(good)/2],
		"random":          []byte("\x07\xff\x00"),
		"of another node": other,
	} {
		must(t, os.WriteFile(path, text, 0o600))
		var said bytes.Buffer
		p.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		p.is(was.Node)
		now, err := os.ReadFile(path)
		must(t, err)
		if !bytes.Equal(now, good) {
			t.Errorf("%s: it is not written anew", name)
		}
		warned := strings.Contains(said.String(), "level=WARN") && strings.Contains(said.String(), path)
		if warned == (name == "whole") {
			t.Errorf("%s: it says %q", name, &said)
		}
	}
}

// Given a store that was emptied or deleted and no task that runs, then the start is refused as long as anything of the
// node is left, and a directory in which nothing is left is that of a new node.
func TestALostStoreWithoutTasksIsRefused(t *testing.T) {
	p := newPlace(t)
	was := p.is("")
	p.is(was.Node)
	must(t, os.Truncate(p.path("client", "client.db"), 0))
	p.lost("identity of node " + string(was.Node))
	p.lose("client")
	p.lost("identity of node "+string(was.Node), "no task runs")

	for name, leave := range map[string]string{"alloc": "directory of an allocation", "volumes": "bundled plugin"} {
		p := newPlace(t)
		p.make(name, "x")
		p.lost(leave)
		p.lose(name)
		p.is("")
	}
	p = newPlace(t)
	must(t, os.WriteFile(p.path("client.identity"), []byte("garbage"), 0o600))
	p.lost("damaged")
	p = newPlace(t)
	mountPoint := p.make("csi", "plugin", "s", "v")
	must(t, unix.Mount("tmpfs", mountPoint, "tmpfs", 0, "size=64k"))
	p.lost("mounted at " + mountPoint)
	if _, err := identity.New(t.Context(), p.cfg); !fault.Has(err, fault.Conflict) ||
		!strings.Contains(err.Error(), mountPoint) {
		t.Errorf("another node begins beside what is mounted: %v", err)
	}
	must(t, unix.Unmount(mountPoint, 0))
	p.lose("csi")
	p.is("")
}

// TestKeepNeedsATokenForThatNode: with the token of the node the next start is that node, and shows the token; a token
// of another node is refused, as is one that is none, an agent that runs, and a store that knows who the node is.
func TestKeepNeedsATokenForThatNode(t *testing.T) {
	p := newPlace(t)
	was := p.is("")
	keep := func(token string) error {
		_, err := identity.Keep(t.Context(), p.cfg, redact.New(token))
		return err
	}
	token := string(was.Node) + ".once"
	if err := keep(token); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "start the agent") {
		t.Errorf("a store that knows who the node is: %v", err)
	}
	p.lose("client")
	if err := keep("nonsense"); !fault.Has(err, fault.Invalid) {
		t.Errorf("no token: %v", err)
	}
	if err := keep(ids.New() + ".once"); !fault.Has(err, fault.Conflict) {
		t.Errorf("the token of another node: %v", err)
	}
	lock, err := kv.LockDir(p.cfg.DataDir)
	must(t, err)
	if err := keep(token); !fault.Has(err, fault.Busy) {
		t.Errorf("under an agent that runs: %v", err)
	}
	must(t, lock.Unlock())
	p.lost()
	must(t, keep(string(was.Node)+".expired"))
	must(t, keep(token)) // the servers refused the first
	if id := p.is(was.Node); id.Secret.Reveal() != was.Secret.Reveal() {
		t.Error("it has another secret than the one that lay there")
	}
	p.store(func(s *localstate.Store) {
		if c, err := s.BeginSession(); err != nil || string(c.Readmit) != token {
			t.Errorf("the start shows %q, %v", c.Readmit, err)
		}
	})

	p.lose("client")
	p.lose("client.identity")
	p.make("alloc", "x")
	must(t, keep(token))
	if id := p.is(was.Node); id.Secret.Reveal() == was.Secret.Reveal() {
		t.Error("the secret of an identity that is gone altogether is not a new one")
	}
	nowhere := identity.Config{DataDir: p.path("nowhere")}
	if _, err := identity.Keep(t.Context(), nowhere, redact.New(token)); err == nil {
		t.Error("a directory that is not there has an identity")
	}
	if _, err := os.Stat(p.path("nowhere")); err == nil {
		t.Error("the directory was made")
	}
}

// TestNewIsAnotherNode: where nothing lives, a person may begin another node; the store knows it then.
func TestNewIsAnotherNode(t *testing.T) {
	p := newPlace(t)
	was := p.is("")
	if _, err := identity.New(t.Context(), p.cfg); !fault.Has(err, fault.Conflict) {
		t.Errorf("a store that knows who the node is: %v", err)
	}
	p.lose("client", "client.db")
	kept := p.make("volumes", "volumes")
	must(t, os.WriteFile(p.path("volumes.identity"), nil, 0o600))
	now, err := identity.New(t.Context(), p.cfg)
	must(t, err)
	if now == was.Node {
		t.Error("it is the same node")
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("the new node's plugin finds volumes that carry the name of the old one")
	}
	if _, err := os.Stat(p.path("volumes.identity")); err == nil {
		t.Error("the new node's plugin waits for the volumes of the old one")
	}
	if _, err := os.Stat(p.path("volumes.of-" + string(was.Node) + ".identity")); err != nil {
		t.Errorf("the identity of the old node's volumes is gone: %v", err)
	}
	if _, err := os.Stat(p.path("volumes.of-"+string(was.Node), "volumes")); err != nil {
		t.Errorf("the volumes of the old node are gone: %v", err)
	}
	p.is(now)
	p.store(func(s *localstate.Store) {
		if waits, err := s.Readmits(); err != nil || waits {
			t.Errorf("it waits for a readmission: %v", err)
		}
	})
}

// used is a data directory with a volume that was mounted, and the records of its plugin.
func used(t *testing.T) (*place, *entry.Entry) {
	t.Helper()
	p := newPlace(t)
	p.is("")
	base := p.make("csi", "plugin")
	p.make("csi", "plugin", "s")
	p.make("csi", "plugin", "p")
	e := &entry.Entry{
		Key:    volume.StagingKey{Plugin: "p", ExternalID: "x"},
		Volume: volume.ID{Namespace: "default", ID: "v"},
		Staging: entry.Staging{
			Presence: volume.Present,
			HostPath: filepath.Join(base, volume.StagingTail("x")),
			TaskPath: filepath.Join(base, volume.StagingTail("x")),
		},
		Pubs: map[ids.Alloc]*entry.Publication{"a": {
			Presence: volume.Present,
			HostPath: filepath.Join(base, evidence.TargetTail("x", "a")),
			TaskPath: "/csi/" + evidence.TargetTail("x", "a"),
		}},
	}
	e.Staging.Mounts = []string{e.Staging.HostPath + " 7:1"}
	e.Staging.Own = []entry.Mount{{Path: e.Staging.HostPath, Device: "7:1"}}
	must(t, evidence.WriteIDFile(localstate.Codec, e, ""))
	must(t, evidence.WriteIDFile(localstate.Codec, e, "a"))
	p.store(func(s *localstate.Store) {
		must(t, s.KV.Update(func(tx *kv.Tx) error {
			return tx.Put("csi-volumes", entry.StoreKey(e.Key), e)
		}))
		r, err := dynamicplugins.Open(s.KV, p.cfg.Log)
		must(t, err)
		must(t, r.Register(dynamicplugins.Info{
			Plugin:   "p",
			Role:     plugin.RoleNode,
			Alloc:    "plug",
			Socket:   p.path("csi", "sock", "x.sock"),
			HostBase: base,
			TaskBase: base,
			Declared: time.Unix(1, 0).UTC(),
		}))
	})
	return p, e
}

// TestWhatWasMovedAtRestIsAtHome: given a data directory that was moved while nothing lived, with its store or without
// it, then nothing that it has written down names the old place any more.
func TestWhatWasMovedAtRestIsAtHome(t *testing.T) {
	p, e := used(t)
	id := p.is("")
	moved := at(t, p.cfg.DataDir+"-moved")
	must(t, os.Remove(moved.cfg.DataDir))
	must(t, os.Rename(p.cfg.DataDir, moved.cfg.DataDir))
	moved.is(id.Node)
	old := []byte(p.cfg.DataDir + "/")
	moved.store(func(s *localstate.Store) {
		must(t, s.KV.View(func(tx *kv.Tx) error {
			var now entry.Entry
			if ok, err := tx.Get("csi-volumes", entry.StoreKey(e.Key), &now); err != nil || !ok {
				t.Fatalf("the record is gone: %v", err)
			}
			if data, err := localstate.Codec.Encode(now); err != nil || bytes.Contains(data, old) {
				t.Errorf("the record names the old place: %+v, %v", now, err)
			}
			if want := moved.path("csi", "plugin", volume.StagingTail("x")); now.Staging.HostPath != want ||
				now.Staging.TaskPath != want || now.Pubs["a"].TaskPath != e.Pubs["a"].TaskPath {
				t.Errorf("the paths are %+v, %+v", now.Staging, now.Pubs["a"])
			}
			return nil
		}))
		r, err := dynamicplugins.Open(s.KV, p.cfg.Log)
		must(t, err)
		if i := r.List()[0]; i.Socket != moved.path("csi", "sock", "x.sock") ||
			i.HostBase != moved.path("csi", "plugin") || i.TaskBase != i.HostBase {
			t.Errorf("the plugin is declared at %+v", i)
		}
	})
	moved.named(2)

	again := at(t, p.cfg.DataDir+"-again")
	must(t, os.Remove(again.cfg.DataDir))
	must(t, os.Rename(moved.cfg.DataDir, again.cfg.DataDir))
	again.lose("client")
	again.lost()
	again.named(2)
}

// named fails the test unless so many id files name a volume where they lie.
func (p *place) named(n int) {
	p.t.Helper()
	names, err := evidence.IDFiles(p.cfg.DataDir)
	must(p.t, err)
	for _, name := range names {
		if _, err := evidence.ReadIDFile(localstate.Codec, name); err != nil {
			p.t.Errorf("%s: %v", name, err)
		}
	}
	if len(names) != n {
		p.t.Errorf("%d id files, want %d: %v", len(names), n, names)
	}
}

// TestACopyWithoutItsStoreIsKnownByItsFiles: a copy of a living node's directory is refused as a copy although its
// store is lost, and its files stay those of the original.
func TestACopyWithoutItsStoreIsKnownByItsFiles(t *testing.T) {
	p, _ := used(t)
	clone := at(t, p.cfg.DataDir+"-clone")
	must(t, os.CopyFS(clone.cfg.DataDir, os.DirFS(p.cfg.DataDir)))
	clone.lose("client")
	lock, err := kv.LockDir(p.cfg.DataDir)
	must(t, err)
	for what, do := range map[string]func() error{
		"a start": func() error { _, err := clone.starts(); return err },
		"keep": func() error {
			_, err := identity.Keep(t.Context(), clone.cfg, redact.New(ids.New()+".t"))
			return err
		},
		"new": func() error { _, err := identity.New(t.Context(), clone.cfg); return err },
	} {
		err := do()
		var lost *identity.Lost
		if !fault.Has(err, fault.Conflict) || errors.As(err, &lost) || !strings.Contains(err.Error(), p.cfg.DataDir) {
			t.Errorf("%s is not refused as one of a copy: %v", what, err)
		}
	}
	must(t, lock.Unlock())
	clone.lost()
	clone.named(2)
}
