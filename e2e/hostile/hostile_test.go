package hostile_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/e2e/hostile"
)

var update = flag.Bool("update", false, "write the list in the page anew")

// page is where people read of the attempts, between the two marks.
const (
	page  = "../../docs/security.md"
	begin = "<!-- attempts: written by go test ./e2e/hostile -update -->\n"
	end   = "<!-- end of attempts -->\n"
)

func all() []hostile.Attempt { return append(hostile.Within(hostile.Site{}), hostile.Outside()...) }

func TestThePageListsEveryAttemptWithItsAnswer(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	listed, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no list of attempts", page)
	}
	var want strings.Builder
	want.WriteString("\n| attempt | answer |\n|---|---|\n")
	for _, a := range all() {
		fmt.Fprintf(&want, "| %s | %s |\n", a.Name, strings.Join(a.Want, ", "))
	}
	want.WriteString("\n")
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), listed); diff != "" {
		t.Errorf("%s is not what is tried; write it anew by -update:\n%s", page, diff)
	}
}

// An attempt that counts as refused when it succeeds would hold nothing.
func TestNoAttemptIsMeantToSucceed(t *testing.T) {
	ordinary := []string{"system call: clone", "system call: socket route", "system call: socket unix",
		"system call: socket inet"}
	names := map[string]bool{}
	for _, a := range all() {
		if names[a.Name] {
			t.Errorf("%q stands twice", a.Name)
		}
		names[a.Name] = true
		if len(a.Want) == 0 || slices.Contains(a.Want, hostile.Allowed) != slices.Contains(ordinary, a.Name) {
			t.Errorf("%q may be answered by %v", a.Name, a.Want)
		}
	}
}

// TestEveryTestOfThePageIsThere: a row whose test was renamed or removed is a promise that nothing holds.
func TestEveryTestOfThePageIsThere(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{"api", "cmd", "e2e", "internal", "jobspec"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
				there[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("%s names %s, and there is no such test", page, m[1])
		}
	}
	if len(named) < 100 {
		t.Errorf("only %d tests are named", len(named))
	}
}
