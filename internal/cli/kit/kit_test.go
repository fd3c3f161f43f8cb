package kit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/base/fault"
)

func plain() (*Env, *bytes.Buffer) {
	var out bytes.Buffer
	return New(strings.NewReader(""), &out, &out, func(string) string { return "" }, nil, ""), &out
}

// Given durations and sizes, when people read them, then they see the largest units.
func TestSpansAndSizes(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 900 * time.Millisecond: "0s", time.Second: "1s",
		90 * time.Second: "1m30s", time.Hour: "1h",
		time.Hour + 3*time.Second: "1h", 25 * time.Hour: "1d1h", 40 * 24 * time.Hour: "1mo10d", 400 * 24 *
			time.Hour: "1y1mo"} {
		if got := Span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 10 << 20: "10 MiB",
		5 << 40: "5 TiB", 1<<63 - 1: "8 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if AtNanos(0) != NA || Ago(0) != NA || AtPointer(nil) != NA || At(time.Time{}) != NA {
		t.Error("no time is N/A")
	}
	if got := Ago(time.Now().Add(90 * time.Second).UnixNano()); !strings.HasPrefix(got, "in 1m") {
		t.Errorf("a time to come: %s", got)
	}
}

// Given what agents answer, when it is shown, then it is one sentence without lists, line ends and what steers
// terminals.
func TestOneSentence(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                           "plain",
		"1 error occurred:\n\t* one.\n\n": "one",
		"2 errors occurred:\n\t* one\n\t* two; \n":            "one; two",
		"1 error occurred:\n\t* 1 error occurred:\n\t* deep.": "1 error occurred:; deep",
		"a\x1b[31mb\u202ec\x00\td":                            "a[31mbc d",
		"":                                                    "",
	} {
		if got := OneSentence(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// Given errors of agents and of our own, when what was tried is added, then their identity stays and nothing is
// repeated.
func TestDoing(t *testing.T) {
	if Doing(nil, "stop", "job", "a") != nil {
		t.Error("no error stays none")
	}
	missing := &api.StatusError{Code: 404, Body: "job not found"}
	err := Doing(missing, "stop", "job", "a")
	var status *api.StatusError
	if err.Error() != `stop job "a": job not found` || !errors.As(err, &status) || !fault.Has(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	if got := Doing(&api.StatusError{Code: 500, Body: `stop job "ns/a": it is held`}, "stop", "job",
		"a"); got.Error() != `stop job "ns/a": it is held` {
		t.Errorf("%v", got)
	}
	if got := Doing(errors.New("x"), "list", "jobs", ""); got.Error() != "list jobs: x" {
		t.Errorf("%v", got)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  int
		speak bool
	}{{nil, 0, false}, {errors.New("x"), 1, true}, {&Exit{Code: 2}, 2, false},
		{fmt.Errorf("w: %w", &Exit{Code: 3, Err: errors.New("x")}), 3, true}} {
		if code, speak := ExitCode(c.err); code != c.code || speak != c.speak {
			t.Errorf("%v: %d %v", c.err, code, speak)
		}
	}
}

// Given any cells, when a table is written, then every row is one line, columns are aligned, nothing is cut, and no
// line ends in space but for an empty last cell.
func TestTablesAreAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, out := plain()
		width := rapid.IntRange(1, 5).Draw(t, "columns")
		text := rapid.StringMatching(`[a-zäß\n\t\x1b ]{0,12}`)
		header := rapid.SliceOfN(rapid.StringMatching(`[A-Z]{1,6}`), width, width).Draw(t, "header")
		rows := rapid.SliceOfN(rapid.SliceOfN(text, 0, width), 0, 6).Draw(t, "rows")
		e.Out.Table(header, rows)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines for %d rows", len(lines), len(rows))
		}
		for i, row := range rows {
			at := 0
			for col := range header {
				want := None
				if col < len(row) && Clean(row[col]) != "" {
					want = Clean(row[col])
				}
				runes := []rune(lines[i+1])
				if string(runes[at:min(at+len([]rune(want)), len(runes))]) != want {
					t.Fatalf("row %d column %d of %q is not %q", i, col, lines[i+1], want)
				}
				widest := len([]rune(header[col]))
				for _, other := range rows {
					cell := None
					if col < len(other) && Clean(other[col]) != "" {
						cell = Clean(other[col])
					}
					widest = max(widest, len([]rune(cell)))
				}
				at += widest + 2
			}
		}
	})
}

// Given the beginning of an id, when an agent is asked, then it gets an even number of digits with hyphens in their
// places.
func TestAskedPrefixes(t *testing.T) {
	for in, want := range map[string]string{"4f": "4f", "4ff": "4f", "4ff1d9c5": "4ff1d9c5",
		"4ff1d9c5000": "4ff1d9c5-00", "4ff1d9c5000040008000000000000001": "4ff1d9c5-0000-4000-8000-000000000001"} {
		if got := asked(in); got != want {
			t.Errorf("%s: asked for %s, want %s", in, got, want)
		}
	}
	if _, err := hexPrefix("node", "4-"); err == nil {
		t.Error("one digit names nothing")
	}
}

// Given objects, when they are printed whole, then keys are sorted, numbers stay exact, and templates see the fields.
func TestFormats(t *testing.T) {
	v := &api.Evaluation{ID: "x<y", CreateIndex: 1<<63 + 1, FailedTGAllocs: map[string]*api.AllocationMetric{"g": nil}}
	e, out := plain()
	f := Formats{json: true}
	if err := f.Print(e.Out, v); err != nil ||
		!strings.Contains(out.String(), "    \"CreateIndex\": 9223372036854775809,\n") ||
		!strings.Contains(out.String(), "x<y") {
		t.Errorf("%v %s", err, out)
	}
	out.Reset()
	f = Formats{template: `{{.ID | upper}} {{default "none" .JobID}} {{toJson .FailedTGAllocs}} {{trunc 1 .ID}}`}
	if err := f.Print(e.Out, v); err != nil || out.String() != "X<Y none {\"g\":null} x\n" {
		t.Errorf("%v %s", err, out)
	}
	for _, bad := range []Formats{{template: "{{"}, {template: "{{.Nothing}}"}, {json: true, template: "x"}} {
		if err := bad.Print(e.Out, v); err == nil {
			t.Errorf("%+v must fail", bad)
		}
	}
}

// Given warnings of an agent, when they are shown, then each is a line of its own.
func TestWarnings(t *testing.T) {
	e, out := plain()
	e.Err.Warn("2 warnings:\n\n* one\n* two")
	e.Err.Warn("")
	if out.String() != "Warning: one\nWarning: two\n" {
		t.Errorf("%q", out)
	}
}

// Given nobody to ask, when a confirmation is wanted, then nothing is confirmed.
func TestConfirmNeedsAPerson(t *testing.T) {
	e, _ := plain()
	e.In = strings.NewReader("y\n")
	if err := e.Confirm(Agreement{}, "Sure?", "give -yes"); err == nil || !strings.Contains(err.Error(), "give -yes") {
		t.Errorf("%v", err)
	}
}
