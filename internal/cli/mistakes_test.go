package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tables are what end-to-end tests play, with the heading of each on the page.
var tables = [][2]string{
	{"mistakes.txt", "Job files and commands"},
	{"mistakes-volumes.txt", "Volumes"},
	{"mistakes-users.txt", "Users"},
	{"mistakes-root.txt", "An agent that is not root"},
}

const mistakesHead = `# Mistakes, and what is said of them

What people get wrong, the words by which Berth answers, and the way out that stands in them. Each row is played by an
end-to-end test with the real program (` + "`e2e/testdata/mistakes*.txt`" + `), and this page is made of their tables.
FILE is a file with the mistake, other capitals stand for an address or a port. An answer says more than what is shown
of it here.
`

// TestThePageOfMistakesIsThatOfTheTables: what the page promises is what the tests have the program say.
func TestThePageOfMistakesIsThatOfTheTables(t *testing.T) {
	const page = "../../docs/mistakes.md"
	var b strings.Builder
	b.WriteString(mistakesHead)
	for _, table := range tables {
		b.WriteString("\n## " + table[1] + "\n\n| mistake | berth … | what is said |\n|---|---|---|\n")
		rows(t, &b, "../../e2e/testdata/"+table[0])
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("%s is not what the tables say (-update rewrites it):\n%s", page, diff)
	}
}

// rows writes a row of the page for each mistake of a table.
func rows(t *testing.T, b *strings.Builder, table string) {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range strings.Split("\n"+string(text), "\n== ")[1:] {
		lines := strings.Split(strings.TrimSpace(entry), "\n")
		command, said := "", []string{}
		for _, line := range lines[1:] {
			if c, ok := strings.CutPrefix(line, "$ berth "); ok {
				command = code(c)
			}
			if s, ok := strings.CutPrefix(line, "> "); ok {
				said = append(said, code(s))
			}
		}
		if command == "" || len(said) == 0 {
			t.Fatalf("%s: %s has no command, or no answer", table, lines[0])
		}
		b.WriteString("| " + strings.ReplaceAll(lines[0], "|", `\|`) + " | " + command + " | " +
			strings.Join(said, "<br>") + " |\n")
	}
}

// code shows a text as it is, within a table.
func code(text string) string {
	fence := "`"
	if strings.Contains(text, "`") {
		fence = "``"
	}
	return fence + strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`) + fence
}
