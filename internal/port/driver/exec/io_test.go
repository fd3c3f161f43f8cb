package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
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
	dir := t.TempDir()
	if _, err := deviceOf(dir); err != nil {
		t.Skip(err) // a file system on no device or on several
	}
	got, err := findDevices([]string{dir + "  rbps=1   wiops=2"})
	if err != nil || len(got) != 1 || !strings.HasSuffix(got[0], " rbps=1 wiops=2") {
		t.Errorf("%q, %v", got, err)
	}
	err = New(Config{IOMax: []string{dir + " rbps=1", filepath.Dir(dir) + " wbps=1"}}, nil).Unbounded()
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "that of "+dir+" too") {
		t.Errorf("%v", err)
	}
}
