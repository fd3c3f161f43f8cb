package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/model/node"
	"berth/internal/model/taskconfig"
	"berth/internal/testkit/race"
)

// answered is what is said of a job with mistakes.
func answered(t *testing.T, r *rig, all ...*mistake) (string, *api.Job) {
	t.Helper()
	j := everyBlock()
	g := j.TaskGroups[0]
	first := g.Tasks[0]
	for _, m := range all {
		m.make(j, g, first)
	}
	var v api.JobValidateResponse
	r.must("PUT", "/v1/validate/job", map[string]any{"Job": j}).into(t, &v)
	return strings.Join(v.ValidationErrors, "\n"), j
}

// TestTwoMistakesComeInOneAnswer: given a job with every block and each pair of the mistakes that are known, when it is
// validated, then one answer names both, unless one leaves the other without a meaning. Each mistake alone is said by
// every way of submitting a job.
func TestTwoMistakesComeInOneAnswer(t *testing.T) {
	r := newRigWith(t, func(n *node.Node) {
		n.Attributes["os.signals"] = "SIGHUP,SIGINT,SIGTERM"
		n.Drivers["exec"].Attributes[node.DeniedUsers("exec")] = "games"
		n.Drivers["exec"].Options = taskconfig.Schema{
			"command": {Kind: taskconfig.Text, Required: true},
			"args":    {Kind: taskconfig.Texts},
		}
	})
	if said, _ := answered(t, r); said != "" {
		t.Fatalf("the job without a mistake is refused: %s", said)
	}
	for _, m := range mistakes {
		said, j := answered(t, r, m)
		if !strings.Contains(said, m.says) {
			t.Fatalf("%s: %q is not said of it alone: %s", m.at, m.says, said)
		}
		id, err := json.Marshal(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/jobs", "/v1/job/web/plan"} {
			if a := r.try("PUT", path, map[string]any{"Job": j}); string(id) == `"web"` &&
				(a.status < 400 || !strings.Contains(string(a.body), m.says)) {
				t.Errorf("%s: %q is not said by %s: %d %s", m.at, m.says, path, a.status, a.body)
			}
		}
	}
	pairs, excused := 0, map[excuse]bool{}
	for i, a := range mistakes {
		for _, b := range mistakes[i+1:] {
			if a.excludes(b) {
				continue
			}
			if pairs++; pairs%race.Stride() > 0 {
				continue
			}
			said, _ := answered(t, r, a, b)
			both := strings.Contains(said, a.says) && strings.Contains(said, b.says)
			switch why := meaningless(a, b); {
			case why == nil && !both:
				t.Errorf("%q (%s) and %q (%s) do not come together", a.says, a.at, b.says, b.at)
			case why != nil && !both:
				excused[*why] = true
			}
		}
	}
	for _, e := range excuses {
		if !excused[e] && race.Stride() == 1 {
			t.Errorf("%q hides %q no more: strike it from the list", e.one, e.other)
		}
	}
	if pairs < 5000 {
		t.Errorf("only %d pairs", pairs)
	}
}

// excludes tells of two mistakes of which one job has but one: both are of one value, or one takes away what the other
// is in.
func (m *mistake) excludes(o *mistake) bool {
	return strings.HasPrefix(m.at+"/", o.at+"/") || strings.HasPrefix(o.at+"/", m.at+"/")
}

// meaningless is why one of two mistakes has no meaning beside the other.
func meaningless(a, b *mistake) *excuse {
	for i, e := range excuses {
		if strings.HasPrefix(a.says, e.one) && strings.HasPrefix(b.says, e.other) ||
			strings.HasPrefix(b.says, e.one) && strings.HasPrefix(a.says, e.other) {
			return &excuses[i]
		}
	}
	return nil
}
