package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// TestWhatAVolumeKeepsAndHowItIsRidOfIt: who registers a volume again without its mount options and secrets hears that
// they stay, and by the way that is said there they go.
func TestWhatAVolumeKeepsAndHowItIsRidOfIt(t *testing.T) {
	m := newMachine(t, true)
	made := m.create("v", "local-csi")
	dir := t.TempDir()
	write := func(more string) string {
		path := filepath.Join(dir, "v.hcl")
		must(t, os.WriteFile(path, fmt.Appendf(nil, `id = "v"
name = "v"
type = "csi"
plugin_id = "local-csi"
external_id = %q
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
%s`, made.ExternalID, more), 0o600))
		return path
	}
	volume := func() *api.CSIVolume {
		v, _, err := m.api.Volumes().Get(t.Context(), "v", nil)
		must(t, err)
		return v
	}
	register := func(more string) string {
		out, code := m.cli("volume", "register", write(more))
		if code != 0 {
			t.Fatalf("register: %d %s", code, out)
		}
		return out
	}
	register("mount_options {\n  mount_flags = [\"noatime\"]\n}\nsecrets {\n  key = \"sesame\"\n}\n")
	if volume().MountOptions == nil {
		t.Error("the volume has no mount options")
	}
	mustSay(t, "a registration without them", register(""), `volume "v" has secrets, and none are given`,
		`volume "v" has mount_options, and none are given`, "to be rid of it: berth volume deregister v")
	if volume().MountOptions == nil {
		t.Error("what was to stay is gone")
	}
	out, code := m.cli("volume", "deregister", "v")
	if code != 0 {
		t.Fatalf("deregister: %d %s", code, out)
	}
	register("")
	if o := volume().MountOptions; o != nil {
		t.Errorf("after the way out there are still mount options: %+v", o)
	}
	if again := register(""); strings.Contains(again, "has ") {
		t.Errorf("after the way out: %q", again)
	}
	m.remove("v")
}
