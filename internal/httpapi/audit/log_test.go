package audit

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

func opened(t *testing.T, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func say(t *testing.T, l *Log, object string) {
	t.Helper()
	if err := l.write(&Line{Object: object}); err != nil {
		t.Fatal(err)
	}
}

// objects are those of which the lines of a file tell, in order.
func objects(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		_, after, _ := strings.Cut(line, `"object":"`)
		object, _, _ := strings.Cut(after, `"`)
		out = append(out, object)
	}
	return strings.Join(out, " ")
}

// Given a record of an agent that has ended, perhaps within a line, when the next one begins, then it goes on behind
// what is there, on a line of its own, in a file of nobody else.
func TestARecordGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "audit.log")
	cfg := Config{Path: path, MaxBytes: 1 << 20, Files: 1}
	say(t, opened(t, cfg), "first")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	next := opened(t, cfg)
	say(t, next, "second")
	say(t, next, "third")
	if got := objects(t, path); got != "first  second third" {
		t.Errorf("%q", got)
	}
	for at, mode := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(at); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", at, st.Mode(), err)
		}
	}
}

// Given a caller who writes what terminals act on into what he asks for, when somebody has the record shown as it is,
// then nothing of it is there but letters; and whoever decodes a line has what the caller wrote.
func TestALineHasNothingThatATerminalActsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := opened(t, Config{Path: path, MaxBytes: 1 << 20, Files: 1})
	written := "a"
	for r := rune(0); r <= 0xa0; r++ { // C0, ASCII, DEL, C1
		written += string(r)
	}
	written += "\u061c\u200b\u200f\u202e\u2028\u2066\ufeff\U000e0001 é 字 \U0001f600 \\u009b"
	say(t, l, written)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line, ended := strings.CutSuffix(string(raw), "\n")
	hidden := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	if at := strings.IndexFunc(line, hidden); at >= 0 {
		t.Errorf("at byte %d of the line: %q", at, line[at:])
	}
	if !strings.Contains(line, "é 字 \U0001f600") {
		t.Errorf("what can be read is escaped, too: %s", line)
	}
	var back Line
	if err := json.Unmarshal([]byte(line), &back); err != nil || !ended || back.Object != written {
		t.Errorf("it comes back as %q: %v", back.Object, err)
	}
}

// Given files of a few lines, then the full ones are kept, the newest first, and no more than were asked for.
func TestFullFilesAreKeptByTheirNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	one := opened(t, Config{Path: path + ".size", MaxBytes: 1 << 20})
	say(t, one, "0")
	l := opened(t, Config{Path: path, MaxBytes: 2 * one.size, Files: 2})
	for _, object := range strings.Fields("0 1 2 3 4 5 6") {
		say(t, l, object)
	}
	for at, want := range map[string]string{path: "6", path + ".1": "4 5", path + ".2": "2 3"} {
		if got := objects(t, at); got != want {
			t.Errorf("%s: %q", at, got)
		}
	}
	if _, err := os.Stat(path + ".3"); !os.IsNotExist(err) {
		t.Errorf("one too many: %v", err)
	}
}

// Given a record that somebody has moved away, as programs do that keep logs, then the next line is at its path.
func TestARecordIsWhereItsPathSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := opened(t, Config{Path: path, MaxBytes: 1 << 20, Files: 2})
	say(t, l, "first")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	say(t, l, "second")
	if got := objects(t, path); got != "second" {
		t.Errorf("%q", got)
	}
}

// Given a link in the place of the record, then nothing is written through it.
func TestARecordIsNoLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.Symlink(path+".there", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// Given a change that was begun, when its end cannot be written any more, then the answer does not tell of success.
func TestAnEndThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	l := opened(t, Config{Path: filepath.Join(t.TempDir(), "audit.log"), MaxBytes: 1 << 20})
	full := opened(t, Config{Path: "/dev/full"})
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Of(r.Context()).Begin(r, "PUT /x", ByMethod, ids.DefaultNamespace); err != nil {
			t.Error(err)
		}
		l.file, l.is = full.file, full.is
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("done"))
	}))
	out := httptest.NewRecorder()
	h.ServeHTTP(out, httptest.NewRequest(http.MethodPut, "/x", nil))
	if said := out.Body.String(); out.Code != http.StatusInternalServerError || strings.Contains(said, "done\n") ||
		!strings.Contains(said, "ended with status 200") || out.Header().Get("Content-Encoding") != "" {
		t.Errorf("%d %s", out.Code, said)
	}
}

// Given a call that another agent passed on, then it is recorded before it is made and when it has ended, with who
// makes it and by whom; where the record cannot be written, it is not made, and its success is not told.
func TestACallThatIsPassedOnIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := opened(t, Config{Path: path, MaxBytes: 1 << 20})
	deed := Deed{
		Who:    "token 1",
		Known:  true,
		From:   "node n at 10.0.0.2:1",
		What:   "ACL.PolicyPut",
		Object: "dev",
	}
	for _, failed := range []error{nil, fault.New(fault.Denied, "", "Permission denied", "it is no management token")} {
		end, err := l.Deed(deed)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(failed); err != nil {
			t.Error(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines: %s", len(lines), raw)
	}
	for i, want := range []string{`"stage":"received"`, `"status":200`, `"stage":"received"`, `"status":403`} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `"from":"node n at 10.0.0.2:1"`) ||
			!strings.Contains(lines[i], `"who":"token 1"`) || !strings.Contains(lines[i], `"object":"dev"`) {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
	end, err := l.Deed(deed)
	if err != nil {
		t.Fatal(err)
	}
	full := opened(t, Config{Path: "/dev/full"})
	l.file, l.is = full.file, full.is
	if err := end(nil); err == nil || !strings.Contains(err.Error(), "ended with status 200") {
		t.Errorf("an end that cannot be written: %v", err)
	}
	if _, err := l.Deed(deed); err == nil {
		t.Error("what cannot be recorded may be done")
	}
}
