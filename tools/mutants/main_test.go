package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/testkit/await"
)

// TestTheListsAreFresh: every entry's old text is found once, and its tests are there. Whether they fail by it is shown
// by `make mutants`.
func TestTheListsAreFresh(t *testing.T) {
	const root = "../.."
	list, err := readLists(filepath.Join(root, listDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh(root, list); err != nil {
		t.Error(err)
	}
}

const entry = `# a remark
== adds
promise: one and one are two
file: sum.go
test: ./ TestSum
<<<<
	return a + b
====
	return a - b
>>>>
`

func TestAnEntryLacksNothing(t *testing.T) {
	list, err := parseList("l.txt", entry+"\n"+strings.Replace(entry, "== adds", "== adds again", 1))
	if err != nil || len(list) != 2 || list[0].to != "\treturn a - b" || list[1].at != "l.txt:13" {
		t.Fatalf("%+v, %v", list, err)
	}
	for old, edited := range map[string]string{
		"promise: one and one are two\n": "",
		"file: sum.go\n":                 "",
		"test: ./ TestSum\n":             "",
		"./ TestSum":                     "TestSum",
		"a - b":                          "a + b",
		"\treturn a + b\n":               "",
		"====\n":                         "",
		"<<<<\n":                         "",
		">>>>\n":                         "",
		"promise: ":                      "promises: ",
	} {
		if list, err := parseList("l.txt", strings.Replace(entry, old, edited, 1)); err == nil {
			t.Errorf("with %q for %q it is taken as %+v", edited, old, list)
		}
	}
}

func TestANameIsGivenOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.txt": entry, "b.txt": entry})
	if _, err := readLists(dir); err == nil || !strings.Contains(err.Error(), "b.txt:2") {
		t.Errorf("two entries of one name: %v", err)
	}
}

// Given lists whose code or tests have changed, then they are stale, and that needs no compiler.
func TestAnEntryThatNoLongerFitsIsStale(t *testing.T) {
	for text, want := range map[string]string{
		"\treturn a + b\n":                 "",
		"\treturn b + a\n":                 "found 0 times",
		"\treturn a + b + 0\n":             "found 0 times",
		"\treturn a + b\n\treturn a + b\n": "found 2 times",
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"sum.go": text, "sum_test.go": "package sum\n\nfunc TestSum() {}\n"})
		list, err := parseList("l.txt", entry)
		if err != nil {
			t.Fatal(err)
		}
		err = fresh(dir, list)
		if got := errText(err); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %v", text, err)
		}
		list[0].tests[0].run = "TestProduct/zero"
		if err := fresh(dir, list); !strings.Contains(errText(err), "no test TestProduct") {
			t.Errorf("a test that is not there: %v", err)
		}
	}
}

func TestHowATestProgramEndedIsRead(t *testing.T) {
	failure := errors.New("exit status 1")
	for _, c := range []struct {
		err  error
		late bool
		out  string
		want verdict
	}{
		{nil, false, "PASS\n", survived},
		{nil, false, "testing: warning: no tests to run\nPASS\n", broken},
		{failure, false, "--- FAIL: TestX (0.00s)\n    x_test.go:1: no\nFAIL\n", killed},
		{failure, false, "panic: out of range\n\ngoroutine 1 [running]:\n", killed},
		{failure, false, "panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestX (1m0s)\n", hung},
		{failure, false, "--- FAIL: TestX (0.00s)\npanic: test timed out after 1m0s\n", killed},
		{failure, true, "", hung},
		{failure, false, "exec format error", broken},
	} {
		if got, _ := judgement(c.err, c.late, c.out); got != c.want {
			t.Errorf("%v, late %v, %q is %s, want %s", c.err, c.late, c.out, got, c.want)
		}
	}
}

// Given a module, when its mutants are made, then each comes to what it is, the tree is as it was, and one that is not
// killed fails the run.
func TestMutantsAreMade(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module sum\n",
		"sum.go": "package sum\n\nfunc sum(a, b int) int {\n\treturn a + b\n}\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\n" +
			"func TestSum(t *testing.T) {\n\tif sum(2, 3) != 5 {\n\t\tt.Error(\"five\")\n\t}\n}\n\n" +
			"func TestZero(t *testing.T) {\n\tif sum(0, 0) != 0 {\n\t\tt.Error(\"zero\")\n\t}\n}\n",
	}
	write(t, dir, files)
	r := &runner{root: dir, dir: t.TempDir(), timeout: time.Minute}
	mutantTo := func(to string, run ...string) mutant {
		m := mutant{name: to, file: "sum.go", from: "\treturn a + b", to: to}
		for _, name := range run {
			m.tests = append(m.tests, test{pkg: "./", run: name})
		}
		return m
	}
	list := []mutant{
		mutantTo("\treturn a - b", "TestZero", "TestSum"),
		mutantTo("\treturn a * b", "TestZero"),
		mutantTo("\treturn a", "TestNothing"),
		mutantTo("\treturn nothing", "TestSum"),
	}
	want := map[string]verdict{
		list[0].to: killed,
		list[1].to: survived,
		list[2].to: broken,
		list[3].to: broken,
	}
	if err := r.unmutated(t.Context(), list); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	outcomes, err := options{jobs: 2}.judgeAll(t.Context(), r, list, &out)
	if err != nil || len(outcomes) != len(list) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	for _, o := range outcomes {
		if o.verdict != want[o.m.to] {
			t.Errorf("%s came to %s, want %s: %s", o.m.to, o.verdict, want[o.m.to], o.text)
		}
	}
	if err := summary(outcomes, time.Second, &out); err == nil || !strings.Contains(out.String(), "1 killed, 3 not") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sum.go")); err != nil || string(got) != files["sum.go"] {
		t.Errorf("the tree was touched: %s, %v", got, err)
	}
	if err := r.unmutated(t.Context(), []mutant{mutantTo("x", "TestSum", "TestZero")}); err != nil {
		t.Error(err)
	}
	write(t, dir, map[string]string{"sum.go": strings.Replace(files["sum.go"], "+", "-", 1)})
	if err := r.unmutated(t.Context(), list); err == nil {
		t.Error("a test that fails anyway is not told")
	}
}

// Given a test that builds a program, then what it builds is the mutant.
func TestWhatATestBuildsIsTheMutant(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":  "module probe\n",
		"main.go": "package main\n\nimport \"os\"\n\nfunc main() {\n\tos.Exit(0)\n}\n",
		"main_test.go": "package main\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\n" +
			"func TestRun(t *testing.T) {\n\tif err := exec.Command(\"go\", \"run\", \".\").Run(); err != nil {\n" +
			"\t\tt.Error(err)\n\t}\n}\n",
	})
	r := &runner{root: dir, dir: t.TempDir(), timeout: time.Minute}
	m := mutant{
		file:  "main.go",
		tests: []test{{pkg: "./", run: "TestRun"}},
		from:  "\tos.Exit(0)",
		to:    "\tos.Exit(1)",
	}
	if got := r.judge(t.Context(), m); got.verdict != killed {
		t.Errorf("it came to %s: %s", got.verdict, got.text)
	}
}

// TestTheVariableIsTheOneThatTestsRead, or mutants would wait as long as a busy machine may need.
func TestTheVariableIsTheOneThatTestsRead(t *testing.T) {
	if patience != await.Variable {
		t.Errorf("tests read %s", await.Variable)
	}
}

// A seed picks the same mutants each time, and is printed.
func TestASeedPicksTheSameAgain(t *testing.T) {
	pick := func(seed uint64) (string, string) {
		var list []mutant
		for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
			list = append(list, mutant{name: name, file: "x/" + name, tests: []test{{}}})
		}
		var out, names strings.Builder
		list, err := options{seed: seed, n: 10, run: "[b-y]"}.choose(list, &out)
		if err != nil || len(list) != 10 {
			t.Fatalf("%d, %v", len(list), err)
		}
		for _, m := range list {
			names.WriteString(m.name)
		}
		return names.String(), out.String()
	}
	first, report := pick(7)
	again, _ := pick(7)
	other, _ := pick(8)
	if first != again || first == other || !strings.Contains(report, "-seed 7 -n 10") {
		t.Errorf("%s, %s, %s: %s", first, again, other, report)
	}
	if _, today := pick(0); strings.Contains(today, "-seed 0 ") {
		t.Errorf("the day's seed is not told: %s", today)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Given an entry whose end is forgotten, then it does not swallow the next one.
func TestAnEntryEndsBeforeTheNextBegins(t *testing.T) {
	text := strings.Replace(entry, ">>>>\n", "", 1) + strings.Replace(entry, "== adds", "== adds again", 1)
	if list, err := parseList("l.txt", text); err == nil || !strings.Contains(err.Error(), `"adds" does not end`) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Given mutants of which some do not compile, then those are named, with their place, and no other.
func TestWhatDoesNotCompileIsNamed(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"sum.go": "package sum\n\nimport \"strings\"\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n\n" +
			"func Up(s string) string {\n\treturn strings.ToUpper(s)\n}\n",
	})
	unknown := strings.NewReplacer("== adds", "== unknown", "a - b", "a - c").Replace(entry)
	unused := strings.NewReplacer("== adds", "== unused",
		"return a + b", "return strings.ToUpper(s)", "return a - b", "return s").Replace(entry)
	open := strings.NewReplacer("== adds", "== open", "a - b", "a - (b").Replace(entry)
	list, err := parseList("l.txt", entry+unknown+unused+open)
	if err != nil {
		t.Fatal(err)
	}
	err = compile(t.Context(), root, list)
	for name, want := range map[string]bool{"adds": false, "unknown": true, "unused": true, "open": true} {
		says := fmt.Sprintf("%q does not compile: %s:", name, filepath.Join(root, "sum.go"))
		if got := err != nil && strings.Contains(err.Error(), says); got != want {
			t.Errorf("%s is named: %v, want %v: %v", name, got, want, err)
		}
	}
}
