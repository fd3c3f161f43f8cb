package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"berth/api"
	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/storecheck"
	"berth/internal/cli"
)

// saving is a machine that is backed up: its agent, and what lies in the agent's data directory.
type saving struct {
	t       *testing.T
	dataDir string
	dest    string
	node    string // that the agent says it is

	volumes []*api.CSIVolumeListStub
	images  []backup.Image
	damaged []error
	state   []byte
	digest  []byte                  // of what the digest is that comes with the state
	store   []byte                  // of the node
	cutOff  bool                    // the store is, on its way
	refuses map[string]string       // why a volume has no snapshot
	onCut   func(volume, id string) // as a snapshot is made

	mu   sync.Mutex
	did  []string // in which order
	made map[string]string
}

func newSaving(t *testing.T) *saving {
	t.Helper()
	root := t.TempDir()
	s := &saving{
		t:       t,
		dataDir: filepath.Join(root, "data"),
		dest:    filepath.Join(root, "monday"),
		node:    nodeA,
		state:   savedState(t, "state"),
		store:   []byte("what the node remembers"),
		refuses: map[string]string{},
		made:    map[string]string{},
	}
	s.digest = s.state
	s.onCut = func(string, string) {}
	s.write("client.identity", "identity")
	s.write("server/keyring/root.key", "key")
	return s
}

func (s *saving) write(path, text string) {
	s.t.Helper()
	at := filepath.Join(s.dataDir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// volume is one of the bundled plugin, registered.
func (s *saving) volume(id string) {
	s.volumes = append(s.volumes, &api.CSIVolumeListStub{
		Namespace:  "default",
		ID:         id,
		PluginID:   "local-csi",
		ExternalID: id + "@" + nodeA,
	})
	s.image(id+"@"+nodeA, "", id)
}

// image is a volume's, or that of a snapshot, which has a name.
func (s *saving) image(id, name, on string) {
	dir := "volumes/" + id
	s.write(dir+"/meta.json", "record of "+id)
	s.write(dir+"/image", "on "+on)
	s.images = append(s.images, backup.Image{
		ID:       id,
		Name:     name,
		Snapshot: name != "",
		Record:   dir + "/meta.json",
		Data:     dir + "/image",
	})
}

func (s *saving) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what)
}

// ServeHTTP is the agent.
func (s *saving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out any
	switch what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/"); what {
	case "GET agent/self":
		out = &api.AgentSelf{
			Config: map[string]any{"DataDir": s.dataDir},
			Stats:  map[string]map[string]string{"client": {"node_id": s.node}, "berth": {"version": "9"}},
		}
	case "GET volumes":
		s.note("list volumes")
		out = s.volumes
	case "GET operator/snapshot":
		s.note("save state")
		sum := sha256.Sum256(s.digest)
		w.Header().Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = w.Write(s.state)
		return
	case "GET operator/node-store":
		s.note("save store")
		w.Header().Set("Content-Length", strconv.Itoa(len(s.store)))
		if s.cutOff {
			_, _ = w.Write(s.store[:5])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(s.store)
		return
	case "PUT volumes/snapshot":
		var err error
		if out, err = s.cut(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	case "DELETE volumes/snapshot":
		s.note("delete " + r.URL.Query().Get("snapshot_id"))
		out = struct{}{}
	default:
		s.t.Errorf("the agent was asked %s", what)
		http.NotFound(w, r)
		return
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		s.t.Error(err)
	}
}

func (s *saving) cut(r *http.Request) (any, error) {
	var req api.CSISnapshotCreateRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Snapshots) != 1 {
		return nil, fmt.Errorf("%d snapshots: %w", len(req.Snapshots), err)
	}
	volume := req.Snapshots[0].SourceVolumeID
	if why := s.refuses[volume]; why != "" {
		return nil, errors.New(why)
	}
	s.mu.Lock()
	id := fmt.Sprintf("snap-%s-%d", volume, len(s.made))
	s.made[id] = volume
	s.mu.Unlock()
	s.note("snapshot " + volume)
	s.write("volumes/"+id+"/image", "on "+volume)
	s.onCut(volume, id)
	return &api.CSISnapshotCreateResponse{
		Snapshots: []*api.CSISnapshot{{ID: id, SourceVolumeID: volume, PluginID: "local-csi"}},
		Results:   []api.CSIVolumeWriteResult{{Outcome: "created"}},
	}, nil
}

// Check implements cluster.DataDirs.
func (s *saving) Check(string) (*storecheck.Report, error) {
	return nil, errors.New("nothing is checked")
}

// ForgetVolumes implements cluster.DataDirs.
func (s *saving) ForgetVolumes(string, func(error, []string) error) error {
	return errors.New("nothing is given up")
}

// Sources implements backup.DataDirs.
func (s *saving) Sources(dir string) (*backup.Sources, error) {
	if dir != s.dataDir {
		return nil, fault.New(fault.NotFound, "back up", dir, "no agent uses it")
	}
	return &backup.Sources{
		NodeID:  nodeA,
		Files:   []string{"client.identity", "server/keyring/root.key"},
		Store:   "client/client.db",
		Plugin:  "local-csi",
		Images:  slices.Clone(s.images),
		Damaged: s.damaged,
	}, nil
}

// Snapshot implements backup.DataDirs.
func (s *saving) Snapshot(_ *backup.Sources, id string) (backup.Image, error) {
	return backup.Image{ID: id, Snapshot: true, Data: "volumes/" + id + "/image"}, nil
}

// Restore implements backup.DataDirs.
func (s *saving) Restore(
	ctx context.Context, from, dir string, progress backup.Progress,
) (*backup.Manifest, error) {
	return backup.Restore(ctx, from, dir, progress, nil)
}

// run runs a command on the machine.
func (s *saving) run(args ...string) result {
	s.t.Helper()
	agent := httptest.NewServer(s)
	defer agent.Close()
	var out, errs bytes.Buffer
	app := cli.New(cli.Options{
		Stdin:    strings.NewReader(""),
		Stdout:   &out,
		Stderr:   &errs,
		Getenv:   func(name string) string { return map[string]string{"BERTH_ADDR": agent.URL}[name] },
		DataDirs: s,
	})
	code := app.Run(s.t.Context(), append([]string{"operator", "backup"}, args...))
	return result{out.String(), errs.String(), code}
}

// whole reads the backup, and fails the test unless it is as it was written.
func (s *saving) whole() *backup.Manifest {
	s.t.Helper()
	m, damaged, err := backup.Verify(s.t.Context(), s.dest, nil)
	if err != nil || len(damaged) > 0 {
		s.t.Fatal(err, damaged)
	}
	return m
}

// none fails the test if anything lies where the backup was to be.
func (s *saving) none(what string) {
	s.t.Helper()
	if left, err := filepath.Glob(s.dest + "*"); err != nil || len(left) > 0 {
		s.t.Errorf("%s: left: %v, %v", what, left, err)
	}
}

// deleted fails the test unless each snapshot that was made is deleted, after it was made.
func (s *saving) deleted() {
	s.t.Helper()
	for id, volume := range s.made {
		if slices.Index(s.did, "delete "+id) < slices.Index(s.did, "snapshot "+volume) {
			s.t.Errorf("snapshot %s was left: %q", id, s.did)
		}
	}
}

// Given a machine with volumes, snapshots of people and what an interrupted backup has left, when it is backed up,
// then the servers' state comes first, then the node's store, then the volumes, which are listed once more by then,
// each from a snapshot that is deleted; and what is put back is what was there.
func TestABackupSavesTheServersFirstAndTheVolumesLast(t *testing.T) {
	s := newSaving(t)
	s.volume("a")
	s.volume("b")
	s.image("keep@"+nodeA, "sunday", "a then")
	s.image("left@"+nodeA, "berth-backup-left", "a, long ago")
	s.volumes = append(s.volumes, &api.CSIVolumeListStub{Namespace: "default", ID: "far", PluginID: "local-csi",
		ExternalID: "far@" + nodeB})
	if got := s.run("save", s.dest); got.code != 0 || !strings.Contains(got.stdout, "lies on another machine") {
		t.Fatalf("%+v", got)
	}
	want := []string{"list volumes", "save state", "save store", "list volumes", "delete left@" + nodeA, "snapshot a",
		"delete snap-a-0", "snapshot b", "delete snap-b-1"}
	if !slices.Equal(s.did, want) {
		t.Errorf("it did %q, want %q", s.did, want)
	}
	m := s.whole()
	if m.NodeID != nodeA || m.DataDir != s.dataDir || m.ClusterID != "c1" || m.Index != 7 || m.Program != "9" {
		t.Errorf("the manifest is of %+v", m)
	}
	into := filepath.Join(filepath.Dir(s.dest), "into")
	if err := os.Mkdir(into, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.run("restore", "-data-dir", into, s.dest); got.code != 0 ||
		!strings.Contains(got.stdout, "berth operator recovery finish") {
		t.Fatalf("%+v", got)
	}
	for path, want := range map[string]string{
		"client.identity":                      "identity",
		"server/keyring/root.key":              "key",
		"client/client.db":                     string(s.store),
		"server/restore.snap":                  string(s.state),
		"volumes/a@" + nodeA + "/meta.json":    "record of a@" + nodeA,
		"volumes/a@" + nodeA + "/image":        "on a",
		"volumes/b@" + nodeA + "/image":        "on b",
		"volumes/keep@" + nodeA + "/image":     "on a then",
		"volumes/keep@" + nodeA + "/meta.json": "record of keep@" + nodeA,
	} {
		if got, err := os.ReadFile(filepath.Join(into, path)); err != nil || string(got) != want {
			t.Errorf("%s was put back as %q: %v", path, got, err)
		}
	}
	if got, err := filepath.Glob(filepath.Join(into, "volumes", "left*")); err != nil || len(got) > 0 {
		t.Errorf("what was left of another backup is in this one: %v, %v", got, err)
	}
}

// Given volumes of which one cannot be saved, when the machine is backed up, then the exit code is 2, that one is named
// with the reason, and all others are in the backup; inspecting it says the same. No snapshot is left.
func TestABackupThatLacksAVolumeEndsWithTwo(t *testing.T) {
	for name, c := range map[string]struct {
		given func(s *saving)
		says  []string
	}{
		"a snapshot that is refused": {func(s *saving) { s.refuses["b"] = "stop the writers" },
			[]string{"Not in the backup: volume default/b: ", "stop the writers"}},
		"a record that changes each time": {func(s *saving) {
			s.onCut = func(volume, id string) {
				if volume == "b" {
					s.write("volumes/b@"+nodeA+"/meta.json", "changed with "+id)
				}
			}
		}, []string{"Not in the backup: volume default/b: ", "changed again and again"}},
		"an image that is gone": {func(s *saving) { s.images = s.images[:1] },
			[]string{"Not in the backup: volume default/b: ", "should be"}},
		"an image that nobody knows": {func(s *saving) { s.volumes = s.volumes[:1] },
			[]string{"Not in the backup: volume b@" + nodeA, "no volume is registered"}},
		"a record that is damaged": {func(s *saving) { s.damaged = []error{errors.New("meta.json is cut off")} },
			[]string{"Not in the backup: volume unknown: ", "meta.json is cut off"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSaving(t)
			s.volume("a")
			s.volume("b")
			c.given(s)
			got := s.run("save", s.dest)
			if got.code != 2 {
				t.Fatalf("%+v", got)
			}
			s.deleted()
			m := s.whole()
			at := slices.IndexFunc(m.Volumes, func(v backup.Volume) bool { return v.ID == "a" })
			if at < 0 || !m.Volumes[at].Saved || !m.Incomplete() {
				t.Errorf("the volumes in it are %+v", m.Volumes)
			}
			inspected := s.run("inspect", s.dest)
			for _, says := range c.says {
				if !strings.Contains(got.stdout, says) || !strings.Contains(inspected.stdout, says) {
					t.Errorf("it does not say %q:\n%s\nand inspected:\n%s", says, got.stdout, inspected.stdout)
				}
			}
		})
	}
}

// Given a volume whose record changes once, as by an expansion, then it is saved all the same, from a later snapshot.
func TestAVolumeWhoseRecordChangesOnceIsSaved(t *testing.T) {
	s := newSaving(t)
	s.volume("a")
	s.onCut = func(_, id string) {
		if id == "snap-a-0" {
			s.write("volumes/a@"+nodeA+"/meta.json", "expanded")
		}
	}
	if got := s.run("save", s.dest); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	s.deleted()
	s.whole()
	record, err := os.ReadFile(filepath.Join(s.dest, "data/volumes/a@"+nodeA+"/meta.json"))
	if err != nil || string(record) != "expanded" || len(s.made) != 2 {
		t.Errorf("from %d snapshots its record is %q: %v", len(s.made), record, err)
	}
}

// Given an agent of another machine, a state or a store that is damaged on its way, or a place that would be lost with
// the machine, when it is backed up, then it is refused, with exit code 1, and nothing is left.
func TestABackupOfSomethingElseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		given func(s *saving)
		says  string
	}{
		"another node's agent": {func(s *saving) { s.node = nodeB }, "run the command on the machine of the agent"},
		"no node's agent":      {func(s *saving) { s.node = "" }, "run the command on the machine of the agent"},
		"a state that is not the one that was sent": {func(s *saving) { s.digest = savedState(t, "stale") },
			"damaged on its way"},
		"what is no state":        {func(s *saving) { s.state, s.digest = []byte("x"), []byte("x") }, "no saved state"},
		"a store that is cut off": {func(s *saving) { s.cutOff = true }, "unexpected EOF"},
		"a place beneath it":      {func(s *saving) { s.dest = filepath.Join(s.dataDir, "monday") }, "lies beneath"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSaving(t)
			s.volume("a")
			c.given(s)
			if got := s.run("save", s.dest); got.code != 1 || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%+v", got)
			}
			s.none(name)
			s.deleted()
		})
	}
}

// Given a backup that is being written, when another one of the same data directory begins, then it is refused: it
// would take the snapshots of the first for leftovers.
func TestTwoBackupsOfOneMachine(t *testing.T) {
	s := newSaving(t)
	s.volume("a")
	s.onCut = func(string, string) {
		got := s.run("save", s.dest+"-too")
		if got.code != 1 || !strings.Contains(got.stderr, "another backup of "+s.dataDir+" is being written") {
			t.Errorf("%+v", got)
		}
	}
	if got := s.run("save", s.dest); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	s.whole()
}

// Given a backup that is damaged, or a place that holds something, when it is put back, then it is refused with exit
// code 1, and nothing is put there; inspecting a damaged one ends with 2, and something else with 1.
func TestABackupIsPutBackWholeOrNotAtAll(t *testing.T) {
	s := newSaving(t)
	s.volume("a")
	if got := s.run("save", s.dest); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	into := filepath.Join(filepath.Dir(s.dest), "into")
	if err := os.MkdirAll(filepath.Join(into, "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := s.run("restore", "-data-dir", into, s.dest)
	if got.code != 1 || !strings.Contains(got.stderr, "it holds server") {
		t.Errorf("into a place that holds something: %+v", got)
	}
	if got := s.run("restore", s.dest); got.code != 1 || !strings.Contains(got.stderr, "-data-dir is missing") {
		t.Errorf("nowhere: %+v", got)
	}
	if err := os.Remove(filepath.Join(into, "server")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dest, "data/client.identity"), []byte("identitx"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = s.run("restore", "-data-dir", into, s.dest)
	if got.code != 1 || !strings.Contains(got.stderr, "client.identity") {
		t.Errorf("a damaged one: %+v", got)
	}
	if left, err := os.ReadDir(into); err != nil || len(left) > 0 {
		t.Errorf("of a damaged one was put back: %v, %v", left, err)
	}
	if got := s.run("inspect", s.dest); got.code != 2 || !strings.Contains(got.stdout, "Damaged: ") {
		t.Errorf("inspected: %+v", got)
	}
	if got := s.run("inspect", into); got.code != 1 || !strings.Contains(got.stderr, "it is no backup") {
		t.Errorf("inspected, what is none: %+v", got)
	}
}
