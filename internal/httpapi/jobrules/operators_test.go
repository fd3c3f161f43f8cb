package jobrules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheReferenceHasTheOperatorsThatAreTaken: given the page of job files, then the operators of a constraint that it
// names are those that are taken, no more and no fewer.
func TestTheReferenceHasTheOperatorsThatAreTaken(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/jobspec.md")
	if err != nil {
		t.Fatal(err)
	}
	_, constraint, _ := strings.Cut(string(page), "\n## constraint\n")
	_, row, found := strings.Cut(constraint, "| `operator` | text | = | `operator = \"!=\"` |")
	if !found {
		t.Fatal("the page has no row of the operator")
	}
	row, _, _ = strings.Cut(row, "\n")
	var named []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
		named = append(named, m[1])
	}
	taken := slices.Clone(operands)
	slices.Sort(named)
	slices.Sort(taken)
	if !slices.Equal(named, taken) {
		t.Errorf("the page names %q, taken are %q", named, taken)
	}
}
