package external_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
)

// Given plugins that say that they mount nothing, that never heard of the question, and that answer it with a word of
// later versions, when a task with a mount is started, then the first refuses it with the way out before the plugin
// hears of the task, and the others get it: only a clear no is one.
func TestAPluginMountsUnlessItSaysThatItDoesNot(t *testing.T) {
	for mode, want := range map[string]driver.MountConfig{
		"mounts nothing":        driver.MountNone,
		"well":                  driver.MountAll,
		"mounts in a later way": driver.MountAll,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d, f := follows(t, mode)
			if f.Health != driver.Healthy || d.Info().Capabilities.Mounts != want {
				t.Fatalf("%+v, mounts %d, not %d", f, d.Info().Capabilities.Mounts, want)
			}
			dir := t.TempDir()
			must(t, os.Mkdir(filepath.Join(dir, "alloc"), 0o700))
			cfg := taskOf(dir, ids.Alloc(ids.New()), 1)
			start := func() error {
				_, err := d.Start(t.Context(), cfg)
				return err
			}
			const asked = "it does not want to" // says the plugin of each task that it hears of
			if err := start(); err == nil || !strings.Contains(err.Error(), asked) {
				t.Errorf("a task without a mount: %v", err)
			}
			cfg.Mounts = []driver.Mount{{Source: dir, Target: "/data", Volume: `volume "db"`}}
			err := start()
			if want == driver.MountAll {
				if err == nil || !strings.Contains(err.Error(), asked) {
					t.Errorf("a task with a mount: %v", err)
				}
				return
			}
			if !fault.Has(err, fault.Unsupported) || strings.Contains(err.Error(), asked) {
				t.Fatalf("a task with a mount: %v", err)
			}
			for _, word := range []string{"/data", "driver bad", "cannot mount", "use a driver that can"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}
