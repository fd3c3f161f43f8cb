package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/internal/testkit/programs"
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
	if len(made.Snapshots) > 0 {
		t.Errorf("snapshots are left: %+v", made.Snapshots)
	}
}

// TestTheHostVolumeOfThePage: given the host volume that docs/reference/storage.md configures, when a job has the block
// that stands beside it, then its task reads what the directory holds; and one whose path is not there is named by a
// warning and in the node's status.
func TestTheHostVolumeOfThePage(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/storage.md")
	must(t, err)
	_, part, _ := strings.Cut(string(text), "\n## Host volumes\n")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(part, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d files, want the agent's and the job's", len(blocks))
	}
	m := prepare(t, false)
	media := filepath.Join(m.root, "media")
	must(t, os.Mkdir(media, 0o755))
	must(t, os.WriteFile(filepath.Join(media, "song"), []byte("la la\n"), 0o644))
	config := filepath.Join(m.root, "agent.hcl")
	agent, err := os.ReadFile(config)
	must(t, err)
	const begin = "client {\n"
	client := strings.TrimSuffix(strings.TrimSpace(blocks[0][1]), "}")
	must(t, os.WriteFile(config, []byte(strings.Replace(string(agent), begin,
		strings.ReplaceAll(client, "/srv/media", media)+"\nhost_volume \"gone\" { path = \"/no/such\" }\n", 1)), 0o600))
	m.start()
	if !m.logged("level=WARN", "a host volume cannot be used", "gone", "/no/such") {
		t.Error("no warning names the volume whose path is not there")
	}
	nodes, _, err := m.api.Nodes().List(t.Context(), nil)
	must(t, err)
	if out, _ := m.cli("node", "status", "-verbose", nodes[0].ID); !strings.Contains(out, "gone (unhealthy: ") {
		t.Errorf("the node's status is %s", out)
	}
	m.run(`
job "player" {
  type = "batch"
  group "g" {
    ephemeral_disk {
      size = 30
    }
` + blocks[1][1] + `
    task "play" {
      driver = "exec"
      config {
        command = "/bin/cat"
        args    = ["/media/song"]
      }
      volume_mount {
        volume      = "m"
        destination = "/media"
        read_only   = true
      }
      resources {
        memory = 16
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}`)
	m.eventually("the song to be heard", func() bool {
		out, _ := m.cli("alloc", "logs", "-job", "player")
		return strings.Contains(out, "la la")
	})
	m.stopJob("player")
}

// sampled is a machine with an agent in service that has the sample configuration. Its tasks, and the bundled plugin,
// outlive the agent: the test ends them.
func sampled(t *testing.T) *machine {
	t.Helper()
	m := inService(t)
	sample, err := os.ReadFile("../examples/agent.hcl")
	must(t, err)
	paths := strings.NewReplacer("/var/lib/berth", m.data, "/run/berth/api.sock", m.socket())
	must(t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), []byte(paths.Replace(string(sample))), 0o600))
	m.start()
	m.awaitPlugin("local-csi")
	return m
}

// TestTheGuideOfRemoval: given an agent in service whose bundled plugin runs, when the agent alone is stopped and the
// last command of "Remove" is run, then that lists what is mounted and removes nothing; when all commands are run, then
// the directory is gone, and no process and no mount is left.
func TestTheGuideOfRemoval(t *testing.T) {
	m := sampled(t)
	text, err := os.ReadFile("../docs/guides/install.md")
	must(t, err)
	last := regexp.MustCompile("(?m)^findmnt .*$").FindString(string(text))
	if last == "" {
		t.Fatal("the page has no findmnt")
	}
	must(t, m.stop())
	if said := m.shell(strings.ReplaceAll(last, "/var/lib/berth", m.data)); !strings.Contains(said, m.data+"/") {
		t.Errorf("with the plugin's directories mounted, %q says %q", last, said)
	}
	if _, err := os.Stat(filepath.Join(m.data, "volumes")); err != nil {
		t.Fatalf("a directory that is in use was removed: %v", err)
	}
	m.start()
	m.awaitPlugin("local-csi")
	if said := m.shell("berth job status"); !strings.Contains(said, "job stop -namespace berth -purge local-csi") {
		t.Errorf("job status without a job of the user's says %q", said)
	}
	m.guide("guides/install.md", "Remove")
	if _, err := os.Stat(m.data); !os.IsNotExist(err) {
		t.Errorf("the data directory is left: %v", err)
	}
}

// TestTheGuideOfPostgreSQL: given an agent in service with the sample configuration, when the commands of
// docs/guides/postgresql.md are run, then the rows are there after a kill, a change of the job, and a way back from a
// mistake; also when initdb was killed in the middle of its work before.
func TestTheGuideOfPostgreSQL(t *testing.T) {
	programs.Need(t, "postgresql-15", "/usr/lib/postgresql/15/bin/initdb")
	m := sampled(t)
	defer m.guide("guides/install.md", "Remove")
	const page = "guides/postgresql.md"
	m.filesOf(page)
	m.killInitdb("pg.nomad.hcl")
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
	if len(made.Snapshots) > 0 {
		t.Errorf("snapshots are left: %+v", made.Snapshots)
	}
}

// killInitdb runs a job of the guide's that kills its initdb, and itself, as soon as it has begun to make a cluster.
func (m *machine) killInitdb(file string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, file))
	must(m.t, err)
	const end = "--encoding=UTF8\n"
	if strings.Count(string(text), end) != 1 {
		m.t.Fatalf("%s has no initdb that ends with %q", file, end)
	}
	killed := strings.Replace(string(text), end, "--encoding=UTF8 &\n"+
		"until test -f /data/pg*/PG_VERSION; do sleep 0.01; done; kill -9 $$\n", 1)
	must(m.t, os.WriteFile(filepath.Join(m.root, "killed.nomad.hcl"), []byte(killed), 0o600))
	m.must("volume", "create", filepath.Join(m.root, "pg.volume.hcl"))
	m.must("job", "run", "-detach", filepath.Join(m.root, "killed.nomad.hcl"))
	m.eventually("initdb to be killed", func() bool {
		list, _, err := m.api.Jobs().Allocations(m.t.Context(), "pg", false, nil)
		must(m.t, err)
		for _, a := range list {
			if s := a.TaskStates["init"]; s != nil && s.Restarts > 0 {
				return true
			}
		}
		return false
	})
}
