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

// Given classes, archives, agents and options of the node, named by the job or by the environment that it gives, when
// the Java machine starts, then it finds none of them, and is the task's user.
func TestAJavaMachineReachesNothingOfTheNode(t *testing.T) {
	programs.Need(t, "openjdk-17-jdk-headless", "javac", "jar")
	d := java.New(exec.New(exec.Config{}, newLauncher(t)), "")
	if f := d.Fingerprint(t.Context()); f.Health != driver.Healthy {
		t.Fatal(f.Description)
	}
	dir := tempDir(t)
	program := `public class Main { public static void main(String[] a) throws Exception {
		for (String l : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/status")))
			if (l.startsWith("Uid:") || l.startsWith("CapEff:") || l.startsWith("NoNewPrivs:")) System.out.println(l); }
		public static void premain(String a) { System.out.println("premain"); } }`
	for name, text := range map[string]string{
		"Main.java": program, "manifest": "Premain-Class: Main\n", "options": "Main",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "chmod", "0755", dir)
	tool(t, "javac", "--release", "17", filepath.Join(dir, "Main.java"))
	agent := filepath.Join(dir, "agent.jar")
	tool(t, "jar", "cfm", agent, filepath.Join(dir, "manifest"), "-C", dir, "Main.class")
	inside := map[string]any{"class": "Main", "class_path": "/local/agent.jar"}
	for name, c := range map[string]struct {
		config map[string]any
		env    string
		code   int
		says   string
	}{
		"its own": {config: inside, env: "-javaagent:/local/agent.jar",
			says: "premain\nUid:\t65534\t65534\t65534\t65534\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n"},
		"a class":   {map[string]any{"class": "Main", "class_path": dir}, "", 1, "find or load main class Main"},
		"a jar":     {map[string]any{"jar_path": agent}, "", 1, "Unable to access jarfile"},
		"options":   {map[string]any{"class": "@" + dir + "/options"}, "", 1, "could not open"},
		"its agent": {inside, "-javaagent:" + agent, 1, "Error opening zip file"},
	} {
		tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "app", "")
		tool(t, "cp", agent, filepath.Join(tc.TaskDir, "local"))
		tc.User = "nobody"
		tc.Resources.MemoryMB = 256
		tc.Config = c.config
		if c.env != "" {
			tc.Env["JAVA_TOOL_OPTIONS"] = c.env
		}
		task, err := d.Start(short(t), tc)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := task.Wait(short(t))
		if err != nil || exit.ExitCode != c.code {
			t.Errorf("%s: it ends with %+v, %v", name, exit, err)
		}
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
		stdout, err := os.ReadFile(filepath.Join(tc.Logs.Dir, "app.stdout.0"))
		stderr, errs := os.ReadFile(filepath.Join(tc.Logs.Dir, "app.stderr.0"))
		if said := string(stdout) + string(stderr); err != nil || errs != nil || !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %q, %v, %v", name, said, err, errs)
		}
	}
}
