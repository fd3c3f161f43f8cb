package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
)

// carelessPlugin runs a plugin that refuses every call without the secret "key", whose first call of each kind fails
// with a message that repeats secrets and mount flags, and whose contexts hold the secrets and must come back as they
// were.
func (m *machine) carelessPlugin(id string) *judged {
	m.t.Helper()
	p := &judged{m: m, id: id, driver: "raw_exec", scope: "node"}
	cfg, err := json.Marshal(csitest.Fake{
		NodeID:      "n1",
		Dir:         filepath.Join(m.rig, "backend-"+id),
		Needs:       "key",
		EchoContext: true,
		Echo: []string{"CreateVolume", "ValidateVolumeCapabilities", "ControllerPublishVolume", "NodeStageVolume",
			"NodePublishVolume", "CreateSnapshot", "DeleteVolume"},
	})
	must(m.t, err)
	p.argv = []string{p.see("csi-proxy"), "-serve-fake", string(cfg)}
	return p.begin()
}

// hunt looks for words that must be nowhere, in whatever the test shows it.
type hunt struct {
	m     *machine
	words map[string]string // what it is: its text
	plain string            // what is no secret and must be found where secrets could be: else nobody looked
	found map[string]bool   // kinds of places where plain was seen
}

func (h *hunt) look(kind, place string, data []byte) {
	h.m.t.Helper()
	if bytes.Contains(data, []byte(h.plain)) {
		h.found[kind] = true
	}
	for what, word := range h.words {
		// Bytes in JSON are base64; of the whole word, so that only the last group depends on what follows.
		coded := base64.StdEncoding.EncodeToString([]byte(word))
		for _, form := range []string{word, coded[:len(coded)-4]} {
			if at := bytes.Index(data, []byte(form)); at >= 0 {
				h.m.t.Errorf("%s %s shows the %s: …%q…", kind, place, what,
					data[max(0, at-80):min(len(data), at+len(form)+20)])
			}
		}
	}
}

// api reads paths as any client may.
func (h *hunt) api(paths ...string) {
	h.m.t.Helper()
	for _, path := range paths {
		req, err := http.NewRequestWithContext(h.m.t.Context(), http.MethodGet,
			fmt.Sprintf("http://127.0.0.1:%d/v1/%s", h.m.port, path), nil)
		must(h.m.t, err)
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(h.m.t, err)
		body, err := io.ReadAll(resp.Body)
		must(h.m.t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != http.StatusOK {
			h.m.t.Errorf("%s: %s %s", path, resp.Status, body)
		}
		h.look("the API", path, body)
	}
}

func (h *hunt) cli(args ...string) {
	h.m.t.Helper()
	out, code := h.m.cli(args...)
	if code != 0 {
		h.m.t.Errorf("berth %v: %s", args, out)
	}
	h.look("the command", strings.Join(args, " "), []byte(out))
}

// processes looks at arguments and environment of everything that runs on the machine.
func (h *hunt) processes() {
	h.m.t.Helper()
	all := processesOf(h.m.root)
	for _, p := range all {
		h.look("the process", p.String(), fmt.Append(nil, p.args, p.env))
	}
	if len(all) < 4 { // agent, the plugin and its proxy, a task
		h.m.t.Errorf("few processes: %v", all)
	}
}

// disk looks at the agent's log and at everything in its data_dir; what lies on volumes is the storage's own.
func (h *hunt) disk() {
	h.m.t.Helper()
	log, err := os.ReadFile(h.m.logPath())
	must(h.m.t, err)
	h.look("the log", "", log)
	must(h.m.t, filepath.WalkDir(h.m.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil // it went while we looked; or nothing to read
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		h.look("the data_dir", path, data)
		return err
	}))
}

// TestSecretsAreNowhere: given a volume and snapshots with secrets and a plugin that repeats them in its errors and in
// contexts, then they are in no log, file, reply, process or output, and arrive at the plugin even after the agent
// died.
func TestSecretsAreNowhere(t *testing.T) {
	m := newMachine(t, false)
	p := m.carelessPlugin("careless")
	secret := "S3CR3T-" + rand.Text()
	flag := "FL4G-" + rand.Text()
	id := "plain-" + strings.ToLower(rand.Text())
	h := &hunt{m: m, words: map[string]string{"secret": secret}, plain: id, found: map[string]bool{}}
	secrets := api.Secrets{"key": secret}
	vol := &api.CSIVolume{
		ID:                    id,
		Name:                  id,
		PluginID:              "careless",
		Secrets:               secrets,
		RequestedCapacityMin:  32 << 20,
		RequestedCapacityMax:  64 << 20,
		MountOptions:          &api.CSIMountOptions{MountFlags: []string{"password=" + flag}},
		RequestedCapabilities: []*api.CSIVolumeCapability{capability("single-node-writer", "file-system")},
	}

	// Every write is tried again as a person would, and what it says meanwhile is looked at.
	try := func(what string, write func(context.Context) error) {
		t.Helper()
		m.eventually(what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := write(ctx)
			if err != nil {
				h.look("the error", what, []byte(err.Error()))
				if strings.Contains(err.Error(), flag) {
					t.Errorf("%s shows a mount flag: %v", what, err)
				}
			}
			return err == nil
		})
	}
	var external string
	try("create", func(ctx context.Context) error {
		r, _, err := m.api.Volumes().Create(ctx, vol, nil)
		if err == nil {
			external, vol.Context = r.Volumes[0].ExternalID, r.Volumes[0].Context
		}
		return err
	})
	must(t, m.api.Volumes().Deregister(t.Context(), id, false, "", nil))
	vol.ExternalID = external
	try("register", func(ctx context.Context) error {
		_, _, err := m.api.Volumes().Register(ctx, vol, nil)
		return err
	})
	try("snapshot", func(ctx context.Context) error {
		_, _, err := m.api.Volumes().CreateSnapshot(ctx,
			&api.CSISnapshot{SourceVolumeID: id, Name: "s", Secrets: secrets}, nil)
		return err
	})
	snaps, _, err := m.api.Volumes().ListSnapshots(t.Context(), "careless", secrets, nil)
	if err != nil || len(snaps.Snapshots) != 1 {
		t.Fatalf("snapshots: %+v, %v", snaps, err)
	}

	w := writer{id: "user", volume: id}
	m.run(w.hcl())
	user := m.running("user", 1)[0]
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	everywhere := func() {
		t.Helper()
		h.processes()
		h.api("volumes?type=csi", "volume/csi/"+id, "allocations", "allocation/"+user.ID, "evaluations",
			"evaluation/"+user.EvalID, "jobs", "job/user",
			"job/user/versions", "job/user/allocations", "nodes", "node/"+
				user.NodeID, "plugins?type=csi", "plugin/csi/careless", "agent/self", "metrics")
		h.cli("volume", "status", id)
		h.cli("volume", "status", "-verbose", id)
		h.cli("volume", "status", "-json", id)
		h.cli("plugin", "status", "-verbose", "careless")
		h.cli("alloc", "status", "-verbose", user.ID)
		h.cli("job", "inspect", "user")
		h.disk()
		if m.logged(flag) {
			t.Error("the log shows a mount flag")
		}
	}
	everywhere()

	// After a crash the secrets are still there: to leave, to come back, to grow and to be deleted need them.
	m.kill()
	p.mark(proxy.CallerCrashed)
	m.start()
	m.awaitPlugin("careless")
	m.stopJob("user")
	m.free(id)
	m.run(w.hcl())
	user = m.running("user", 1)[0]
	m.lives(m.pid(user.ID, "write", "/bin/sh"), 0)
	try("expand", func(ctx context.Context) error {
		_, _, err := m.api.Volumes().Expand(ctx, id,
			&api.CSIVolumeExpandRequest{CapacityMin: 64 << 20, CapacityMax: 128 << 20}, nil)
		return err
	})
	everywhere()
	m.stopJob("user")
	m.free(id)
	try("delete of the snapshot", func(ctx context.Context) error {
		return m.api.Volumes().DeleteSnapshot(ctx, "careless", snaps.Snapshots[0].ID, secrets, nil)
	})
	try("delete", func(ctx context.Context) error {
		err := m.api.Volumes().Delete(ctx, id, nil, time.Minute, nil)
		if api.IsNotFound(err) {
			return nil // what was begun went on by itself
		}
		return err
	})
	h.disk()

	for _, kind := range []string{"the API", "the command", "the log", "the data_dir", "the error"} {
		if !h.found[kind] {
			t.Errorf("%s was not looked at: it does not even show %s", kind, id)
		}
	}
	for _, rpc := range []string{"Create", "ControllerPublish", "NodeStage", "NodePublish", "CreateSnapshot",
		"Delete"} {
		if p.count(rpc+"=Unavailable") != 1 || p.count(rpc) == 0 {
			t.Errorf("the plugin was to repeat its secrets at %s once, and then to do it: %v", rpc, p.calls())
		}
	}
}
