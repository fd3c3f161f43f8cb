package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

var pageFile = regexp.MustCompile("(?s)`([a-z.]+\\.hcl)`:\n\n```hcl\n(.*?)```")

// TestTheGuideOfBatchJobs: given the guide of batch jobs, when its files are written and its commands typed in turn,
// then each does what the page says: what is forced and what is dispatched runs to its end, with its payload, and one
// token launches one job.
func TestTheGuideOfBatchJobs(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/batch.md")
	must(t, err)
	m := inService(t)
	m.start()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, f := range pageFile.FindAllStringSubmatch(string(page), -1) {
		must(t, os.WriteFile(file(f[1]), []byte(f[2]), 0o644))
	}
	mustSay(t, "the run", m.mustCLI("job", "run", file("nightly.nomad.hcl")), "Next launch: ")
	mustSay(t, "the launch", m.mustCLI("job", "periodic", "force", "nightly"), "nightly/periodic-")
	m.eventually("what was forced to end", func() bool {
		return strings.Contains(m.mustCLI("job", "status", "nightly"), "dead")
	})
	m.mustCLI("job", "stop", "nightly")
	mustSay(t, "the run", m.mustCLI("job", "run", file("greet.nomad.hcl")), "berth job dispatch greet")
	must(t, os.WriteFile(file("late.txt"), []byte("it is late\n"), 0o644))
	followed := m.mustCLI("job", "dispatch", "-meta", "who=you", "greet", file("late.txt"))
	mustSay(t, "the dispatch", followed, "has completed")
	for range 2 {
		m.mustCLI("job", "dispatch", "-detach", "-idempotency-token", "order-17", "-meta", "who=me", "greet",
			file("late.txt"))
	}
	said := func() (out []string) {
		jobs, _, err := m.api.Jobs().List(t.Context(), nil)
		must(t, err)
		for _, j := range jobs {
			if j.ParentID != "greet" {
				continue
			}
			allocs, _, err := m.api.Jobs().Allocations(t.Context(), j.ID, true, nil)
			must(t, err)
			for _, a := range allocs {
				if a.ClientStatus != api.AllocClientStatusComplete {
					continue // what runs on would be left behind by the agent
				}
				out = append(out, m.mustCLI("alloc", "logs", a.ID))
			}
		}
		slices.Sort(out)
		return out
	}
	want := []string{"hello me: it is late\n", "hello you: it is late\n"}
	m.eventually("both greetings, and no third", func() bool { return slices.Equal(said(), want) })
}
