package kit

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/testkit/pty"
)

// on writes to a terminal of so many columns, without colours.
func on(t testing.TB, columns int, write func(p *Printer)) []string {
	t.Helper()
	text := pty.Run(t, columns, func(terminal *os.File) {
		env := func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
		write(New(strings.NewReader(""), terminal, terminal, env, nil, "").Out)
	})
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Given a table that is wider than the terminal, when it is written, then the longest names lose their middle, the
// identifiers stay whole, and what is no terminal gets everything.
func TestATableFitsItsTerminal(t *testing.T) {
	header := []string{"ID", "Node Pool", "Name", "Status"}
	rows := [][]string{{"0a1b2c3d", "default", "a-machine-with-a-long-name.in.the.basement.example.org", "ready"},
		{"4ff1d9c5", "default", "short", "down"}}
	expect(t, on(t, 60, func(p *Printer) { p.Table(header, rows) }),
		"ID        Node     Name                               Status",
		"          Pool",
		"0a1b2c3d  default  a-machine-with-a…ment.example.org  ready",
		"4ff1d9c5  default  short                              down")
	e, out := plain()
	e.Out.Table(header, rows)
	if !strings.Contains(out.String(), rows[0][2]) {
		t.Errorf("what is no terminal gets %s", out)
	}
}

// Given sentences in a table, when the terminal is narrow, then they are folded at words within their column; names
// are shortened only if that is not enough.
func TestSentencesAreFoldedWithinTheirColumn(t *testing.T) {
	header := []string{"Time", "Type", "Description"}
	rows := [][]string{{"2026-01-02T03:04:05Z", "Storage Waiting", "volume \"db\" is still mounted on node ash"},
		{"2026-01-02T03:04:06Z", "Started", "Task started"}}
	expect(t, on(t, 64, func(p *Printer) { p.Table(header, rows) }),
		"Time                  Type             Description",
		"2026-01-02T03:04:05Z  Storage Waiting  volume \"db\" is still",
		"                                       mounted on node ash",
		"2026-01-02T03:04:06Z  Started          Task started")
}

// Given identifiers that are longer than names beside them, when the terminal is narrow, then the names give way.
func TestIdentifiersStayWhole(t *testing.T) {
	id := "a-job-with-a-long-id-that-is-typed"
	expect(t, on(t, 56, func(p *Printer) {
		p.Table([]string{"Name", "Job ID", "Node"}, [][]string{{"first", id, "a-node-with-a-long-name"}})
	}),
		"Name   Job ID                              Node",
		"first  "+id+"  a-node…g-name")
}

// Given a table with long headers, when the terminal is narrow, then they are folded before any name is shortened.
func TestHeadersAreFolded(t *testing.T) {
	rows := [][]string{{"web", "0", "12", "a-name-that-fits-as-it-is"}, {"db", "1", "3", "<none>"}}
	expect(t, on(t, 52, func(p *Printer) {
		p.Table([]string{"Task Group", "Old Version", "Placement Failures", "Node"}, rows)
	}),
		"Task   Old      Placement  Node",
		"Group  Version  Failures",
		"web    0        12         a-name-that-fits-as-it-is",
		"db     1        3          <none>")
}

// Given a table whose identifiers alone are too wide, when it is written, then each row is a list.
func TestARowThatFitsNoLineIsAList(t *testing.T) {
	id := "0a1b2c3d-0000-4000-8000-000000000001"
	rows := [][]string{{id, id, "running"}, {id, "x", "a sentence that is folded beside its key"}}
	expect(t, on(t, 60, func(p *Printer) { p.Table([]string{"ID", "Node ID", "Status"}, rows) }),
		"ID      = "+id, "Node ID = "+id, "Status  = running", "",
		"ID      = "+id, "Node ID = x", "Status  = a sentence that is folded beside its key")
}

// Given long values and sentences, when they are written to a terminal, then they are folded at words with a hanging
// indent, and words stay whole.
func TestLongLinesHang(t *testing.T) {
	expect(t, on(t, 40, func(p *Printer) {
		p.Pairs(Pairs{{"State", "waits for volume \"db\" to leave node ash"}, {"ID", "x"}})
		p.Printf("* the node does not say what the tasks use, %s\n", "which it should")
		p.Printf("%s\n", "/a/path/that/is/longer/than/the/terminal/is/wide")
		p.Text("what programs read is written as it is, however long\n")
	}),
		"State = waits for volume \"db\" to leave", "        node ash", "ID    = x",
		"* the node does not say what the tasks", "  use, which it should",
		"/a/path/that/is/longer/than/the/terminal/is/wide",
		"what programs read is written as it is, however long")
}

// Given any table and any width, when it is fitted, then no line is wider, and no cell of the first column is cut.
func TestAnyTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 6).Draw(t, "columns")
		header := rapid.SliceOfN(rapid.SampledFrom([]string{"ID", "Node ID", "Name", "Status", "Description"}), columns,
			columns).Draw(t, "header")
		cell := rapid.OneOf(
			rapid.StringMatching(`[a-zß0-9]{9,30}`),
			rapid.StringMatching(`[a-z]{1,40}( [a-z]{1,9}){3,9}`),
			rapid.StringMatching(`[0-9]{1,12}`))
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, columns, columns), 1, 4).Draw(t, "rows")
		terminal := rapid.IntRange(leastTerminal, 100).Draw(t, "terminal")
		widths, fits := fitted(header, rows, terminal)
		if !fits {
			return
		}
		total := len(gap) * (columns - 1)
		for i, w := range widths {
			total += w
			for _, row := range rows {
				var whole string
				for _, line := range cells(row[i], w) {
					if len([]rune(line)) > w {
						t.Fatalf("%q is wider than its column of %d", line, w)
					}
					whole += line
				}
				joined := func(text string) string { return strings.ReplaceAll(text, " ", "") }
				if (i == 0 || typed(header[i])) && joined(whole) != joined(row[i]) {
					t.Fatalf("column %d lost a part of %q: %q", i, row[i], whole)
				}
			}
		}
		if total > terminal {
			t.Fatalf("%d columns on a terminal of %d", total, terminal)
		}
	})
}
