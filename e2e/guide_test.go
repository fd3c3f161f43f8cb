package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// filesOf writes the files that a page shows under their names to the machine.
func (m *machine) filesOf(page string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", page))
	must(m.t, err)
	file := regexp.MustCompile("(?s)`/etc/berth/([\\w.]+)`[^`]*:\n\n```hcl\n(.*?)```")
	shown := file.FindAllStringSubmatch(string(text), -1)
	if len(shown) == 0 {
		m.t.Fatalf("%s shows no file of /etc/berth", page)
	}
	for _, f := range shown {
		must(m.t, os.WriteFile(filepath.Join(m.root, f[1]), []byte(f[2]), 0o600))
	}
}

// TestTheGuideOfVolumesIsPlayed: given the files that docs/reference/storage.md shows, when its commands are run, then
// each does what it is for, from the making of a volume to its end.
func TestTheGuideOfVolumesIsPlayed(t *testing.T) {
	m := newMachine(t, true)
	m.filesOf("reference/storage.md")
	m.guide("reference/storage.md", "A volume from its making to its end")
	if left, _, err := m.api.Volumes().List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("volumes are left: %+v, %v", left, err)
	}
	made, _, err := m.api.Volumes().ListSnapshots(t.Context(), "local-csi", nil, nil)
	must(t, err)
	if len(made.Snapshots) != 1 {
		t.Fatalf("there are %d snapshots, the guide makes one", len(made.Snapshots))
	}
	m.must("volume", "snapshot", "delete", "local-csi", made.Snapshots[0].ID)
}

// TestTheGuideOfPostgreSQL: given an agent in service with the sample configuration, when the commands of
// docs/guides/postgresql.md are run, then the rows are there after a kill, a change of the job, and a way back from a
// mistake.
func TestTheGuideOfPostgreSQL(t *testing.T) {
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/initdb"); err != nil {
		t.Skip("Debian's postgresql-15 is not installed: its guide is not played here")
	}
	m := inService(t)
	defer func() { // only the end of an agent for trying out ends the plugin's job, too
		must(t, m.stop())
		m.service = false
		m.start()
	}()
	sample, err := os.ReadFile("../examples/agent.hcl")
	must(t, err)
	paths := strings.NewReplacer("/var/lib/berth", m.data, "/run/berth/api.sock", m.socket())
	must(t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), []byte(paths.Replace(string(sample))), 0o600))
	m.start()
	m.awaitPlugin("local-csi")
	const page = "guides/postgresql.md"
	m.filesOf(page)
	rows := "berth alloc exec -job -task postgres pg psql -tA -c 'select count(*) from visits'"
	for _, section := range []string{"Run it", "It is killed", "A setting changes", "A mistake, and back"} {
		m.guide(page, section)
		if said := strings.TrimSpace(m.shell(rows)); said != "1000" {
			t.Errorf("after %q there are %s rows", section, said)
		}
	}
	m.guide(page, "The end")
	made, _, err := m.api.Volumes().ListSnapshots(t.Context(), "local-csi", nil, nil)
	must(t, err)
	for _, s := range made.Snapshots {
		m.must("volume", "snapshot", "delete", "local-csi", s.ID)
	}
}
