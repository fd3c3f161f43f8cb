package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEveryRuleFindsWhatItForbids loads the small trees of testdata. Each holds code that breaks one rule and code that
// obeys it, and says at its head what must be found: all of it, and nothing else.
func TestEveryRuleFindsWhatItForbids(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			name := filepath.Join("testdata", strings.ReplaceAll(rule.Name, " ", "_")+".txt")
			want, fsys := fixture(t, name)
			if len(want) == 0 {
				t.Fatalf("%s wants nothing: the rule is not shown to fail", name)
			}
			tree, err := Load(fsys)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range rule.Check(tree) {
				got = append(got, f.String())
			}
			slices.Sort(got)
			slices.Sort(want)
			for _, line := range got {
				if !slices.Contains(want, line) {
					t.Errorf("found too much: %s", line)
				}
			}
			for _, line := range want {
				if !slices.Contains(got, line) {
					t.Errorf("not found: %s", line)
				}
			}
		})
	}
}

func TestEveryFixtureBelongsToARule(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(Rules()) {
		t.Errorf("%d fixtures for %d rules: %v", len(files), len(Rules()), files)
	}
}

func TestAWaiverAllowsSoMuchAndNoMore(t *testing.T) {
	rule := Rule{Name: "two words", Check: func(*Tree) []Finding {
		return []Finding{{Path: "a.go", Line: 1}, {Path: "a.go", Line: 2}, {Path: "b.go"}}
	}}
	for line, want := range map[string]int{
		"waive two-words a.go 2 : because": 1, "waive two-words a.go 1 : because": 3,
		"waive two-words a.go 3 : because": 2,
		"waive two-words a.go 2":           4, "waive other a.go 2 : because": 3, "# nothing": 3,
	} {
		tree, err := Load(fstest.MapFS{"go.mod": {Data: []byte("module berth\n")}, ratchetFile: {Data: []byte(line)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := Judge(tree, rule); len(got) != want {
			t.Errorf("with %q: %d findings, want %d: %v", line, len(got), want, got)
		}
	}
}

// fixture reads lines "want: …" and files that follow lines "-- path --". A line "@60 text" stands for 60 times text.
func fixture(t *testing.T, name string) (want []string, fsys fstest.MapFS) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fsys = fstest.MapFS{"go.mod": {Data: []byte("module berth\n")}}
	current := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			current = strings.TrimSuffix(path, " --")
			fsys[current] = &fstest.MapFile{}
			continue
		}
		if current != "" {
			fsys[current].Data = append(fsys[current].Data, repeated(line)...)
		} else if w, ok := strings.CutPrefix(strings.TrimSpace(line), "want: "); ok {
			want = append(want, w)
		}
	}
	return want, fsys
}

func repeated(line string) string {
	times, text, ok := strings.Cut(strings.TrimPrefix(line, "@"), " ")
	n, err := strconv.Atoi(times)
	if !ok || err != nil || !strings.HasPrefix(line, "@") {
		return line
	}
	return strings.Repeat(text, n)
}
