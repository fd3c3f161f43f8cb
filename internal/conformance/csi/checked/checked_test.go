package checked

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/base/pluginreport"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/plugincheck"
	"berth/internal/port/csi"
	"berth/internal/testkit/fake"
)

// pluginVar has this program be the plugin that it describes.
const pluginVar = "BERTH_TEST_CHECKED_CSI"

// plugin is a fake one behind a proxy, which lies on its behalf.
type plugin struct {
	Fake  fake.Config
	Rules []string
	Dir   string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(pluginVar); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serve(text string) error {
	var p plugin
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	socket := strings.TrimPrefix(os.Getenv("CSI_ENDPOINT"), "unix://")
	if len(p.Rules) == 0 {
		return fake.Serve(context.Background(), socket, p.Fake)
	}
	rules := filepath.Join(p.Dir, "rules")
	if err := proxy.WriteRules(rules, p.Rules...); err != nil {
		return err
	}
	return proxy.Run(context.Background(), proxy.Config{
		Endpoint: socket,
		Record:   filepath.Join(p.Dir, "record"),
		Rules:    rules,
		Plugin:   "fake",
		Backend: proxy.Serving(func(ctx context.Context, socket string) error {
			return fake.Serve(ctx, socket, p.Fake)
		}),
	})
}

// checked tests a plugin as its author would.
func checked(t *testing.T, p plugin, limit time.Duration) *pluginreport.Report {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the fake mounts as root alone")
	}
	dir, err := os.MkdirTemp("", "k") // short: sockets lie in it, and what a plugin that is killed leaves
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p.Dir = dir
	p.Fake.Dir = filepath.Join(p.Dir, "backend")
	if p.Fake.NodeID == "" {
		p.Fake.NodeID = "n1"
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := plugincheck.CSI(t.Context(), pluginreport.Asked{
		Command: []string{"/bin/sh", "-c", "TMPDIR=" + dir + " " + pluginVar + "='" + string(text) + "' exec " + self},
		Volume:  pluginreport.Volume{Bytes: 1 << 20, Limit: limit},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Error(err)
	}
	return r
}

// Given plugins that keep to the specification, with all that it has or a part of it, when they are tested, then they
// pass, and what is skipped is what they do not claim.
func TestAPluginThatKeepsItsPromisesPasses(t *testing.T) {
	for name, c := range map[string]struct {
		fake    fake.Config
		skipped int
	}{
		"all of it":        {fake.Config{NodeExpand: true, SnapPolls: 2}, 0},
		"without stagings": {fake.Config{Node: csi.Caps[csi.NodeCap]{csi.CapStats}}, 0},
		"volumes alone": {fake.Config{
			Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete},
			Node:       csi.Caps[csi.NodeCap]{csi.CapStage},
		}, 2},
		"with a place": {fake.Config{
			Plugin:   csi.Caps[csi.PluginCap]{csi.CapAccessibility},
			Topology: map[string]string{"zone": "a"},
		}, 0},
		"a node service": {fake.Config{NoControl: true}, 14},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := checked(t, plugin{Fake: c.fake}, 5*time.Minute)
			for _, check := range r.Checks {
				if check.Result == pluginreport.Failed {
					t.Errorf("%s: %s", check.Name, check.Message)
				}
			}
			if r.Skipped != c.skipped || r.Name == "" {
				t.Errorf("%d are skipped of %+v", r.Skipped, r)
			}
		})
	}
}

// Given plugins that lie, each in its way, when they are tested, then a promise that they break is named, and the test
// leaves nothing behind.
func TestALieIsFound(t *testing.T) {
	const (
		mounts  = "a volume is mounted where it is asked for, and keeps what is written"
		creates = "a volume is created, by the answer that it deserves"
	)
	for name, c := range map[string]struct {
		p      plugin
		breaks string
		limit  time.Duration // 0: long enough
	}{
		"it mounts nothing":        {plugin{Rules: []string{`(NodePublish * ok-without-effect)`}}, mounts, 0},
		"it unmounts nothing":      {plugin{Rules: []string{`(NodeUnpublish * ok-without-effect)`}}, mounts, 0},
		"it forgets what it has":   {plugin{Fake: defect("NodeUnpublishVolume", fake.DefectForgets)}, mounts, 0},
		"it unstages nothing":      {plugin{Rules: []string{`(NodeUnstage * ok-without-effect)`}}, mounts, 0},
		"its id is too long":       {plugin{Fake: defect("CreateVolume", fake.DefectLongID)}, creates, 0},
		"its size is negative":     {plugin{Fake: defect("CreateVolume", fake.DefectNegative)}, creates, 0},
		"its answer holds nothing": {plugin{Fake: defect("CreateVolume", fake.DefectEmpty)}, creates, 0},
		"its answer is too large":  {plugin{Fake: defect("CreateVolume", fake.DefectHuge)}, creates, 0},
		"it deletes nothing": {
			plugin{Rules: []string{`(DeleteVolume * ok-without-effect)`}},
			"a volume is deleted, and stays so",
			0,
		},
		"it refuses what is known": {
			plugin{Rules: []string{`(NodeStage * before AlreadyExists from 2)`}},
			"every call",
			0,
		},
		"it never answers": {plugin{Rules: []string{`(NodePublish * hang)`}}, mounts, 10 * time.Second},
		"it takes whatever is sent": {
			plugin{Rules: []string{`(NodeUnpublish "" ok-without-effect)`}},
			"a call that lacks",
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := checked(t, c.p, cmp.Or(c.limit, time.Minute))
			var broken []string
			for _, check := range r.Checks {
				if check.Result == pluginreport.Failed {
					broken = append(broken, check.Name+": "+check.Message)
				}
			}
			if !strings.Contains(strings.Join(broken, "\n"), c.breaks) {
				t.Errorf("found broken:\n%s", strings.Join(broken, "\n"))
			}
		})
	}
}

func defect(rpc string, d fake.Defect) fake.Config {
	return fake.Config{Defects: map[string]fake.Defect{rpc: d}}
}
