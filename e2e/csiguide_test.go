package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheGuideOfStoragePlugins: given the guide of storage plugins, when its files are written and its commands typed
// in turn, then each does what the page says: the plugin passes its test, runs as a job, a volume of it is written and
// goes its way back, and a plugin that is none is told from one that breaks its promises.
func TestTheGuideOfStoragePlugins(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/csi-plugins.md")
	must(t, err)
	m := newMachine(t, false)
	paths := strings.NewReplacer("/srv/", m.rig+"/", `"berth"`, `"`+m.program()+`"`)
	dir := filepath.Join(m.rig, "typed")
	must(t, os.MkdirAll(dir, 0o755))
	for _, f := range pageFile.FindAllStringSubmatch(string(page), -1) {
		must(t, os.WriteFile(filepath.Join(dir, f[1]), []byte(paths.Replace(f[2])), 0o644))
	}
	var said []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			said = append(said, m.shell("cd "+dir+" && "+paths.Replace(line)))
			if strings.Contains(line, "job run plugin.nomad.hcl") {
				m.awaitPlugin("my-storage")
			}
		}
	}
	mustSay(t, "the test", said[1], "killed in the midst of calls", " 0 failed, 0 skipped")
	mustSay(t, "the volume", strings.Join(said, ""), "Access Mode")
	if left, _, err := m.api.Volumes().List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("volumes are left: %+v, %v", left, err)
	}
	m.exits(1, "there is no such program", "plugin", "test", "csi", "./no-such-plugin")
	m.exits(2, "FAILED", "plugin", "test", "csi", "-limit", "2s", "/bin/sleep", "60")
}

// exits has a command end with a code, having said something.
func (m *machine) exits(code int, say string, args ...string) {
	m.t.Helper()
	out, got := m.cli(args...)
	if got != code || !strings.Contains(out, say) {
		m.t.Errorf("berth %s: exit code %d, not %d: %s", strings.Join(args, " "), got, code, out)
	}
}
