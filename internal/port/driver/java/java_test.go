package java

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/testkit/reference"
)

func TestWhatTheMachineIsCalledWith(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]any
		want   string
	}{
		"a jar": {map[string]any{"jar_path": "/local/a.jar", "args": []any{"x"}, "jvm_options": []any{"-Xmx1m"}},
			"-Xmx1m -jar /local/a.jar x"},
		"a class":          {map[string]any{"class": "Main"}, "Main"},
		"a class of paths": {map[string]any{"class": "Main", "class_path": "/local:/alloc"}, "-cp /local:/alloc Main"},
		"a class of a jar": {map[string]any{"class": "Main", "jar_path": "/a.jar"}, "-cp /a.jar Main"},
		"a class of a jar and of paths": {map[string]any{"class": "M", "jar_path": "/a.jar", "class_path": "/b"},
			"-cp /a.jar:/b M"},
	} {
		got, err := arguments(c.config)
		var words []string
		for _, w := range got {
			words = append(words, w.(string))
		}
		if err != nil || strings.Join(words, " ") != c.want {
			t.Errorf("%s: %q, %v", name, words, err)
		}
	}
	for name, config := range map[string]map[string]any{
		"neither jar_path nor class": {"args": []any{"x"}},
		"ignores it beside a jar":    {"jar_path": "/a.jar", "class_path": "/b"},
	} {
		if _, err := arguments(config); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAMachineSaysOfItself(t *testing.T) {
	said := versions("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"17.0.15\" 2025-04-15\n" +
		"OpenJDK Runtime Environment (build 17)\nOpenJDK 64-Bit Server VM (build 17)\n")
	if said["version"] != "17.0.15" || said["runtime"] != "OpenJDK Runtime Environment (build 17)" ||
		said["vm"] != "OpenJDK 64-Bit Server VM (build 17)" {
		t.Errorf("%q", said)
	}
	for _, out := range []string{"nothing", `openjdk version ""`} {
		if said := versions(out); said != nil {
			t.Errorf("%s is %q", out, said)
		}
	}
}

// machineIn puts a machine that says what it is into a directory of the node that tasks see.
func machineIn(t *testing.T, script string) (dir string, d *Driver) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, New(exec.New(exec.Config{System: []string{dir}}, nil), dir)
}

func TestANodeSaysWhichMachineItHasOrWhatIsMissing(t *testing.T) {
	_, d := machineIn(t, "echo 'openjdk version \"21\" x' >&2; echo runtime >&2; echo vm >&2\n")
	f := d.Fingerprint(t.Context())
	if f.Health != driver.Healthy || f.Attributes["driver.java.version"] != "21" ||
		f.Attributes["driver.java"] != "1" || f.Attributes["driver.java.runtime"] != "runtime" ||
		f.Attributes["driver.java.vm"] != "vm" ||
		f.Attributes["driver.java.allow_caps"] == "" || f.Attributes["driver.exec"] != "" {
		t.Errorf("with a machine: %+v", f)
	}
	for what, c := range map[string]struct {
		driver func() *Driver
		health driver.Health
	}{
		"install a Java runtime": {func() *Driver { return New(exec.New(exec.Config{}, nil), t.TempDir()) },
			driver.Undetected},
		"tasks do not see it": {func() *Driver {
			dir, _ := machineIn(t, "exit 0\n")
			return New(exec.New(exec.Config{}, nil), dir)
		}, driver.Unhealthy},
		"ask for its version": {func() *Driver { _, d := machineIn(t, "exit 1\n"); return d }, driver.Unhealthy},
		"it says none":        {func() *Driver { _, d := machineIn(t, "exit 0\n"); return d }, driver.Unhealthy},
	} {
		if f := c.driver().Fingerprint(t.Context()); f.Health != c.health || !strings.Contains(f.Description, what) {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

func TestThePageOfTheDriverIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	info := New(exec.New(exec.Config{}, nil), "").Info()
	p.Same("an option of java", reference.Column(p.Section(Name).Rows, 0), slices.Sorted(maps.Keys(info.Schema)))
}
