package taskhooks_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/hook"
	"berth/internal/client/localstate"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/port/driver"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
)

// supervision is a supervisor on a data directory of its own, with a real registry.
type supervision struct {
	*taskhooks.CSIPluginSupervisor
	t       *testing.T
	control *rememberingControl
	events  []string
}

func supervise(t *testing.T) *supervision {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir, err := os.MkdirTemp("", "s") // a short one: paths of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	store, err := kv.Open(filepath.Join(dir, "state"), localstate.Codec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range mountsBeneath(t, dir) {
			if err := unix.Unmount(m.Path, 0); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(store.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	registry, err := dynamicplugins.Open(store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &supervision{
		t:                   t,
		control:             &rememberingControl{},
		CSIPluginSupervisor: &taskhooks.CSIPluginSupervisor{DataDir: dir, Registry: registry},
	}
}

func mountsBeneath(t *testing.T, dir string) []hostfs.Mount {
	t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	all := table.Beneath(dir)
	slices.Reverse(all)
	return all
}

// task is a plugin's task in an alloc, under a driver that mounts all or nothing.
func (s *supervision) task(id ids.Alloc, role string, mounts driver.MountConfig) *hook.Task {
	return &hook.Task{
		Alloc:      &alloc.Alloc{ID: id},
		Control:    s.control,
		DriverInfo: driver.Info{Capabilities: driver.Capabilities{Mounts: mounts}},
		Emit:       func(e *alloc.TaskEvent) { s.events = append(s.events, e.Type+": "+e.DisplayMessage) },
		Task: &job.Task{Name: "plugin", CSIPluginConfig: &job.CSIPluginConfig{
			ID:                  "disk",
			Type:                role,
			MountDir:            "/csi",
			StagePublishBaseDir: "/local/csi",
			HealthTimeout:       7 * time.Second,
			ControllerScope:     "node",
		}},
	}
}

func (s *supervision) base() string { return csimanager.HostBase(s.DataDir, "disk") }

func (s *supervision) socketDir(id ids.Alloc) string {
	return filepath.Join(s.DataDir, "csi", "sock", ids.Segment(string(id), "plugin"))
}

func (s *supervision) prestart(task *hook.Task) {
	s.t.Helper()
	if err := s.Prestart(s.t.Context(), task); err != nil {
		s.t.Fatal(err)
	}
}

func (s *supervision) stop(task *hook.Task) {
	s.t.Helper()
	if err := s.Stop(s.t.Context(), task); err != nil {
		s.t.Fatal(err)
	}
}

// shared reports whether a path is a shared mount of its own.
func (s *supervision) shared(path string) bool {
	for _, m := range mountsBeneath(s.t, path) {
		if m.Path == path {
			return m.Shared
		}
	}
	return false
}

func TestAPluginUnderADriverThatMountsSeesItsOwnPaths(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginMonolith, driver.MountAll)
	s.prestart(task)
	want := hook.Output{
		Env:                 map[string]string{"CSI_ENDPOINT": "unix:///csi/csi.sock"},
		CSIPluginNode:       true,
		RestartWithoutLimit: true,
		Mounts: []driver.Mount{{Source: s.socketDir("a1"), Target: "/csi"},
			{Source: s.base(), Target: "/local/csi", Propagation: "bidirectional"}},
	}
	if !reflect.DeepEqual(task.Out, want) {
		t.Errorf("got  %+v\nwant %+v", task.Out, want)
	}
	if !s.shared(s.base()) {
		t.Error("what the plugin mounts would not appear on the node: its base directory is not shared")
	}
	for _, dir := range []string{s.socketDir("a1"), s.base()} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	s.prestart(s.task("a1", job.PluginMonolith, driver.MountAll)) // a restart of the task
	if n := len(mountsBeneath(t, s.DataDir)); n != 1 {
		t.Errorf("%d mounts after a restart of the task, want one", n)
	}
	s.stop(task)
}

func TestAPluginUnderADriverThatMountsNothingIsGivenTheNodesPaths(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginNode, driver.MountNone)
	task.Out.Env = map[string]string{"KEPT": "yes"}
	s.prestart(task)
	socket := filepath.Join(s.socketDir("a1"), "csi.sock")
	want := hook.Output{
		Env:                 map[string]string{"KEPT": "yes", "CSI_ENDPOINT": "unix://" + socket},
		RestartWithoutLimit: true,
	}
	if !reflect.DeepEqual(task.Out, want) {
		t.Errorf("got %+v", task.Out)
	}
	if n := len(mountsBeneath(t, s.DataDir)); n != 0 {
		t.Errorf("%d mounts for a plugin in the node's own tree", n)
	}
	if info := s.declared(); info.Socket != socket || info.HostBase != s.base() || info.TaskBase != s.base() {
		t.Errorf("declared %+v", info)
	}
	s.stop(task)
}

// declared is the one instance that the registry knows.
func (s *supervision) declared() dynamicplugins.Info {
	s.t.Helper()
	all := s.Registry.List()
	if len(all) != 1 || all[0].Role != plugin.RoleNode || all[0].Plugin != "disk" {
		s.t.Fatalf("declared %+v", all)
	}
	return all[0]
}

func TestAControllerNeedsNoMountsOfVolumes(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginController, driver.MountAll)
	task.User = "4321:8765"
	s.prestart(task)
	if u, err := os.Stat(s.socketDir("a1")); err != nil || u.Sys().(*syscall.Stat_t).Uid != 4321 ||
		u.Sys().(*syscall.Stat_t).Gid != 8765 {
		t.Errorf("the directory of its socket: %+v, %v", u, err)
	}
	if want := []driver.Mount{{Source: s.socketDir("a1"), Target: "/csi"}}; !reflect.DeepEqual(task.Out.Mounts, want) ||
		task.Out.CSIPluginNode {
		t.Errorf("got %+v", task.Out)
	}
	if s.shared(s.base()) {
		t.Error("its base directory is a mount")
	}
	s.stop(task)
}

func TestAnInstanceIsDeclaredInItsRolesAndWithdrawn(t *testing.T) {
	for role, want := range map[string][]plugin.Role{job.PluginController: {plugin.RoleController},
		job.PluginNode:     {plugin.RoleNode},
		job.PluginMonolith: {plugin.RoleController, plugin.RoleNode}} {
		s := supervise(t)
		task := s.task("a1", role, driver.MountAll)
		s.prestart(task)
		var got []plugin.Role
		for _, i := range s.Registry.List() {
			got = append(got, i.Role)
			if i.Plugin != "disk" || i.Alloc != "a1" || i.Task != "plugin" || i.Scope != plugin.ScopeNode ||
				i.HealthTimeout != 7*time.Second ||
				i.Socket != filepath.Join(s.socketDir("a1"), "csi.sock") || i.HostBase != s.base() ||
				i.TaskBase != "/local/csi" || i.Declared.IsZero() {
				t.Errorf("%s: declared %+v", role, i)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: declared as %q", role, got)
		}
		s.stop(task)
		if left := s.Registry.List(); len(left) > 0 {
			t.Errorf("%s: left %+v", role, left)
		}
	}
}

// A stale socket would let the agent dial nobody; one of a task that went on under a restarted agent is alive.
func TestAStaleSocketIsRemovedAndALiveOneKept(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginNode, driver.MountAll)
	s.prestart(task)
	socket := filepath.Join(s.socketDir("a1"), "csi.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	again := s.task("a1", job.PluginNode, driver.MountAll)
	again.Restored = true
	s.prestart(again)
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket of a plugin that runs is gone: %v", err)
	}
	s.prestart(s.task("a1", job.PluginNode, driver.MountAll))
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the stale socket is there: %v", err)
	}
	s.stop(task)
}

func TestStopLeavesNothingButWhatOthersNeed(t *testing.T) {
	s := supervise(t)
	old, next := s.task("a1", job.PluginNode, driver.MountAll), s.task("a2", job.PluginNode, driver.MountAll)
	s.prestart(old)
	s.prestart(next)
	socket := filepath.Join(s.socketDir("a1"), "csi.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.stop(old)
	if _, err := os.Lstat(s.socketDir("a1")); !os.IsNotExist(err) {
		t.Errorf("the socket's directory is left: %v", err)
	}
	if !s.shared(s.base()) {
		t.Fatal("the base directory was taken from the instance that goes on")
	}
	volume := filepath.Join(s.base(), "v")
	if err := errors.Join(os.Mkdir(volume, 0o700), unix.Mount("tmpfs", volume, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	s.stop(next)
	if !s.shared(s.base()) || len(mountsBeneath(t, s.base())) != 2 {
		t.Error("a volume that is still published lost the mount that it lies in")
	}
	if err := unix.Unmount(volume, 0); err != nil {
		t.Fatal(err)
	}
	s.stop(next) // again: nothing is there to be withdrawn any more
	if left := mountsBeneath(t, s.DataDir); len(left) > 0 {
		t.Errorf("left mounted: %+v", left)
	}
	if _, err := os.Stat(s.base()); err != nil {
		t.Errorf("the base directory belongs to the node keeper, it was removed: %v", err)
	}
}

func TestADataDirThatIsTooLongIsRefusedInBytes(t *testing.T) {
	s := supervise(t)
	s.DataDir = filepath.Join(s.DataDir, strings.Repeat("x", 100))
	err := s.Prestart(t.Context(), s.task("a1", job.PluginNode, driver.MountAll))
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "bytes shorter") {
		t.Errorf("got %v", err)
	}
	if len(s.Registry.List()) > 0 {
		t.Error("it was declared all the same")
	}
}

func TestTheTaskHearsOfItsPluginsHealth(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginNode, driver.MountAll)
	s.prestart(task)
	info := s.declared()
	s.Health(info, true, "")
	s.Health(info, false, "no answer")
	s.Timeout(t.Context(), info, "no socket")
	other := info
	other.Alloc = "somebody else"
	s.Health(other, true, "")
	s.Timeout(t.Context(), other, "no socket")
	want := []string{alloc.EventPluginHealthy + ": plugin: disk (node role)",
		alloc.EventPluginFailing + ": plugin: disk (node role): no answer"}
	if !slices.Equal(s.events, want) || !slices.Equal(s.control.did, []string{"restart"}) {
		t.Errorf("events %q, done to the task %q", s.events, s.control.did)
	}
	s.stop(task)
	s.Health(info, true, "")
	s.Timeout(context.WithoutCancel(t.Context()), info, "no socket")
	if len(s.events) != 2 || len(s.control.did) != 1 {
		t.Errorf("after its end: %q, %q", s.events, s.control.did)
	}
}

func TestATaskThatIsNoPluginIsLeftAlone(t *testing.T) {
	s := supervise(t)
	task := s.task("a1", job.PluginNode, driver.MountAll)
	task.Task.CSIPluginConfig = nil
	s.prestart(task)
	s.stop(task)
	if !reflect.DeepEqual(task.Out, hook.Output{}) || len(s.Registry.List()) > 0 {
		t.Errorf("got %+v and %+v", task.Out, s.Registry.List())
	}
}

// TestAFileBesideAPluginsSocketNeverStopsItsEnd: it is none of ours, so it is kept, and said.
func TestAFileBesideAPluginsSocketNeverStopsItsEnd(t *testing.T) {
	s := supervise(t)
	task := s.task("a", job.PluginNode, driver.MountAll)
	s.prestart(task)
	stray := filepath.Join(s.socketDir("a"), "core.4711")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.stop(task)
	if _, err := os.Lstat(stray); err != nil {
		t.Errorf("what is not ours was removed: %v", err)
	}
	if len(s.Registry.List()) != 0 || s.shared(s.base()) {
		t.Error("the instance, or its base directory, is left")
	}
	if got := strings.Join(s.events, "\n"); !strings.Contains(got, "core.4711") {
		t.Errorf("events: %s", got)
	}
}

// Given a plugin's task whose process ends before it served, then the registry says why: of Berth's own plugin by the
// last line of its standard error, cut to a bound, and of another one by the command that shows it; what ended after it
// had served, or may have, says nothing, and the next start keeps what is known.
func TestAPluginThatEndsBeforeItServesSaysWhy(t *testing.T) {
	s := supervise(t)
	s.Own = func(t *hook.Task) bool { return t.Alloc.Namespace == ids.ReservedNamespace }
	own := s.task("own", job.PluginMonolith, driver.MountNone)
	own.Alloc.Namespace = ids.ReservedNamespace
	dir := allocdir.New(filepath.Join(s.DataDir, "alloc"), own.Alloc.ID)
	own.Dir = dir.Path()
	says := func(task *hook.Task, want string) {
		t.Helper()
		if err := s.Exited(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		roles := 0
		for _, i := range s.Registry.List() {
			if i.Alloc == task.Alloc.ID {
				roles++
				if i.Ended != want {
					t.Errorf("role %s of %s says %q, want %q", i.Role, i.Alloc, i.Ended, want)
				}
			}
		}
		if roles == 0 {
			t.Error("nothing is declared")
		}
	}
	s.prestart(own)
	says(own, "to see why: berth alloc logs -stderr own plugin") // it wrote nothing
	if err := os.MkdirAll(dir.LogDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir.LogDir(), "plugin.stderr.0"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("level=INFO msg=x\nError: mount it on /v\n\n")
	says(own, "Error: mount it on /v")
	s.prestart(own)
	says(own, "Error: mount it on /v")
	write("one\n" + strings.Repeat("x", 5000) + "\n")
	says(own, strings.Repeat("x", 1024))
	s.prestart(own)
	s.Health(s.Registry.List()[0], true, "")
	says(own, "")
	own.Restored = true
	s.prestart(own)
	says(own, "")
	s.stop(own)

	other := s.task("other", job.PluginNode, driver.MountNone)
	dir = allocdir.New(filepath.Join(s.DataDir, "alloc"), other.Alloc.ID)
	other.Dir = dir.Path()
	if err := os.MkdirAll(dir.LogDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	write("Error: the password is sesame\n")
	s.prestart(other)
	says(other, "to see why: berth alloc logs -stderr other plugin")
	s.stop(other)
}
