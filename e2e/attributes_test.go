package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// shown is a line of testdata/attributes.txt: what a command prints in a task that has the attribute.
type shown struct{ attribute, command, prints string }

func shownAttributes(t *testing.T) (out []shown) {
	t.Helper()
	text, err := os.ReadFile("testdata/attributes.txt")
	must(t, err)
	for line := range strings.Lines(strings.ReplaceAll(string(text), `\|`, "\x00")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if strings.HasPrefix(line, "#") || len(cells) != 3 {
			continue
		}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|")
		}
		out = append(out, shown{cells[0], cells[1], cells[2]})
	}
	return out
}

// TestEveryAttributeActsInItsTask: given a job of every attribute whose effect its own task shows, when it runs, then
// the command of each attribute prints what the list says; and again, of the same task, when the agent has been killed.
func TestEveryAttributeActsInItsTask(t *testing.T) {
	b := newBridged(t)
	must(t, os.WriteFile(filepath.Join(b.rig, "lent"), []byte("lent\n"), 0o644))
	b.mustCLI("var", "put", "nomad/jobs/acts", "word=of-the-day")
	file, err := os.ReadFile("testdata/attributes.nomad.hcl")
	must(t, err)
	b.run(string(file))
	acts := shownAttributes(t)
	if len(acts) < 40 {
		t.Fatalf("the list has %d commands", len(acts))
	}
	a := b.of("acts", "g", func(a *api.AllocationListStub) bool {
		main := a.TaskStates["main"]
		return strings.HasSuffix(a.Name, "[1]") && main != nil && main.State == "running"
	})
	play := func() {
		for _, s := range acts {
			said, _ := b.cli("alloc", "exec", "-task", "main", a.ID, "/bin/sh", "-c", s.command)
			if got := strings.Join(strings.Fields(said), " "); got != s.prints {
				t.Errorf("%s: %s prints %q, want %q", s.attribute, s.command, got, s.prints)
			}
		}
	}
	play()
	b.kill()
	b.start()
	play()
	if now, _, err := b.api.Allocations().Get(t.Context(), a.ID, nil); err != nil ||
		now.TaskStates["main"].Restarts > 0 {
		t.Errorf("the task was started anew: %+v, %v", now.TaskStates["main"], err)
	}
	b.stopJob("acts")
}
