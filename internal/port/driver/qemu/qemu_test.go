package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/testkit/reference"
)

// launcher keeps what it is to launch, and how it is ended.
type launcher struct {
	driver.Launcher
	spec   *driver.LaunchSpec
	killed string
}

func (l *launcher) Launch(_ context.Context, spec *driver.LaunchSpec) (driver.Process, error) {
	l.spec = spec
	return process{l: l}, nil
}

func (l *launcher) Attach(context.Context, driver.ProcessHandle) (driver.Process, error) {
	return process{l: l}, nil
}

type process struct {
	driver.Process
	l *launcher
}

func (process) Handle() driver.ProcessHandle {
	return driver.ProcessHandle{Task: "vm", Socket: "/run/s", PID: 7}
}

func (p process) Kill(_ context.Context, signal string, _ time.Duration) error {
	p.l.killed = signal
	return nil
}

// with has a program for the driver that says a version, in a directory that tasks see.
func with(t *testing.T, cfg Config, script string) (*Driver, *launcher) {
	t.Helper()
	l := &launcher{}
	cfg.Search = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.Search, Emulator), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return New(cfg, exec.New(exec.Config{System: []string{cfg.Search}}, l)), l
}

const speaks = "echo 'QEMU emulator version 7.2.22 (Debian)'\n"

func config(t *testing.T, options map[string]any) *driver.TaskConfig {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"vm/local/a", "vm/local/a.img", "alloc/a,readonly=on"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &driver.TaskConfig{
		Alloc:     ids.Alloc(ids.New()),
		Task:      "vm",
		User:      "nobody",
		Config:    options,
		AllocDir:  filepath.Join(dir, "alloc"),
		TaskDir:   filepath.Join(dir, "vm"),
		Resources: driver.Resources{MemoryMB: 512},
		Ports: []driver.Port{
			{Label: "web", Value: 20000, To: 8080, HostIP: "10.0.0.1"},
			{Label: "six", Value: 20001, HostIP: "fd00::1"},
		},
	}
}

func TestWhatQemuIsCalledWith(t *testing.T) {
	const machine = "-machine pc -m 384M -nographic -no-user-config "
	const slow = " -accel tcg,tb-size=64"
	for name, c := range map[string]struct {
		options map[string]any
		change  func(*driver.TaskConfig)
		want    string
	}{
		"an image": {map[string]any{"image_path": "local/a.img"}, nil,
			machine + "-drive file=/local/a.img,if=ide" + slow},
		"a name with options in it": {map[string]any{"image_path": "/alloc/a,readonly=on"}, nil,
			machine + "-drive file=/alloc/a,,readonly=on,if=ide" + slow},
		"an interface, the kernel's help, words of the job": {
			map[string]any{"image_path": "local/a", "drive_interface": "virtio", "accelerator": "kvm",
				"args": []any{"-smp", "2"}}, nil,
			machine + "-drive file=/local/a,if=virtio -accel kvm -cpu host -smp 2"},
		"memory to spare": {map[string]any{"image_path": "local/a"},
			func(c *driver.TaskConfig) { c.Resources.MemoryMaxMB = 700 },
			strings.Replace(machine, "384", "512", 1) + "-drive file=/local/a,if=ide" + slow},
		"memory without bound": {map[string]any{"image_path": "local/a"},
			func(c *driver.TaskConfig) { c.Resources.MemoryMaxMB = -1 },
			strings.Replace(machine, "384", "512", 1) + "-drive file=/local/a,if=ide" + slow},
		"a port of the node": {map[string]any{"image_path": "local/a", "port_map": map[string]any{"web": 80}}, nil,
			machine + "-drive file=/local/a,if=ide" + slow + " -netdev user,id=user.0,hostfwd=tcp:10.0.0.1:20000-:80," +
				"hostfwd=udp:10.0.0.1:20000-:80 -device virtio-net,netdev=user.0"},
		"a port of the alloc's network, in a block": {
			map[string]any{"image_path": "local/a", "port_map": []any{map[string]any{"web": "80"}}},
			func(c *driver.TaskConfig) { c.Network = &driver.Network{Namespace: "/run/netns/a"} },
			machine + "-drive file=/local/a,if=ide" + slow + " -netdev user,id=user.0,hostfwd=tcp::8080-:80," +
				"hostfwd=udp::8080-:80 -device virtio-net,netdev=user.0"},
		"both sockets": {map[string]any{"image_path": "local/a", "graceful_shutdown": true, "guest_agent": true}, nil,
			machine + "-drive file=/local/a,if=ide" + slow + " -qmp unix:/local/qemu-monitor.sock,server=on,wait=off" +
				" -chardev socket,path=/local/qa.sock,server=on,wait=off,id=qga0 -device virtio-serial" +
				" -device virtserialport,chardev=qga0,name=org.qemu.guest_agent.0"},
	} {
		d, l := with(t, Config{}, speaks)
		cfg := config(t, c.options)
		if c.change != nil {
			c.change(cfg)
		}
		if _, err := d.Start(t.Context(), cfg); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(l.spec.Argv[1:], " "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		sees := slices.Contains(l.spec.Isolate.Devices, driver.Device{HostPath: "/dev/kvm", TaskPath: "/dev/kvm",
			Permissions: "rw"})
		if sees != (c.options["accelerator"] == "kvm") {
			t.Errorf("%s: its devices are %v", name, l.spec.Isolate.Devices)
		}
	}
}

// Given options that are none, ports that there are not, memory that does not do, then the task is refused by name.
func TestWhatQemuIsNotCalledWith(t *testing.T) {
	for name, c := range map[string]struct {
		options map[string]any
		change  func(*driver.TaskConfig)
	}{
		"image_path":    {options: map[string]any{}},
		`"emulator"`:    {options: map[string]any{"image_path": "local/a", "emulator": "qemu-system-arm"}},
		"accelerator":   {options: map[string]any{"image_path": "local/a", "accelerator": "xen"}},
		"port_map.ssh":  {options: map[string]any{"image_path": "local/a", "port_map": map[string]any{"ssh": 22}}},
		"is no port":    {options: map[string]any{"image_path": "local/a", "port_map": map[string]any{"web": 70000}}},
		"of IPv4 alone": {options: map[string]any{"image_path": "local/a", "port_map": map[string]any{"six": 22}}},
		"itself needs": {map[string]any{"image_path": "local/a"},
			func(c *driver.TaskConfig) { c.Resources.MemoryMB = 128 }},
		"allows images":                   {options: map[string]any{"image_path": "/srv/a.img"}},
		`"../../a" is n`:                  {options: map[string]any{"image_path": "../../a"}},
		`"local/b" is not in the task's`:  {options: map[string]any{"image_path": "local/b"}},
		`"/alloc/b" is not in the task's`: {options: map[string]any{"image_path": "/alloc/b"}},
	} {
		d, l := with(t, Config{}, speaks)
		cfg := config(t, c.options)
		if c.change != nil {
			c.change(cfg)
		}
		if _, err := d.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) || l.spec != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given directories for images in the agent's configuration, then a task sees of them the image that it names, at its
// path; not by a name or a link that leads elsewhere.
func TestWhichImagesOfTheNodeATaskMayHave(t *testing.T) {
	images, outside := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(images, "a.img"), filepath.Join(outside, "b.img")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"inside.img": "a.img", "leads.img": filepath.Join(outside, "b.img")} {
		if err := os.Symlink(to, filepath.Join(images, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"a.img":       filepath.Join(images, "a.img"),
		"inside.img":  filepath.Join(images, "a.img"),
		"leads.img":   "allows images",
		"missing.img": "is not on this node",
	} {
		d, l := with(t, Config{Images: []string{images}}, speaks)
		at := images + "/" + path
		_, err := d.Start(t.Context(), config(t, map[string]any{"image_path": at, "args": []any{"-snapshot"}}))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if !slices.Contains(l.spec.Isolate.Binds, driver.Mount{Source: want, Target: at, ReadOnly: true}) {
			t.Errorf("%s: %+v", path, l.spec.Isolate.Binds)
		}
	}
}

// Given an image of the node, when a machine that would write to it is started, then it is refused with the ways out
// unless the agent lets machines write there, also by another name of it, and not by a link out of there.
func TestWhoWritesToAnImageOfTheNode(t *testing.T) {
	images, own := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(images, "a.img"), filepath.Join(own, "b.img")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{
		filepath.Join(images, "to-b.img"): filepath.Join(own, "b.img"),
		filepath.Join(own, "to-a.img"):    filepath.Join(images, "a.img"),
	} {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for at, writes := range map[string]bool{
		images + "/a.img":    false,
		images + "/to-b.img": true,
		own + "/b.img":       true,
		own + "/to-a.img":    false,
	} {
		d, l := with(t, Config{Images: []string{images}, Writable: []string{own}}, speaks)
		_, err := d.Start(t.Context(), config(t, map[string]any{"image_path": at}))
		if !writes {
			if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), "-snapshot") ||
				!strings.Contains(err.Error(), "writable_image_paths") {
				t.Errorf("%s: %v", at, err)
			}
			continue
		}
		want := driver.Mount{Source: filepath.Join(own, "b.img"), Target: at}
		if err != nil || !slices.Contains(l.spec.Isolate.Binds, want) {
			t.Errorf("%s: %v, %+v", at, err, l.spec)
		}
	}
}

func TestANodeSaysWhichQemuItHasOrWhatIsMissing(t *testing.T) {
	d, _ := with(t, Config{}, speaks)
	f := d.Fingerprint(t.Context())
	if f.Health != driver.Healthy || f.Attributes["driver.qemu.version"] != "7.2.22" ||
		f.Attributes["driver.qemu"] != "1" || f.Attributes["driver.exec"] != "" {
		t.Errorf("with a program: %+v", f)
	}
	d = New(Config{Search: t.TempDir()}, exec.New(exec.Config{}, nil))
	f = d.Fingerprint(t.Context())
	if f.Health != driver.Undetected || !strings.Contains(f.Description, "install qemu") {
		t.Errorf("without: %+v", f)
	}
	d, _ = with(t, Config{}, "echo something else\n")
	f = d.Fingerprint(t.Context())
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, "it says none") {
		t.Errorf("with another: %+v", f)
	}
}

// monitored is a machine whose monitor answers as answers says to each command, found again by an agent.
func monitored(t *testing.T, answers map[string]string) (driver.Task, *launcher, func() []string) {
	t.Helper()
	d, l := with(t, Config{Log: slog.New(slog.DiscardHandler)}, speaks)
	cfg := config(t, map[string]any{"image_path": "local/a", "graceful_shutdown": true})
	started, err := d.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Recover(t.Context(), started.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if answers == nil {
		return found, l, nil
	}
	socket, err := net.Listen("unix", filepath.Join(cfg.TaskDir, monitor))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	heard := make(chan []string, 1)
	go func() {
		var commands []string
		defer func() { heard <- commands }()
		conn, err := socket.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var m struct{ Execute string }
			if json.Unmarshal(lines.Bytes(), &m) != nil || answers[m.Execute] == "" {
				return
			}
			commands = append(commands, m.Execute)
			fmt.Fprintln(conn, answers[m.Execute])
		}
	}()
	return found, l, func() []string { return <-heard }
}

// Given a machine that is to shut down by itself, when its task is stopped by an agent that found it again, then its
// power button is pressed, and the process is not sent what would end it; it is where the monitor is none.
func TestAMachineIsAskedToShutDown(t *testing.T) {
	const done = `{"return": {}}`
	for name, c := range map[string]struct {
		answers map[string]string
		killed  string
	}{
		"it is asked": {map[string]string{"qmp_capabilities": done,
			"system_powerdown": "{\"event\": \"POWERDOWN\"}\n" + done}, unheard},
		"it refuses":       {map[string]string{"qmp_capabilities": `{"error": {"desc": "no"}}`}, "SIGTERM"},
		"it hangs up":      {map[string]string{"qmp_capabilities": done}, "SIGTERM"},
		"it speaks rot":    {map[string]string{"qmp_capabilities": "rot"}, "SIGTERM"},
		"there is nothing": {nil, "SIGTERM"},
	} {
		task, l, heard := monitored(t, c.answers)
		if err := task.Stop(t.Context(), "SIGTERM", time.Minute); err != nil || l.killed != c.killed {
			t.Errorf("%s: it is ended by %q, %v", name, l.killed, err)
		}
		if l.killed == unheard && !slices.Equal(heard(), []string{"qmp_capabilities", "system_powerdown"}) {
			t.Errorf("%s: its monitor heard something else", name)
		}
	}
	task, l, _ := monitored(t, nil)
	if err := task.Signal(t.Context(), "SIGHUP"); !fault.Has(err, fault.Unsupported) {
		t.Errorf("a signal: %v", err)
	}
	if _, err := task.Exec(t.Context(), driver.ExecRequest{}); !fault.Has(err, fault.Unsupported) || l.killed != "" {
		t.Errorf("a command: %v", err)
	}
}

func TestThePageOfTheDriverIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	schema := New(Config{}, exec.New(exec.Config{}, nil)).Info().Schema
	rows := p.Section(Name).Rows
	p.Same("an option of qemu", reference.Column(rows, 0), slices.Sorted(maps.Keys(schema)))
	types := map[taskconfig.Kind]string{taskconfig.Text: "text", taskconfig.Texts: "list of texts",
		taskconfig.Number: "number", taskconfig.Boolean: "true or false", taskconfig.Map: "map of texts"}
	for _, row := range rows {
		if f := schema[reference.Plain(row[0])]; row[1] != types[f.Kind] ||
			f.Required != strings.HasPrefix(row[2], "required") {
			t.Errorf("the page says %q, it is %q, required: %v", row, types[f.Kind], f.Required)
		}
	}
}
