package ids_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/ids"
)

// checks are the validators, one column of the table below each.
var checks = []struct {
	name  string
	valid func(string) error
}{
	{"volume", ids.ValidVolume}, {"name", ids.ValidName}, {"job", ids.ValidJob}, {"task", ids.ValidTask},
}

// adversaries are the identifiers that people and attackers send, and who accepts them: v(olume), n(ame), j(ob),
// t(ask).
var adversaries = []struct{ id, accepted string }{
	{"db", "vnjt"}, {"0", "vnjt"}, {"a.b_c-d", "vnjt"}, {"db[0]", "vjt"}, {"a..b", "jt"}, {"data.", "vnjt"},
	{"", ""}, {".", ""}, {"..", ""}, {".hidden", "j"}, {"...", "j"}, {"-leading", "jt"}, {"[0]", "jt"}, {"_x", "jt"},
	{"/", ""}, {"/etc", ""}, {"a/", ""}, {"a//b", ""}, {"a/b", "j"}, {"a/../b", ""}, {"../x", ""}, {"a/./b", ""},
	{"backup/periodic-1700000000", "j"},
	{`a\b`, "j"}, {`..\x`, "j"}, {"%2e%2e%2f", "jt"}, {"a:b", "jt"}, {"*", "jt"}, {"?", "jt"}, {"a=b,c", "jt"},
	{"a\x00b", ""}, {"a\nb", ""}, {"a\tb", ""}, {"a\x1b[31m", ""}, {"a\x7f", ""}, {"a\u009b31m", ""}, {"a\u2028b", ""},
	{"a\u00a0b", ""},
	{" ", "t"}, {"a b", "t"}, {"\u202egpj.exe", ""}, {"a\u200bb", ""}, {"\xff\xfe", ""}, {"a\xc3\x28", ""},
	{"größe", "jt"}, {"раypal", "jt"}, {"e\u0301", "jt"}, {"数据库", "jt"},
	{strings.Repeat("a", 128), "vnjt"}, {strings.Repeat("a", 129), ""}, {strings.Repeat("a", 4096), ""},
	{strings.Repeat("é", 65), ""},
	{"default", "vnjt"}, {"staging", "vnjt"}, {"per-alloc", "vnjt"}, {"lost+found", "jt"}, {"alloc", "vnj"}, {"Alloc",
		"vnjt"},
}

func TestWhoAcceptsWhat(t *testing.T) {
	for _, row := range adversaries {
		for _, c := range checks {
			err := c.valid(row.id)
			want := strings.Contains(row.accepted, c.name[:1])
			if (err == nil) != want {
				t.Errorf("%s %q: error %v, accepted should be %v", c.name, row.id, err, want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x00\n\t\x1b\u009b\u202e") {
				t.Errorf("the refusal of %s %q repeats what steers a terminal: %v", c.name, row.id, err)
			}
		}
	}
}

func TestAnAcceptedNameNeverLeavesItsDirectory(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./\\a-b\[\] ]{1,12}`)).Draw(t, "id")
		for _, c := range checks[:2] {
			if c.valid(id) == nil && filepath.Dir(filepath.Join(root, id)) != root {
				t.Errorf("%s %q leaves its directory", c.name, id)
			}
		}
		if ids.ValidTask(id) == nil && filepath.Dir(filepath.Join(root, id)) != root {
			t.Errorf("task %q leaves its directory", id)
		}
	})
}

func TestASegmentIsSafeWhateverTheText(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	seen := map[string]string{}
	for _, row := range adversaries {
		seg := ids.Segment(row.id)
		if other, taken := seen[seg]; taken {
			t.Errorf("%q and %q share the segment %s", row.id, other, seg)
		}
		seen[seg] = row.id
		if len(seg) != 24 || strings.Trim(seg, "0123456789abcdef") != "" {
			t.Errorf("segment %q of %q is not 24 hex digits", seg, row.id)
		}
		if err := root.Mkdir(seg, 0o700); err != nil {
			t.Errorf("make a directory for %q: %v", row.id, err)
		}
	}
}

func TestSegmentsOfSeveralPartsDoNotRunTogether(t *testing.T) {
	lists := [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"1:a"}, {"a1:"}, {}}
	seen := map[string][]string{}
	for _, parts := range lists {
		seg := ids.Segment(parts...)
		if other, taken := seen[seg]; taken {
			t.Errorf("%q and %q share a segment", parts, other)
		}
		seen[seg] = parts
	}
	if got := ids.Segment("csi", "vol-1"); got != "11d1916cf93b8bdd4477e453" {
		t.Errorf("a segment changed to %s: it names directories that exist on nodes", got)
	}
}

func TestNewIdsAreRandomUUIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := ids.New()
		if !ids.IsUUID(id) || id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Fatalf("%q is no UUID of version 4", id)
		}
		if seen[id] {
			t.Fatalf("%q came twice", id)
		}
		seen[id] = true
	}
}

func TestWhatIsAUUID(t *testing.T) {
	for id, want := range map[string]bool{
		"5b1c6a3e-0d1f-4b6a-9c77-0123456789ab": true, "5B1C6A3E-0D1F-4B6A-9C77-0123456789AB": true,
		"": false, "5b1c6a3e": false, "5b1c6a3e-0d1f-4b6a-9c77-0123456789a": false,
		"5b1c6a3e-0d1f-4b6a-9c77-0123456789abc": false,
		"5b1c6a3e_0d1f_4b6a_9c77_0123456789ab":  false, "5b1c6a3e-0d1f-4b6a-9c77-0123456789ag": false,
		"../../../../../../../../../etc/passwd": false,
	} {
		if got := ids.IsUUID(id); got != want {
			t.Errorf("IsUUID(%q) is %v", id, got)
		}
	}
}

func TestShortIsWhatPeopleRead(t *testing.T) {
	if got := ids.Short(ids.Alloc("5b1c6a3e-0d1f-4b6a-9c77-0123456789ab")); got != "5b1c6a3e" {
		t.Errorf("short form %q", got)
	}
	if got := ids.Short("abc"); got != "abc" {
		t.Errorf("short form of a short id %q", got)
	}
}

func TestTyped(t *testing.T) {
	for ns, want := range map[ids.Namespace]string{"": "db", ids.DefaultNamespace: "db", "prod": "-namespace prod db"} {
		if got := ids.Typed(ns, ids.Volume("db")); got != want {
			t.Errorf("in %q: %q, want %q", ns, got, want)
		}
	}
}

// Given ids of every kind, when a sentence names a command that is about one, then a shell reads the id from it, as one
// word and nothing else.
func TestACommandInASentenceIsWhatAShellReads(t *testing.T) {
	for _, id := range []string{"db", "db[0]", "a/b", `back\slash`, `quo"te'$(id)` + "`id`", "a=b&c;d|e", "*?{}~!#<>",
		"-dash", "ünïcode/…", "per%2Fcent"} {
		text := ids.Typed(ids.Namespace("other"), id)
		out, err := exec.Command("/bin/sh", "-c", "printf '%s\\n' "+text).Output()
		want := "-namespace\nother\n" + id + "\n"
		if strings.HasPrefix(id, "-") {
			want = "-namespace\nother\n--\n" + id + "\n"
		}
		if err != nil || string(out) != want {
			t.Errorf("%q is typed as %s, which is read as %q: %v", id, text, out, err)
		}
	}
	if got := ids.Typed(ids.DefaultNamespace, "db"); got != "db" {
		t.Errorf("an ordinary id is typed as %s", got)
	}
}
