package arch

import (
	"os"
	"slices"
	"testing"
)

// TestTheTreeObeysItsLaws runs every rule on the repository.
func TestTheTreeObeysItsLaws(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) < 5 {
		t.Fatalf("only %d packages found: the rules would guard nothing", len(tree.Packages))
	}
	for _, rule := range Rules() {
		if slices.Contains(pending, rule.Name) {
			continue
		}
		t.Run(rule.Name, func(t *testing.T) {
			report(t, rule, Judge(tree, rule))
		})
	}
}

// report shows findings in a stable order, each reason once.
func report(t *testing.T, rule Rule, found []Finding) {
	t.Helper()
	byWhy := map[string][]string{}
	for _, f := range found {
		why := f.Why
		if why == "" {
			why = rule.Reason
		}
		byWhy[why] = append(byWhy[why], f.String())
	}
	whys := make([]string, 0, len(byWhy))
	for why := range byWhy {
		whys = append(whys, why)
	}
	slices.Sort(whys)
	for _, why := range whys {
		places := byWhy[why]
		slices.Sort(places)
		for _, place := range slices.Compact(places) {
			t.Errorf("%s", place)
		}
		t.Logf("  reason: %s", why)
	}
}
