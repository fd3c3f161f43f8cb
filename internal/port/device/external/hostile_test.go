package external_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/device"
	"berth/internal/port/device/external"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
	"berth/internal/testkit/playedplugin"
	"berth/pluginproto/basepb"
	"berth/pluginproto/devicepb"
)

func TestMain(m *testing.M) { playedplugin.Main(m, play) }

// bad is a plugin that misbehaves as its mode says, and is well otherwise.
type bad struct {
	basepb.UnimplementedBasePluginServer
	devicepb.UnimplementedDevicePluginServer
	mode string
}

func (b *bad) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	r := &basepb.PluginInfoResponse{Type: basepb.PluginType_DEVICE, PluginApiVersions: []string{"v0.1.0"}, Name: "bad"}
	if b.mode == "driver" {
		r.Type = basepb.PluginType_DRIVER
	}
	return r, nil
}

func (b *bad) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{}, nil
}

func (b *bad) SetConfig(context.Context, *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	return &basepb.SetConfigResponse{}, nil
}

func (b *bad) Fingerprint(_ *devicepb.FingerprintRequest, s devicepb.DevicePlugin_FingerprintServer) error {
	g := &devicepb.DeviceGroup{Vendor: "acme", DeviceType: "gpu", DeviceName: "k80",
		Devices: []*devicepb.DetectedDevice{{ID: "b", Healthy: true}, {ID: "a", HealthDescription: "worn out"}}}
	f := &devicepb.FingerprintResponse{DeviceGroup: []*devicepb.DeviceGroup{g}}
	switch b.mode {
	case "twice":
		g.Devices = append(g.Devices, g.Devices[0])
	case "kind twice":
		f.DeviceGroup = append(f.DeviceGroup, g)
	case "no id":
		g.Devices[0].ID = ""
	case "vendor":
		g.Vendor = "acme/gpu"
	case "control":
		g.DeviceName = "k80\n"
	case "many":
		for i := range 5000 {
			g.Devices = append(g.Devices, &devicepb.DetectedDevice{ID: "x" + strconv.Itoa(i)})
		}
	case "dies":
		os.Exit(7)
	case "ends":
		return nil
	}
	for i := 0; ; i++ {
		if err := s.Send(f); err != nil {
			return err
		}
		if b.mode != "floods" {
			break
		}
		g.Devices[1].HealthDescription = strconv.Itoa(i)
	}
	<-s.Context().Done()
	return nil
}

func (b *bad) Reserve(_ context.Context, r *devicepb.ReserveRequest) (*devicepb.ReserveResponse, error) {
	c := &devicepb.ContainerReservation{Envs: map[string]string{"IDS": strings.Join(r.GetDeviceIds(), ",")},
		Mounts:  []*devicepb.Mount{{TaskPath: "/lib/x", HostPath: "/usr/lib/x", ReadOnly: true}},
		Devices: []*devicepb.DeviceSpec{{HostPath: "/dev/x", Permissions: "rw"}}}
	switch b.mode {
	case "refuses":
		return nil, status.Error(codes.Unknown, "the moon is full")
	case "relative":
		c.Mounts[0].HostPath = "usr/lib"
	case "relative device":
		c.Devices[0].TaskPath = "dev/x"
	case "variable":
		c.Envs["A=B"] = "c"
	case "many variables":
		for i := range 10_000 {
			c.Envs["X"+strconv.Itoa(i)] = "y"
		}
	case "a large variable":
		c.Envs["HUGE"] = strings.Repeat("x", 1<<20)
	case "large variables":
		for i := range 40 {
			c.Envs["X"+strconv.Itoa(i)] = strings.Repeat("x", 100<<10)
		}
	case "many mounts":
		for range 10_000 {
			c.Mounts = append(c.Mounts, c.Mounts[0])
		}
	case "many nodes":
		for range 10_000 {
			c.Devices = append(c.Devices, c.Devices[0])
		}
	case "nothing":
		return &devicepb.ReserveResponse{}, nil
	}
	return &devicepb.ReserveResponse{ContainerRes: c}, nil
}

// play is the plugin.
func play(mode string) int {
	g := grpc.NewServer(playedplugin.Misbehaves(mode)...)
	basepb.RegisterBasePluginServer(g, &bad{mode: mode})
	devicepb.RegisterDevicePluginServer(g, &bad{mode: mode})
	return playedplugin.Serve(g, playedplugin.Line, true)
}

// follows runs a plugin of this mode, and returns it with what it says first; hear gets all that it says.
func follows(t *testing.T, mode string, hear func(device.State)) (*external.Plugin, device.State) {
	t.Helper()
	first := make(chan device.State, 1)
	p := following(t, mode, func(s device.State) {
		hear(s)
		select {
		case first <- s:
		default: // the first one counts
		}
	})
	select {
	case s := <-first:
		return p, s
	case <-time.After(90 * time.Second):
		t.Fatal("the plugin says nothing")
	}
	return nil, device.State{}
}

// following runs a plugin of this mode; hear gets all that it says.
func following(t *testing.T, mode string, hear func(device.State)) *external.Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dev")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	dirs := hostfs.NewDirectories(log)
	p := external.New(external.Config{Config: pluginhost.Config{
		Block: "bad-device",
		Path:  "/bin/sh",
		Args:  playedplugin.Args(t, mode),
		Dir:   filepath.Join(dir, "state"),
		Dirs:  dirs,
		Log:   log,
	}})
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("directories", func() error { return dirs.Run(gctx) })
	g.Go("plugin", func() error { return p.Follow(gctx, hear) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func nobody(device.State) {}

// Given plugins whose devices could not be told apart, are too many, or that are none of devices, when the agent
// follows them, then it says why each is of no use, and asks none for anything.
func TestAPluginWhoseDevicesAreOfNoUseIsSaidToBe(t *testing.T) {
	for mode, say := range map[string]string{
		"twice":      `device "b" twice`,
		"kind twice": "acme/gpu/k80 twice",
		"no id":      `whose id is ""`,
		"vendor":     `vendor is "acme/gpu"`,
		"control":    "name is",
		"many":       "more than 4096",
		"dies":       `device plugin "bad-device" is not there`,
		"ends":       "stopped saying",
		"driver":     "a driver plugin",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, s := follows(t, mode, nobody)
			if !strings.Contains(s.Reason, say) || len(s.Groups) > 0 {
				t.Errorf("%q does not say %q: %v", s.Reason, say, s.Groups)
			}
			if _, err := p.Reserve(t.Context(), []string{"b"}); !fault.Has(err, fault.NotReady) {
				t.Errorf("it is asked for a device: %v", err)
			}
		})
	}
}

// Given a plugin that is well, when it is followed and asked, then its devices are there, by their ids, and a task gets
// what it gives; what cannot be given to a task is refused.
func TestWhatAPluginGivesIsATasks(t *testing.T) {
	for mode, say := range map[string]string{"well": "", "nothing": "", "refuses": "the moon is full",
		"relative": "no absolute path", "relative device": "no absolute path", "variable": "cannot be one",
		"many variables":   "10001 variables, 1000 are the most",
		"a large variable": `variable "HUGE" of 1048576 bytes`,
		"large variables":  "variables of 4096196 bytes",
		"many mounts":      "10001 mounts",
		"many nodes":       "10001 nodes of devices"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, s := follows(t, mode, nobody)
			if s.Reason != "" || len(s.Groups) != 1 || len(s.Groups[0].Instances) != 2 ||
				s.Groups[0].Instances[0].Reason != "worn out" || p.Name() != "bad" {
				t.Fatalf("%+v", s)
			}
			r, err := p.Reserve(t.Context(), []string{"b"})
			if say != "" {
				if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), say) {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			if err != nil || mode == "well" && (r.Env["IDS"] != "b" || len(r.Mounts) != 1 || !r.Mounts[0].ReadOnly ||
				len(r.Devices) != 1 || r.Devices[0].TaskPath != "/dev/x") {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// Given a plugin that says something else of its devices all the time, when it is followed for a while, then it is
// heard once a second: each word may be a write of the servers.
func TestAFloodOfDevicesIsHeardSeldom(t *testing.T) {
	words := make(chan device.State, 10_000)
	begun := time.Now()
	follows(t, "floods", func(s device.State) { words <- s })
	time.Sleep(2500 * time.Millisecond)
	most := int(time.Since(begun)/time.Second) + 1
	if n := len(words); n < 2 || n > most {
		t.Errorf("%d words in %s", n, time.Since(begun))
	}
}
