package shim_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/java"
	"berth/internal/testkit/programs"
)

// Given a class, when the driver java runs it, then it prints, in its own root, and ends with its code; and the task is
// found again by its handle.
func TestAJavaClassRunsInARootOfItsOwn(t *testing.T) {
	programs.Need(t, "openjdk-17-jdk-headless", "javac")
	d := java.New(exec.New(exec.Config{}, newLauncher(t)), "")
	if f := d.Fingerprint(t.Context()); f.Health != driver.Healthy {
		t.Fatal(f.Description)
	}
	tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "app", "")
	source := filepath.Join(tc.TaskDir, "local", "Main.java")
	program := `public class Main { public static void main(String[] a) {
		System.out.println(a[0] + " " + System.getProperty("k") + " " + new java.io.File("/root/.ssh").exists() + " " +
			new java.io.File(".").getAbsoluteFile().getParent()); System.exit(7); } }`
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	compile := osexec.CommandContext(t.Context(), "javac", "--release", "17", source)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	tc.Resources.MemoryMB = 256
	tc.Config = map[string]any{
		"class":       "Main",
		"class_path":  "/local",
		"args":        []any{"hello"},
		"jvm_options": []any{"-Dk=v", "-Xmx64m"},
		"work_dir":    "/tmp",
	}
	task, err := d.Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Recover(short(t), task.Handle())
	if err != nil {
		t.Fatal(err)
	}
	exit, err := found.Wait(short(t))
	if err != nil || exit.ExitCode != 7 {
		t.Errorf("it ends with %+v, %v", exit, err)
	}
	if err := found.Stop(short(t), "", 0); err != nil {
		t.Error(err)
	}
	said, err := os.ReadFile(filepath.Join(tc.Logs.Dir, "app.stdout.0"))
	if err != nil || strings.TrimSpace(string(said)) != "hello v false /tmp" {
		t.Errorf("it says %q, %v", said, err)
	}
}
