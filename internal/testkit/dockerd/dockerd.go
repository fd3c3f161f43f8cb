// Package dockerd owns a Docker daemon for one test: with directories, a socket and control groups of its own, so that
// it knows nothing of another on the machine, and nothing of it is left.
package dockerd

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/port/dockerapi"
	"berth/internal/testkit/programs"
)

// Image is the name of the image that New makes: a busybox with its applets, and users root and nobody.
const Image = "berth-test/busybox:1"

// Daemon is one that a test has.
type Daemon struct {
	*dockerapi.Client
	Dir string

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	done chan error

	held *exec.Cmd // containerd, which holds the containers' processes

	network string // in which it runs, where that is not the test's
}

// Needed skips a test where there is no Docker, except where that must not be: in CI.
func Needed(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		programs.Missing(t, "Docker needs root")
	}
	programs.Need(t, "docker.io busybox-static", "dockerd", "busybox")
}

// New starts a daemon whose containers outlive it, and makes Image. args are more of its own.
func New(t testing.TB, args ...string) *Daemon {
	t.Helper()
	return begin(t, "", append([]string{"--bridge=none"}, args...))
}

// NewPublishing starts a daemon that gives containers a network of its own and publishes their ports, all within the
// network namespace that is held at a path.
func NewPublishing(t testing.TB, network string) *Daemon {
	t.Helper()
	return begin(t, network, nil)
}

func begin(t testing.TB, network string, args []string) *Daemon {
	t.Helper()
	Needed(t)
	dir, err := os.MkdirTemp("/tmp", "dk")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Client: dockerapi.New(filepath.Join(dir, "d.sock")), Dir: dir, t: t, network: network}
	d.args = append([]string{
		"--data-root", filepath.Join(dir, "root"), "--exec-root", filepath.Join(dir, "x"),
		"--pidfile", filepath.Join(dir, "pid"), "--host", "unix://" + d.Socket(),
		"--config-file", filepath.Join(dir, "none.json"), "--cgroup-parent", d.group(),
		"--containerd", d.heldAt(), "--iptables=false", "--ip6tables=false", "--live-restore",
	}, args...)
	if err := os.WriteFile(filepath.Join(dir, "none.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.remove)
	d.hold()
	d.Start()
	image, err := busybox()
	if err == nil {
		name, tag, _ := strings.Cut(Image, ":")
		err = d.Import(t.Context(), name, tag, bytes.NewReader(image), "ENV PATH=/bin", `CMD ["/bin/sh"]`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Daemon) heldAt() string { return filepath.Join(d.Dir, "c.sock") }

// hold starts containerd, as a machine's service does: it is there when the daemon is not.
func (d *Daemon) hold() {
	d.t.Helper()
	config := filepath.Join(d.Dir, "containerd.toml")
	if err := os.WriteFile(config, []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"),
		0o600); err != nil {
		d.t.Fatal(err)
	}
	d.held = exec.Command("containerd", "--config", config, "--address", d.heldAt(),
		"--root", filepath.Join(d.Dir, "c"), "--state", filepath.Join(d.Dir, "s"))
	d.held.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.held.Start(); err != nil {
		d.t.Fatal(err)
	}
	for range 600 {
		if _, err := os.Stat(d.heldAt()); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.t.Fatal("containerd does not listen")
}

func (d *Daemon) group() string { return "/berth-" + filepath.Base(d.Dir) }

// Start starts it, and returns when it answers.
func (d *Daemon) Start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", d.args...)
	if d.network != "" {
		d.cmd = exec.Command("nsenter", append([]string{"--net=" + d.network, "dockerd"}, d.args...)...)
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.done = make(chan error, 1)
	cmd, done := d.cmd, d.done
	go func() { done <- cmd.Wait() }()
	for range 600 {
		if d.Ping(context.Background()) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(d.Dir, "log")) // it is for people
	d.t.Fatalf("the daemon does not answer after a minute:\n%s", text[max(0, len(text)-4<<10):])
}

// Signal sends it a signal; with one that ends it, its end is waited for.
func (d *Daemon) Signal(s unix.Signal) {
	d.t.Helper()
	if err := unix.Kill(d.cmd.Process.Pid, s); err != nil {
		d.t.Fatal(err)
	}
	if s == unix.SIGKILL || s == unix.SIGTERM {
		<-d.done //nolint:errcheck // it was killed
		d.cmd = nil
	}
}

// PID is the daemon's.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Containers names all containers that there are.
func (d *Daemon) Containers() (names []string) {
	d.t.Helper()
	all, err := d.List(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, c := range all {
		names = append(names, strings.Join(c.Names, " "))
	}
	return names
}

func (d *Daemon) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if d.cmd == nil {
		d.Start()
	}
	_ = unix.Kill(d.cmd.Process.Pid, unix.SIGCONT) // a test may have stopped it
	all, err := d.List(ctx)
	if err != nil {
		d.t.Error(err)
	}
	for _, c := range all {
		if err := d.Remove(ctx, c.ID); err != nil {
			d.t.Error(err)
		}
	}
	d.Signal(unix.SIGTERM)
	if err := d.held.Process.Signal(unix.SIGTERM); err != nil {
		d.t.Error(err)
	}
	_ = d.held.Wait() // it ends by the signal
	d.endForgotten()
	d.unmount()
	if err := os.RemoveAll(d.Dir); err != nil {
		d.t.Error(err)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + d.group()) // the pattern is well formed
	for _, g := range append(groups, "/sys/fs/cgroup"+d.group()) {
		removeGroup(g)
	}
}

// removeGroup removes a control group with those in it, once their processes are gone, if it is there.
func removeGroup(path string) {
	inner, _ := os.ReadDir(path) // it may not be there
	for _, g := range inner {
		if g.IsDir() {
			removeGroup(filepath.Join(path, g.Name()))
		}
	}
	for range 200 {
		if err := os.Remove(path); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel tells nobody
	}
}

// endForgotten ends what holds containers that the daemon does not know any more, with their first processes. They are
// known by the socket of this daemon alone.
func (d *Daemon) endForgotten() {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("\x00-address\x00"+d.heldAt()+"\x00")) {
			continue // it has ended, or is another
		}
		dir := filepath.Dir(path)
		holder := filepath.Base(dir)
		children, _ := os.ReadFile(filepath.Join(dir, "task", holder, "children")) // it may have ended
		for _, pid := range append(strings.Fields(string(children)), holder) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				_ = unix.Kill(n, unix.SIGKILL) // it may have ended
			}
		}
	}
}

// unmount takes away what the daemon leaves mounted when it ends.
func (d *Daemon) unmount() {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		d.t.Error(err)
		return
	}
	var at []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.Dir+"/") {
			at = append(at, f[4])
		}
	}
	slices.Reverse(at)
	for _, path := range at {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			d.t.Errorf("unmount %s: %v", path, err)
		}
	}
}

// File is one of an archive.
type File struct {
	Name, Text, Link string
	Mode             int64
}

// Archive makes a tar archive of files.
func Archive(files ...File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Text)), Typeflag: tar.TypeReg}
		switch {
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
			h.Size = 0
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, f.Text); err != nil && h.Size > 0 {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// busybox packs the machine's.
func busybox() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets of busybox: %w", err)
	}
	files := []File{
		{Name: "bin/", Mode: 0o755},
		{Name: "bin/busybox", Text: string(program), Mode: 0o755},
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/passwd", Text: "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n" +
			"image:x:4242:4243::/:/bin/sh\n", Mode: 0o644},
		{Name: "etc/group", Text: "root:x:0:\nnogroup:x:65534:\nimage:x:4243:\n", Mode: 0o644},
		{Name: "tmp/", Mode: 0o1777},
	}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			files = append(files, File{Name: "bin/" + name, Link: "busybox", Mode: 0o777})
		}
	}
	archive, err := Archive(files...)
	return slices.Clip(archive), err
}

// PIDOf is the main process of a container.
func (d *Daemon) PIDOf(name string) int {
	d.t.Helper()
	c, err := d.Inspect(context.Background(), name)
	if err != nil {
		d.t.Fatal(err)
	}
	return c.State.Pid
}
