package demands

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/csi-conformance.md anew")

const (
	root = "../../../.."
	page = root + "/docs/csi-conformance.md"
)

var declared = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf are the names of all tests of the repository, alone and behind the directory of their package.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			dir, _ := filepath.Rel(root, filepath.Dir(path)) // below it
			found[string(m[1])], found[dir+" "+string(m[1])] = true, true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEveryDemandIsShown: every demand names tests that exist, or says why there is none; docs/csi-conformance.md shows
// the list, and -update writes it.
func TestEveryDemandIsShown(t *testing.T) {
	known := testsOf(t)
	var b strings.Builder
	b.WriteString(head)
	for _, c := range chapters {
		fmt.Fprintf(&b, "\n## %s\n\n| specification | | demand | shown by |\n|---|---|---|---|\n", c.title)
		for _, d := range c.demands {
			if (len(d.tests) == 0) == (d.absent == "") {
				t.Errorf("%s, %q: it names either tests or why there is none", d.section, d.text)
			}
			var shown []string
			for _, name := range d.tests {
				if !known[name] {
					t.Errorf("%s, %q: there is no test %s", d.section, d.text, name)
				}
				dir, test, where := strings.Cut(name, " ")
				if !where {
					shown = append(shown, "`"+name+"`")
					continue
				}
				shown = append(shown, fmt.Sprintf("`%s` of %s", test, dir))
			}
			if d.absent != "" {
				shown = append(shown, "*"+d.absent+"*")
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", d.section, d.kind, d.text, strings.Join(shown, ", "))
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("docs/csi-conformance.md is old; go test ./internal/conformance/csi/demands -update writes it:\n%s",
			diff)
	}
}

const head = `# What the CSI specification demands of an orchestrator

The demands of the Container Storage Interface, version 1.12, on who calls plugins, and the tests that show how Berth
meets each. Beside them the oracle judges every call that any test makes, by [INVARIANTS.md](INVARIANTS.md), and the
meaning of every error code of every call stands in [STORAGE.md](STORAGE.md#what-an-answer-means). What is not built, or
never sent, says so. The list is kept in ` + "`internal/conformance/csi/demands`" + `, whose test checks that the named
tests exist and writes this page.
`
