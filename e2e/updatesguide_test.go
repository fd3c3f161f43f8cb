package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/api"
)

// byHandFile is a service whose health people decide, one allocation after the other.
const byHandFile = `job "web" {
  group "web" {
    count = 2
    update {
      max_parallel = 1
      health_check = "manual"
    }
    task "main" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["infinity", "VERSION"]
      }
    }
  }
}
`

var guideCommand = regexp.MustCompile(`(?m)^berth ([^#\n]+)`)

// TestTheGuideOfUpdatesSaysHowToDecideByHand: given a service with health_check = "manual", when a person says of each
// allocation of a new version that it is healthy, by the command of the guide, then the next one follows, until the
// deployment is successful.
func TestTheGuideOfUpdatesSaysHowToDecideByHand(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/updates.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "## Say by hand what is healthy")
	if !found {
		t.Fatal("the guide says nothing about health by hand")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var says string
	for _, c := range guideCommand.FindAllStringSubmatch(section, -1) {
		if strings.Contains(c[1], "-healthy") {
			says = c[1]
		}
	}
	m := inService(t)
	m.start()
	file := filepath.Join(t.TempDir(), "web.hcl")
	for _, version := range []string{"1", "2"} {
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(byHandFile, "VERSION", version)), 0o644))
		m.mustCLI("job", "run", "-detach", file)
		decided := map[string]bool{}
		m.eventually("all of version "+version+" to be said healthy", func() bool {
			d, _, err := m.api.Jobs().Deployment(t.Context(), "web", nil)
			must(t, err)
			if d == nil || d.Status != api.DeploymentStatusRunning {
				return len(decided) == 2
			}
			allocs, _, err := m.api.Deployments().Allocations(t.Context(), d.ID, nil)
			must(t, err)
			for _, a := range allocs {
				if a.ClientStatus != api.AllocClientStatusRunning || decided[a.ID] {
					continue
				}
				decided[a.ID] = true
				words := strings.Fields(strings.NewReplacer("4ff1d9c5", a.ID[:8], "9277ed84", d.ID[:8]).Replace(says))
				mustSay(t, "the word of a person", m.mustCLI(words...), `Healthy by hand: "`+a.ID[:8]+`"`)
			}
			return false
		})
		var d api.Deployment
		must(t, json.Unmarshal([]byte(m.mustCLI("job", "deployments", "-latest", "-json", "web")), &d))
		if d.Status != api.DeploymentStatusSuccessful {
			t.Fatalf("version %s: %s: %s", version, d.Status, d.StatusDescription)
		}
	}
	m.mustCLI("job", "stop", "web")
}
