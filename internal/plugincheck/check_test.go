package plugincheck_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"berth/internal/base/pluginreport"
	"berth/internal/plugincheck"
	"berth/internal/testkit/playedplugin"
	"berth/pluginproto/basepb"
	"berth/pluginproto/devicepb"
)

func TestMain(m *testing.M) { playedplugin.Main(m, play) }

var quiet = slog.New(slog.DiscardHandler)

// built is an example, as its author would build it.
func built(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin-of-"+name)
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	cmd.Dir = filepath.Join("../../examples", name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// failed lists the checks that failed.
func failed(r *pluginreport.Report) (out []string) {
	for _, c := range r.Checks {
		if c.Result == pluginreport.Failed {
			out = append(out, c.Name+": "+c.Message)
		}
	}
	return out
}

// Given the examples that authors begin with, when they are tested as authors would, then they pass, and what is
// skipped is what they do not claim.
func TestTheExamplesPassTheTestOfTheirAuthors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("plugins run as root")
	}
	if testing.Short() {
		t.Skip("it builds the examples, and watches tasks for a while")
	}
	t.Run("device", func(t *testing.T) {
		dir := t.TempDir()
		for id, text := range map[string]string{"a": "", "b": "", "c": "broken: worn out"} {
			if err := os.WriteFile(filepath.Join(dir, id), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err := plugincheck.Device(t.Context(), pluginreport.Asked{Command: []string{built(t, "device")},
			Config: map[string]any{"dir": dir}}, quiet)
		if err != nil || r.Failed+r.Skipped > 0 || r.Name != "example" || r.Version != "0.1.0" {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("driver", func(t *testing.T) {
		r, err := plugincheck.Driver(t.Context(), pluginreport.Asked{
			Command: []string{built(t, "driver")},
			Config:  map[string]any{"shell": "/bin/sh"},
			Task:    map[string]any{"command": "/bin/sh", "args": []any{"-c", "echo hi; sleep 3600"}},
		}, quiet)
		if err != nil || r.Failed+r.Skipped > 0 || r.Name != "hello" {
			t.Errorf("%+v, %v", r, err)
		}
		left, err := exec.Command("pgrep", "-f", t.TempDir()[:strings.LastIndex(t.TempDir(), "/")]).Output()
		if err == nil {
			t.Errorf("left behind: processes %s", left)
		}
	})
	t.Run("driver whose task escapes", func(t *testing.T) {
		r, err := plugincheck.Driver(t.Context(), pluginreport.Asked{
			Command: []string{built(t, "driver")},
			Config:  map[string]any{"shell": "/bin/sh"},
			Task: map[string]any{"command": "/bin/sh",
				"args": []any{"-c", "setsid sleep 86397 & echo hi; exec sleep 3600"}},
		}, quiet)
		if all := strings.Join(failed(r), "\n"); err != nil || !strings.Contains(all, "nothing of its tasks is left") {
			t.Errorf("%+v, %v", r, err)
		}
		if left, err := exec.Command("pgrep", "-f", "^sleep 86397").Output(); err == nil {
			t.Errorf("left behind: processes %s", left)
		}
	})
	t.Run("driver whose task ends", func(t *testing.T) {
		r, err := plugincheck.Driver(t.Context(), pluginreport.Asked{
			Command: []string{built(t, "driver")},
			Config:  map[string]any{"shell": "/bin/sh"},
			Task:    map[string]any{"command": "/bin/true"},
		}, quiet)
		if err != nil || len(failed(r)) == 0 || !strings.Contains(failed(r)[0], "ended by itself") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Given plugins of devices of which each breaks one promise, when they are tested, then that one is said to be broken.
func TestABrokenPromiseIsFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("plugins run as root")
	}
	for mode, say := range map[string]string{
		"well":        "",
		"exits":       "it starts, says who it is",
		"twice":       `device "a" twice`,
		"no reason":   "nothing says why",
		"mounts none": "which is not there",
		"no node":     "no device's node",
		"permissions": "not of the letters",
		"reserved":    "variable PATH, which no task gets",
		"changes":     "something else the second time",
		"gives all":   "that it does not have",
		"dies":        "there-is-no-such-device\" it ended",
		"figures":     "which it does not find",
		"forgets":     "and then",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			memory := filepath.Join(t.TempDir(), "started")
			r, err := plugincheck.Device(t.Context(), pluginreport.Asked{Command: append([]string{"/bin/sh"},
				playedplugin.Args(t, mode, memory)...)}, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(failed(r), "\n"); say == "" && all != "" || !strings.Contains(all, say) {
				t.Errorf("it does not say %q: %s", say, all)
			}
		})
	}
	none := pluginreport.Asked{Command: []string{"no-such-plugin"}}
	if _, err := plugincheck.Device(t.Context(), none, quiet); err == nil {
		t.Error("a plugin that is not there is tested")
	}
}

// bad is a plugin that misbehaves as its mode says, and is well otherwise.
type bad struct {
	basepb.UnimplementedBasePluginServer
	devicepb.UnimplementedDevicePluginServer
	mode  string
	asked int
	again bool // it was started before
}

func (b *bad) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return &basepb.PluginInfoResponse{Type: basepb.PluginType_DEVICE, PluginApiVersions: []string{"v0.1.0"},
		Name: "bad"}, nil
}

func (b *bad) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{}, nil
}

func (b *bad) SetConfig(context.Context, *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	return &basepb.SetConfigResponse{}, nil
}

func (b *bad) Fingerprint(_ *devicepb.FingerprintRequest, s devicepb.DevicePlugin_FingerprintServer) error {
	g := &devicepb.DeviceGroup{Vendor: "acme", DeviceType: "gpu", DeviceName: "k80",
		Devices: []*devicepb.DetectedDevice{{ID: "a", Healthy: true}, {ID: "b", Healthy: true}}}
	switch {
	case b.mode == "twice":
		g.Devices[1].ID = "a"
	case b.mode == "no reason":
		g.Devices[1].Healthy = false
	case b.mode == "forgets" && b.again:
		g.Devices[1].ID = "c"
	}
	if err := s.Send(&devicepb.FingerprintResponse{DeviceGroup: []*devicepb.DeviceGroup{g}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (b *bad) Reserve(_ context.Context, r *devicepb.ReserveRequest) (*devicepb.ReserveResponse, error) {
	b.asked++
	c := &devicepb.ContainerReservation{Envs: map[string]string{"A": "b"},
		Devices: []*devicepb.DeviceSpec{{HostPath: "/dev/null", Permissions: "rw"}}}
	switch id := r.GetDeviceIds()[0]; {
	case b.mode == "dies" && id != "a":
		os.Exit(7)
	case b.mode != "gives all" && id != "a" && id != "b":
		return nil, fmt.Errorf("there is no device %q", id)
	case b.mode == "mounts none":
		c.Mounts = []*devicepb.Mount{{TaskPath: "/x", HostPath: "/no/such/path"}}
	case b.mode == "no node":
		c.Devices[0].HostPath = "/etc/passwd"
	case b.mode == "permissions":
		c.Devices[0].Permissions = "all"
	case b.mode == "reserved":
		c.Envs["PATH"] = "/opt/acme/bin"
	case b.mode == "changes":
		c.Envs["A"] = fmt.Sprint(b.asked)
	}
	return &devicepb.ReserveResponse{ContainerRes: c}, nil
}

func (b *bad) Stats(_ *devicepb.StatsRequest, s devicepb.DevicePlugin_StatsServer) error {
	id := "a"
	if b.mode == "figures" {
		id = "z"
	}
	err := s.Send(&devicepb.StatsResponse{Groups: []*devicepb.DeviceGroupStats{{Vendor: "acme", Type: "gpu",
		Name: "k80", InstanceStats: map[string]*devicepb.DeviceStats{id: {}}}}})
	<-s.Context().Done()
	return err
}

// play is the plugin.
func play(mode string) int {
	if mode == "exits" {
		fmt.Fprintln(os.Stderr, "a library is missing")
		return 3
	}
	_, failed := os.Stat(os.Args[1])
	b := &bad{mode: mode, again: failed == nil}
	if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
		return 1
	}
	g := grpc.NewServer()
	basepb.RegisterBasePluginServer(g, b)
	devicepb.RegisterDevicePluginServer(g, b)
	return playedplugin.Serve(g, playedplugin.Line, true)
}
