package external_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/internal/port/driver/external"
	"berth/internal/port/hostfs"
	"berth/internal/port/pluginhost"
	"berth/internal/testkit/playedplugin"
	"berth/pluginproto/basepb"
	"berth/pluginproto/driverpb"
	"berth/pluginproto/hclspecpb"
)

func TestMain(m *testing.M) { playedplugin.Main(m, play) }

// bad is a plugin that misbehaves as its mode says, and is well otherwise.
type bad struct {
	basepb.UnimplementedBasePluginServer
	driverpb.UnimplementedDriverServer
	mode string
}

func (b *bad) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	r := &basepb.PluginInfoResponse{Type: basepb.PluginType_DRIVER, PluginApiVersions: []string{"v0.1.0"}, Name: "bad"}
	switch b.mode {
	case "device":
		r.Type = basepb.PluginType_DEVICE
	case "old api":
		r.PluginApiVersions = []string{"v0.0.9"}
	case "name":
		r.Name = "../exec"
	}
	return r, nil
}

func (b *bad) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	if b.mode == "no schema" {
		return &basepb.ConfigSchemaResponse{Spec: &hclspecpb.Spec{Block: &hclspecpb.Spec_BlockList{
			BlockList: &hclspecpb.BlockList{Name: "x"}}}}, nil
	}
	return &basepb.ConfigSchemaResponse{}, nil
}

func (b *bad) SetConfig(context.Context, *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	switch b.mode {
	case "refuses":
		return nil, status.Error(codes.InvalidArgument, "the moon is full")
	case "crash":
		os.Exit(7)
	}
	return &basepb.SetConfigResponse{}, nil
}

func (b *bad) TaskConfigSchema(
	context.Context, *driverpb.TaskConfigSchemaRequest,
) (*driverpb.TaskConfigSchemaResponse, error) {
	return &driverpb.TaskConfigSchemaResponse{}, nil
}

func (b *bad) Capabilities(
	context.Context, *driverpb.CapabilitiesRequest,
) (*driverpb.CapabilitiesResponse, error) {
	switch b.mode {
	case "remote":
		c := &driverpb.DriverCapabilities{}
		c.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1))
		return &driverpb.CapabilitiesResponse{Capabilities: c}, nil
	case "mounts nothing":
		return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{
			MountConfigs: driverpb.MountConfigs_NO_MOUNTS,
		}}, nil
	case "mounts in a later way":
		return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{MountConfigs: 7}}, nil
	case "nets":
		return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{
			MustCreateNetwork:     true,
			NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_GROUP},
		}}, nil
	}
	return &driverpb.CapabilitiesResponse{}, nil // as one that knows none of the fields
}

// CreateNetwork is of a plugin that answers with what it is asked.
func (b *bad) CreateNetwork(
	_ context.Context, r *driverpb.CreateNetworkRequest,
) (*driverpb.CreateNetworkResponse, error) {
	if b.mode != "nets" {
		return nil, status.Error(codes.Unimplemented, "no networks")
	}
	spec := &driverpb.NetworkIsolationSpec{
		Mode:   driverpb.NetworkIsolationMode_GROUP,
		Path:   "/run/made/" + r.GetAllocId(),
		Labels: map[string]string{"sandbox": r.GetAllocId() + "/" + r.GetHostname()},
	}
	if r.GetHostname() == "nowhere" {
		spec.Path = ""
	}
	return &driverpb.CreateNetworkResponse{IsolationSpec: spec, Created: true}, nil
}

func (b *bad) DestroyNetwork(
	_ context.Context, r *driverpb.DestroyNetworkRequest,
) (*driverpb.DestroyNetworkResponse, error) {
	switch {
	case b.mode != "nets":
		return nil, status.Error(codes.Unimplemented, "no networks")
	case r.GetAllocId() == "unknown":
		return nil, status.Error(codes.NotFound, "there is none")
	case r.GetIsolationSpec().GetLabels()["sandbox"] != r.GetAllocId()+"/web":
		return nil, status.Error(codes.InvalidArgument, "that is not what it made")
	}
	return &driverpb.DestroyNetworkResponse{}, nil
}

func (b *bad) Fingerprint(_ *driverpb.FingerprintRequest, s driverpb.Driver_FingerprintServer) error {
	f := &driverpb.FingerprintResponse{Health: driverpb.HealthState_HEALTHY, HealthDescription: "as ever"}
	switch b.mode {
	case "large":
		f.HealthDescription = strings.Repeat("x", 65<<20)
	case "err":
		f.Err = "no kernel"
	case "floods":
		for i := 0; ; i++ {
			f.HealthDescription = strconv.Itoa(i)
			if err := s.Send(f); err != nil {
				return err
			}
		}
	case "ends":
		return s.Send(f)
	case "mute":
		path := filepath.Join(playedplugin.StateDir(), "was-there")
		if _, err := os.Stat(path); err == nil {
			<-s.Context().Done()
			return nil
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	if err := s.Send(f); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (b *bad) StartTask(ctx context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	switch b.mode {
	case "slow":
		time.Sleep(2 * time.Second) // it knows nothing of the task before
		path := filepath.Join(r.GetTask().GetAllocDir(), "lives")
		slow.Store(r.GetTask().GetId(), path)
		return &driverpb.StartTaskResponse{Handle: &driverpb.TaskHandle{}}, os.WriteFile(path, nil, 0o600)
	case "slower": // longer than any test
		dir := r.GetTask().GetAllocDir()
		if err := os.WriteFile(filepath.Join(dir, "begins"), nil, 0o600); err != nil {
			return nil, err
		}
		time.Sleep(time.Minute)
		return nil, os.WriteFile(filepath.Join(dir, "lives"), nil, 0o600)
	case "begins and ends":
		if err := begins(r.GetTask()); err != nil {
			return nil, err
		}
		os.Exit(7)
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "the daemon does not answer")
	case "crash in start":
		os.Exit(7)
	case "no handle", "no handle, no end":
		return &driverpb.StartTaskResponse{}, nil
	}
	return nil, status.Error(codes.Unknown, "it does not want to")
}

// begins starts the process of a task.
func begins(c *driverpb.TaskConfig) error {
	out, err := os.OpenFile(c.GetStdoutPath(), os.O_RDWR, 0) // nobody reads in these tests
	if err != nil {
		return err
	}
	cmd := exec.Command("sleep", "86399")
	cmd.Stdout, cmd.Env = out, []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.GetAllocDir(), "child"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// child starts a program that listens as long as it lives, as those do that look after tasks.
func child() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), playedplugin.Mode+"=child")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// listens is that program.
func listens() int {
	dir := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin-dir")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 1
	}
	l, err := net.Listen("unix", filepath.Join(dir, "child"))
	for err == nil {
		_, err = l.Accept()
	}
	return 1
}

// loud says very much, and goes on.
func loud() {
	for range 110 {
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 100<<10))
	}
	for {
		fmt.Fprintln(os.Stderr, "a word")
		time.Sleep(time.Millisecond)
	}
}

// slow are the tasks of the plugin that is slow, by id.
var slow sync.Map

func (b *bad) DestroyTask(_ context.Context, r *driverpb.DestroyTaskRequest) (*driverpb.DestroyTaskResponse, error) {
	if b.mode == "no handle, no end" {
		return nil, status.Error(codes.Internal, "my hands are tied")
	}
	path, there := slow.LoadAndDelete(r.GetTaskId())
	if !there {
		return nil, status.Error(codes.Unknown, "task not found for given id")
	}
	return &driverpb.DestroyTaskResponse{}, os.Remove(path.(string))
}

// Given a plugin that takes long to start a task and knows nothing of it before, when the start is given up, then the
// abort waits until it has begun, and ends it.
func TestAStartThatWasGivenUpIsEndedWhenItHasBegun(t *testing.T) {
	d, f := follows(t, "slow")
	if f.Health != driver.Healthy {
		t.Fatalf("%+v", f)
	}
	dir, id := t.TempDir(), ids.Alloc(ids.New())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err := d.Start(ctx, &driver.TaskConfig{
		Alloc:    id,
		Task:     "t",
		Attempt:  1,
		AllocDir: dir,
		TaskDir:  dir,
	})
	if err == nil {
		t.Fatal("it has started at once")
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) != 1 {
		t.Errorf("of the alloc there may be %q, %v", tasks, err)
	}
	if err := d.Abort(t.Context(), id, "t", 1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(filepath.Join(dir, "lives")); !os.IsNotExist(err) {
		t.Errorf("it lives: %v", err)
	}
	if tasks, err := d.Keeps(id); err != nil || len(tasks) > 0 {
		t.Errorf("after its end there may be %q, %v", tasks, err)
	}
}

// play is the plugin.
func play(mode string) int {
	line := playedplugin.Line
	switch mode {
	case "child":
		return listens()
	case "with a child":
		_, err := os.Stat(filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin-dir", "child"))
		if err != nil && child() != nil {
			return 1
		}
	case "loud":
		go loud()
	case "silent":
		select {}
	case "exits":
		fmt.Fprintln(os.Stderr, "a library is missing")
		return 3
	case "babbles":
		fmt.Println("Usage: plugin [options]")
		time.Sleep(time.Minute)
	case "endless line":
		fmt.Print(strings.Repeat("x", 100_000))
		time.Sleep(time.Minute)
	case "netrpc":
		line = "1|2|unix|%s|netrpc|\n"
	case "old":
		line = "1|1|unix|%s|grpc|\n"
	case "old core":
		line = "2|2|unix|%s|grpc|\n"
	}
	g := grpc.NewServer(append(playedplugin.Misbehaves(mode),
		grpc.MaxSendMsgSize(1<<30), grpc.UnknownServiceHandler(unknown))...)
	basepb.RegisterBasePluginServer(g, &bad{mode: mode})
	switch {
	case mode == "older": // answers without the services of today
	case mode == "able", strings.Contains(mode, " at "):
		driverpb.RegisterDriverServer(g, newAble())
	default:
		driverpb.RegisterDriverServer(g, &bad{mode: mode})
	}
	return playedplugin.Serve(g, line, mode != "not serving")
}

// noLauncher holds nothing: these tests come no further.
type noLauncher struct{ driver.Launcher }

func (noLauncher) Launch(context.Context, *driver.LaunchSpec) (driver.Process, error) {
	return process{}, nil
}

func (noLauncher) Abort(context.Context, ids.Alloc, string, int) error { return nil }

type process struct{ driver.Process }

func (process) Handle() driver.ProcessHandle                      { return driver.ProcessHandle{} }
func (process) Kill(context.Context, string, time.Duration) error { return nil }

// follows runs a plugin of this mode and returns what it says first; change edits its configuration.
func follows(t *testing.T, mode string, change ...func(*external.Config)) (*external.Driver, driver.Fingerprint) {
	t.Helper()
	return hears(t, mode, func(driver.Fingerprint) {}, change...)
}

// unknown plays services of which there is no description here.
func unknown(srv any, s grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(s); strings.Contains(method, ".Driver/") {
		return theOlder.answer(path.Base(method), s)
	}
	return prints(srv, s)
}

// prints plays go-plugin's service that hands over what a plugin has printed.
func prints(_ any, s grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(s); method != "/plugin.GRPCStdio/StreamStdio" {
		return status.Error(codes.Unimplemented, method)
	}
	var m emptypb.Empty
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(protowire.AppendVarint(
		protowire.AppendTag(nil, 1, protowire.VarintType), 1), 2, protowire.BytesType), "a word through the pipe\n"))
	if err := s.SendMsg(&m); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// Given a plugin that prints something once it serves, which go-plugin has go into a pipe, then that is among its
// words: somebody reads the pipe.
func TestWhatAPluginPrintsIsTaken(t *testing.T) {
	var path string
	if _, f := follows(t, "well", func(cfg *external.Config) { path = filepath.Join(cfg.Dir, "stderr") }); f.Health !=
		driver.Healthy {
		t.Fatalf("%+v", f)
	}
	for range 500 {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "a word through the pipe") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nobody has read it")
}

// hears is follows, and passes on all that the plugin says.
func hears(
	t *testing.T, mode string, hear func(driver.Fingerprint), change ...func(*external.Config),
) (*external.Driver, driver.Fingerprint) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bad")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cfg := external.Config{
		Config: pluginhost.Config{
			Block: "bad-driver",
			Path:  "/bin/sh", // the program takes its mode from the environment
			Args:  playedplugin.Args(t, mode),
			Dir:   filepath.Join(dir, "state"),
			Dirs:  hostfs.NewDirectories(log),
			Log:   log,
		},
		Launcher: noLauncher{},
	}
	for _, c := range change {
		c(&cfg)
	}
	d := external.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	g, gctx := lifecycle.NewGroup(ctx)
	first := make(chan driver.Fingerprint, 1)
	g.Go("directories", func() error { return cfg.Dirs.Run(gctx) })
	g.Go("driver", func() error {
		return d.Follow(gctx, func(f driver.Fingerprint) {
			hear(f)
			select {
			case first <- f:
			default: // the first one counts
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		for tries := 0; len(of(t, dir)) > 0; tries++ { // one that was killed takes a moment to be gone
			if tries == 500 {
				left := of(t, dir)
				t.Errorf("left behind: %v", left)
				for _, path := range left {
					if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
						_ = unix.Kill(pid, unix.SIGKILL) // it may have ended meanwhile
					}
				}
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	select {
	case f := <-first:
		return d, f
	case <-time.After(90 * time.Second):
		t.Fatal("the driver says nothing")
	}
	return nil, driver.Fingerprint{}
}

// of lists processes of a plugin of this test.
func of(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "PLUGIN_UNIX_SOCKET_DIR="+dir) {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

// Given plugins that are no drivers, or not well, when the agent starts them, then each is said to be unhealthy with
// the reason, and none is left behind.
func TestAPluginThatIsOfNoUseIsSaidToBe(t *testing.T) {
	for mode, say := range map[string]string{
		"exits":        "a library is missing",
		"babbles":      "no handshake",
		"endless line": "another language",
		"netrpc":       `it speaks "netrpc"`,
		"old":          `version "1" of the protocol`,
		"old core":     `version "2" of go-plugin's own`,
		"not serving":  "unknown service",
		"device":       "a device plugin",
		"old api":      `"v0.0.9"`,
		"name":         `"../exec"`,
		"no schema":    "what is nested in it is missing",
		"refuses":      "the moon is full",
		"crash":        "driver plugin",
		"err":          "no kernel",
		"large":        "larger than max",
		"remote":       "remote_tasks",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d, f := follows(t, mode)
			if f.Health != driver.Unhealthy || !strings.Contains(f.Description, say) {
				t.Errorf("%s: %q does not say %q", f.Health, f.Description, say)
			}
			if _, err := d.Start(t.Context(), &driver.TaskConfig{Task: "t"}); !fault.Has(err, fault.NotReady) {
				t.Errorf("a task of it: %v", err)
			}
		})
	}
}

// Given a plugin that says more than anybody wants to hear, or stops to say anything, when it is followed, then tasks
// can be started, and what it answers to that is the task's failure.
func TestAPluginsAnswerToAStartIsTheTasks(t *testing.T) {
	for mode, c := range map[string]struct {
		kind fault.Kind
		say  string
	}{
		"floods":         {fault.Invalid, "it does not want to"},
		"well":           {fault.Invalid, "it does not want to"},
		"no handle":      {fault.Invalid, "no handle"},
		"crash in start": {fault.NotReady, "driver bad"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d, f := follows(t, mode)
			if f.Health != driver.Healthy {
				t.Fatalf("%+v", f)
			}
			dir := t.TempDir()
			_, err := d.Start(t.Context(), &driver.TaskConfig{
				Alloc:    ids.Alloc(ids.New()),
				Task:     "t",
				Attempt:  1,
				AllocDir: dir,
				TaskDir:  dir,
			})
			if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("kind %v: %v", fault.KindOf(err), err)
			}
		})
	}
}

// Given a plugin that says something else of itself all the time, when it is followed for a while, then it is heard
// once a second: each word may be a write of the servers.
func TestAFloodOfWordsIsHeardSeldom(t *testing.T) {
	words := make(chan driver.Fingerprint, 10_000)
	begun := time.Now()
	d, _ := hears(t, "floods", func(f driver.Fingerprint) { words <- f })
	time.Sleep(2500 * time.Millisecond)
	most := int(time.Since(begun)/time.Second) + 1
	if n := len(words); n < 2 || n > most || d.Name() != "bad" {
		t.Errorf("%d words in %s", n, time.Since(begun))
	}
}

// Given a plugin that knows none of the capabilities, when it is asked, then it counts as one that mounts everything:
// plugins cannot say that they do not.
func TestAPluginThatSaysNothingOfMountsMountsAll(t *testing.T) {
	d, _ := follows(t, "well")
	if c := d.Info().Capabilities; c.Mounts != driver.MountAll || c.SendSignals || c.Exec {
		t.Errorf("%+v", c)
	}
	if d.Name() != "bad" {
		t.Errorf("it is called %q", d.Name())
	}
}

// Given a program that others can change, or none, when it is to be a plugin, then it is not started.
func TestAProgramThatOthersCanChangeIsNoPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		say    string
	}{
		"others write it": {func(p string) error { return os.Chmod(p, 0o757) }, "go-w"},
		"it is another's": {func(p string) error { return os.Chown(p, 65534, 0) }, "belongs to user 65534"},
		"a link leads to where others put it": {func(p string) error {
			open := filepath.Join(filepath.Dir(p), "open")
			if err := errors.Join(os.Mkdir(open, 0o700), os.Rename(p, filepath.Join(open, "real")),
				os.Symlink(filepath.Join(open, "real"), p)); err != nil {
				return err
			}
			return os.Chmod(open, 0o777)
		}, "/open"},
		"others put it there": {func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) }, "go-w " +
			os.TempDir()},
		"it is not there": {os.Remove, "there is no file"},
		"no program":      {func(p string) error { return os.Chmod(p, 0o644) }, "chmod 755"},
	} {
		t.Run(name, func(t *testing.T) {
			_, f := follows(t, "well", func(cfg *external.Config) {
				cfg.Path = filepath.Join(t.TempDir(), "plugin")
				if err := os.WriteFile(cfg.Path, []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := c.change(cfg.Path); err != nil {
					t.Fatal(err)
				}
			})
			if f.Health != driver.Unhealthy || !strings.Contains(f.Description, c.say) {
				t.Errorf("%s: %q", f.Health, f.Description)
			}
		})
	}
}

// Given a data_dir whose path is too long for a plugin's socket, when it is started, then the way out is said.
func TestALongPathIsSaidToBe(t *testing.T) {
	_, f := follows(t, "well", func(cfg *external.Config) {
		cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("d", 80))
	})
	if !strings.Contains(f.Description, "shorter data_dir") {
		t.Error(f.Description)
	}
}

// Given a plugin that ran before its machine was booted anew, or whose number somebody else has, when an agent starts,
// then nobody is taken for it or ended in its place.
func TestNobodyIsTakenForAnEarlierPlugin(t *testing.T) {
	dir := ""
	stranger := exec.Command("sleep", "86399.5")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stranger.Process.Kill(); err != nil {
			t.Errorf("the stranger has ended: %v", err)
		}
		_ = stranger.Wait() // it was killed
	})
	d, f := follows(t, "well", func(cfg *external.Config) {
		dir = cfg.Dir
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		boot, err := hostfs.BootID()
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"Name":"earlier","Address":"unix:/x","PID":%d,"Start":1,"Boot":%q}`,
			stranger.Process.Pid, boot)
		if err := os.WriteFile(filepath.Join(cfg.Dir, "process.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if f.Health != driver.Healthy || d.Name() != "bad" {
		t.Errorf("%+v, %s", f, d.Name())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", stranger.Process.Pid))
	if err != nil || strings.Contains(string(status), "State:\tZ") {
		t.Errorf("the stranger was ended: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "process.json"))
	if err != nil || strings.Contains(string(text), "earlier") {
		t.Errorf("%s, %v", text, err)
	}
}

// Given a plugin that calls itself as another driver is called, when it is started, then it is refused with the reason.
func TestAPluginThatCallsItselfLikeAnotherIsRefused(t *testing.T) {
	_, f := follows(t, "well", func(cfg *external.Config) {
		cfg.Claim = func(name string) bool { return name != "bad" }
	})
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, `it calls itself "bad", and there is another`) {
		t.Errorf("%s: %q", f.Health, f.Description)
	}
}
