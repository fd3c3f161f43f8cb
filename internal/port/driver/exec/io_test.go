package exec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

func TestBoundsOfDevicesAreRefusedByName(t *testing.T) {
	if err := CheckIO([]string{"/ rbps=1 wbps=2 riops=3 wiops=9223372036854775807", "/dev/sda wbps=1"}); err != nil {
		t.Error(err)
	}
	for text, says := range map[string]string{
		"":                  "absolute path",
		"/":                 "absolute path",
		"data rbps=1":       "absolute path",
		"/my disk rbps=1":   `no bound "disk"`,
		"/ bps=1":           `no bound "bps"`,
		"/ rbps=1 rbps=2":   "rbps stands there twice",
		"/ rbps":            `rbps is ""`,
		"/ wbps=0":          `wbps is "0"`,
		"/ riops=-1":        `riops is "-1"`,
		"/ wiops=max":       `wiops is "max"`,
		"/ wbps=10M riops=": `wbps is "10M"`,
	} {
		err := CheckIO([]string{"/ rbps=1", text})
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "wiops=NUMBER") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestADeviceThatIsNotThereIsNamed(t *testing.T) {
	for path, kind := range map[string]fault.Kind{
		"/nothing/there": fault.NotFound,
		"/proc":          fault.Unsupported, // on no block device
	} {
		d := New(Config{IOMax: []string{path + " rbps=1"}}, nil)
		if err := d.Unbounded(); !fault.Has(err, kind) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := d.spec(nil); !fault.Has(err, kind) {
			t.Errorf("%s: a task is started without its bounds: %v", path, err)
		}
	}
}

func TestABoundOfAPartitionIsThatOfItsDisk(t *testing.T) {
	disk := t.TempDir()
	part := filepath.Join(disk, "sda1")
	if err := os.Mkdir(part, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"dev": "8:0\n", "sda1/dev": "8:1\n", "sda1/partition": "1\n"} {
		if err := os.WriteFile(filepath.Join(disk, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{disk, part} {
		if got, err := wholeDisk(dir); got != "8:0" || err != nil {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
}

func TestADeviceIsBoundedOnce(t *testing.T) {
	device := someDevice(t)
	other := filepath.Join(t.TempDir(), "disk")
	if err := os.Symlink(device, other); err != nil {
		t.Fatal(err)
	}
	got, err := findDevices([]string{device + "  rbps=1   wiops=2"})
	if err != nil || len(got) != 1 || !strings.HasSuffix(got[0], " rbps=1 wiops=2") {
		t.Errorf("%q, %v", got, err)
	}
	d := New(Config{IOMax: []string{device + " rbps=1   wiops=2"}}, nil)
	if spec, err := d.spec(&driver.TaskConfig{Config: map[string]any{"command": "/bin/true"}}); err != nil ||
		!slices.Equal(spec.IO, got) {
		t.Errorf("a task is started with %+v, %v, want %q", spec, err, got)
	}
	err = New(Config{IOMax: []string{device + " rbps=1", other + " wbps=1"}}, nil).Unbounded()
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "that of "+device+" too") {
		t.Errorf("%v", err)
	}
}

// someDevice is a block device of this machine: a directory may be on none, or on several.
func someDevice(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(blockDevices, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range found {
		dir, err := filepath.EvalSymlinks(link)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		path := filepath.Join("/dev", filepath.Base(dir))
		if err := unix.Stat(path, &st); err == nil && numbers(st.Rdev) == filepath.Base(link) {
			return path
		}
	}
	t.Fatalf("none of %q is in /dev", found)
	return ""
}

// unable starts tasks on a node that cannot bound devices.
type unable struct{ driver.Launcher }

func (unable) CheckIO() error {
	return fault.New(fault.Unsupported, "limit", "io", "there is no controller")
}

// Given a node that cannot bound what it is to bound, then the driver takes no tasks, and says why; one that bounds
// nothing takes them.
func TestADriverThatCannotBoundTakesNoTasks(t *testing.T) {
	bounds := Config{IOMax: []string{someDevice(t) + " rbps=1"}}
	f := New(bounds, unable{}).Fingerprint(t.Context())
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, "there is no controller") {
		t.Errorf("the driver says %+v", f)
	}
	if f := New(Config{}, unable{}).Fingerprint(t.Context()); f.Health != driver.Healthy {
		t.Errorf("without bounds the driver says %+v", f)
	}
}
