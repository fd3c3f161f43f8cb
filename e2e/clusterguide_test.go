package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guided is a cluster whose machines are those of docs/guides/cluster.md, by their letters.
type guided struct {
	*cluster
	backups string
	ran     map[string]bool // machines whose agents were started
}

// newGuided lays a network with so many machines, none of which runs an agent. Each knows where its API is; the rest of
// its configuration is the page's.
func newGuided(t *testing.T, machines int) *guided {
	t.Helper()
	g := &guided{cluster: &cluster{t: t, bridge: namespace(t)}, backups: t.TempDir(), ran: map[string]bool{}}
	g.ip(g.bridge, "link", "add", "bridge", "type", "bridge")
	g.ip(g.bridge, "link", "set", "bridge", "up")
	for range machines {
		g.add("")
	}
	return g
}

func (g *guided) of(letter string) *machine { return g.machines[letter[0]-'a'] }

// here has a text of the page name what is on a machine of the test.
func (g *guided) here(letter, text string) string {
	m := g.of(letter)
	return strings.NewReplacer("/etc/berth.d", m.root, "/etc/berth", m.root, "/var/lib/berth", m.data, "/mnt/backup",
		g.backups, "10.0.0.", "10.78.0.").Replace(text)
}

// configure gives a machine its configuration, as the page shows it for that or another one.
func (g *guided) configure(letter, text string) {
	g.t.Helper()
	m := g.of(letter)
	text = g.here(letter, text) + fmt.Sprintf("api { socket = %q }\n", m.socket())
	must(g.t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), []byte(text), 0o600))
}

// like gives a machine the configuration that the page shows for another one, with its own name and address.
func (g *guided) like(letter, other, text string) {
	g.t.Helper()
	named := strings.Replace(text, fmt.Sprintf("name     = %q", other), fmt.Sprintf("name     = %q", letter), 1)
	if named == text {
		g.t.Fatalf("the configuration of %s has no name", other)
	}
	g.configure(letter, strings.Replace(named, fmt.Sprintf("rpc = \"10.0.0.%d\"", other[0]-'a'+1),
		fmt.Sprintf("rpc = \"10.0.0.%d\"", letter[0]-'a'+1), 1))
}

// play runs a line on a machine. What starts and stops the agent does what systemd does by the unit of the package: it
// starts one process, and ends that alone.
func (g *guided) play(letter, line string) {
	g.t.Helper()
	m := g.of(letter)
	words := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "systemctl restart berth"):
		must(g.t, m.stop())
		g.launch(letter)
	case strings.HasPrefix(line, "systemctl enable --now berth"):
		g.launch(letter)
	case words[0] == "scp":
		to, path, found := strings.Cut(words[2], ":")
		if !found {
			g.t.Fatalf("%s goes to no machine", line)
		}
		text, err := os.ReadFile(g.here(letter, words[1]))
		must(g.t, err)
		must(g.t, os.WriteFile(g.here(to, path), text, 0o600))
	default:
		g.t.Logf("%s: %s\n%s", letter, line, m.shell(g.here(letter, line)))
	}
}

// launch starts the agent, and waits until the servers know what it has.
func (g *guided) launch(letter string) {
	g.t.Helper()
	m := g.of(letter)
	m.launch()
	g.ran[letter] = true
	if strings.Contains("def", letter) {
		g.of("a").ready(letter)
		return
	}
	m.answers()
	voters := 0
	for _, server := range []string{"a", "b", "c", "g"} {
		if g.ran[server] && g.of(server).cmd != nil {
			voters++
		}
	}
	if letter != "h" {
		m.voters(voters, 0)
	}
}

// TestTheGuideOfClusters: given eight machines, when the commands of docs/guides/cluster.md are run on those that the
// page says, with its configurations, then three servers and three nodes are a cluster; a job of it runs over restarts
// of all of them as the same process; a server that is lost is replaced, and the state of servers that are all lost is
// put back into a new one.
func TestTheGuideOfClusters(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/cluster.md")
	must(t, err)
	g := newGuided(t, 8)
	block := regexp.MustCompile("(?s)On \\*\\*(\\w)\\*\\*([^`]*?(?:`/etc/berth.d/berth.hcl`[^`]*?)?):\n\n" +
		"```(hcl|sh)\n(.*?)```")
	configs := map[string]string{}
	pid := 0
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		switch title {
		case "Restart and upgrade":
			pid = g.runsOn("d")
		case "A server is lost":
			g.of("d").alive("all agents were restarted", pid)
			g.of("a").stopJob("guide")
			g.gone("c")
			g.like("g", "b", configs["b"])
		case "All servers are lost":
			for _, server := range []string{"a", "b", "g"} {
				g.gone(server)
			}
			g.like("h", "a", configs["a"])
		}
		for _, b := range block.FindAllStringSubmatch(section, -1) {
			letter := b[1]
			text := b[4]
			if b[3] == "hcl" {
				configs[letter] = text
				g.configure(letter, text)
				continue
			}
			if letter == "c" && !g.ran["c"] {
				g.like("c", "b", configs["b"])
			}
			if letter == "e" || letter == "f" {
				g.like(letter, "d", configs["d"])
			}
			for line := range strings.Lines(text) {
				g.play(letter, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	for _, letter := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if !g.ran[letter] {
			t.Errorf("the page starts nothing on %s", letter)
		}
	}
	h := g.of("h")
	if out := h.mustCLI("operator", "recovery", "status"); strings.Count(out, " awaited ") != 3 {
		t.Errorf("after the restore the recovery says:\n%s", out)
	}
	if all, _, err := h.api.Nodes().List(t.Context(), nil); err != nil || len(all) != 3 {
		t.Errorf("the new server knows %d nodes (%v)", len(all), err)
	}
}

// gone loses a machine with its disk.
func (g *guided) gone(letter string) {
	g.t.Helper()
	m := g.of(letter)
	m.lost()
	for _, path := range []string{m.socket(), m.socket() + ".lock"} {
		must(g.t, os.Remove(path))
	}
}

// runsOn runs a job on a node, and returns its process.
func (g *guided) runsOn(letter string) int {
	g.t.Helper()
	m := g.of("a")
	m.run(fmt.Sprintf(quick, "guide", letter))
	return m.pid(m.running("guide", 1)[0].ID, "t", "/bin/sleep")
}
