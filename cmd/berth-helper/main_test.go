package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// What of this module it is built from is held by its closure in tools/arch/floors.txt.
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

func TestWrongUseIsSaidSo(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"mount", "umount", "/nowhere"}, {"shim"}, {"shim", "a", "b"}} {
		if code := run(args); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if code := run([]string{"version"}); code != 0 {
		t.Errorf("version: exit code %d", code)
	}
}
