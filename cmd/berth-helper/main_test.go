package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// build builds the program as it is embedded in berth.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth-helper")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestItIsSmallStaticAndBuiltFromLittle(t *testing.T) {
	path := build(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3<<20 {
		t.Errorf("it has %d bytes, the limit is 3 MiB: one runs per alloc", info.Size())
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libs, err := program.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("it needs libraries: %v, %v", libs, err)
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"golang.org/x/sys/unix", "berth/internal/base/ids", "berth/internal/base/fault", "berth/internal/base/lifecycle", "berth/internal/shimproto", "berth/internal/shimproto/cgroup"}
	for _, pkg := range strings.Fields(string(out)) {
		ok := strings.HasPrefix(pkg, "berth/cmd/berth-helper")
		for _, a := range allowed {
			ok = ok || pkg == a
		}
		if !ok {
			t.Errorf("it imports %s: every package here is paid for once per alloc", pkg)
		}
	}
	std, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"net", "net/http", "encoding/json", "crypto/tls", "log/slog"} {
		for _, pkg := range strings.Fields(string(std)) {
			if pkg == heavy {
				t.Errorf("it links %s, which costs memory in every shim", heavy)
			}
		}
	}
}

func TestTheMountRole(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	program := build(t)
	run := func(files []*os.File, args ...string) (map[string]any, int) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"mount"}, args...)...)
		cmd.ExtraFiles = files
		out, err := cmd.Output()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		result := map[string]any{}
		if len(out) > 0 {
			if err := json.Unmarshal(out, &result); err != nil {
				t.Fatalf("%v answers %q: %v", args, out, err)
			}
		}
		return result, cmd.ProcessState.ExitCode()
	}
	dir, source := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it is gone when the test went well
	if r, code := run(nil, "-deadline=10s", "statfs", dir); code != 0 || r["ok"] != true || r["blocks"].(float64)*r["block_size"].(float64) != 1<<20 || r["type"].(float64) != unix.TMPFS_MAGIC {
		t.Errorf("statfs: %v, %d", r, code)
	}
	busy, err := os.Create(filepath.Join(dir, "busy"))
	if err != nil {
		t.Fatal(err)
	}
	if r, code := run(nil, "umount", dir); code != 1 || r["ok"] != false || r["errno"].(float64) != float64(unix.EBUSY) {
		t.Errorf("umount of a busy mount: %v, %d", r, code)
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), `li"nk`)
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if r, code := run(nil, "umount", link); code != 1 || r["errno"].(float64) != float64(unix.EINVAL) {
		t.Errorf("umount by a link: %v, %d", r, code)
	}
	if r, code := run(nil, "umount", dir); code != 0 || r["ok"] != true {
		t.Errorf("umount: %v, %d", r, code)
	}
	from, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := os.WriteFile(filepath.Join(source, "f"), []byte("seen"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, code := run([]*os.File{from, to}, "bind", "ro"); code != 0 || r["ok"] != true {
		t.Fatalf("bind: %v, %d", r, code)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "seen" {
		t.Errorf("through the bind: %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g"), nil, 0o644); err == nil {
		t.Error("the read-only bind can be written")
	}
	if r, code := run(nil, "umount-lazy", dir); code != 0 {
		t.Errorf("lazy umount: %v, %d", r, code)
	}
	for _, args := range [][]string{{}, {"umount"}, {"-deadline=x", "umount", "/"}, {"remount", "/"}, {"bind", "rw"}} {
		if _, code := run(nil, args...); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

func TestWrongUseIsSaidSo(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"shim"}, {"shim", "a", "b"}} {
		if code := run(args); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if code := run([]string{"version"}); code != 0 {
		t.Errorf("version: exit code %d", code)
	}
}
