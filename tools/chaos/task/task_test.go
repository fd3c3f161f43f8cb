package task

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLinesAreVerified: given a file of lines after a crash, then what was acknowledged must be there, in order, and
// only what was not may be missing, cut or damaged.
func TestLinesAreVerified(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		acked uint64
		last  uint64
		size  int64
		lost  bool
	}{
		"whole":                             {"1 a\n2 a\n3 b\n", 3, 3, 12, false},
		"more than was acknowledged":        {"1 a\n2 a\n", 1, 2, 8, false},
		"a cut line, not acknowledged":      {"1 a\n2 ", 1, 1, 4, false},
		"zeros, not acknowledged":           {"1 a\n\x00\x00\x00\x00\n", 1, 1, 4, false},
		"a cut line, acknowledged":          {"1 a\n2 ", 2, 0, 0, true},
		"an acknowledged line is missing":   {"1 a\n3 a\n", 3, 0, 0, true},
		"a line twice":                      {"1 a\n1 b\n2 b\n", 2, 0, 0, true},
		"an empty file, nothing ever acked": {"", 0, 0, 0, false},
		"an empty file":                     {"", 1, 0, 0, true},
	} {
		path := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		last, size, err := verify(path, c.acked)
		var v violation
		if last != c.last || size != c.size || errors.As(err, &v) != c.lost {
			t.Errorf("%s: last %d, size %d, %v", name, last, size, err)
		}
	}
	if _, _, err := verify(filepath.Join(t.TempDir(), "nothing"), 1); err == nil {
		t.Error("a file that is gone has lost what was acknowledged")
	}
}

// TestAWriterGoesOnWhereTheLastOneEnded: and writes on the same lines are counted on, acknowledged and noted; of two
// writers at once the second is a violation.
func TestAWriterGoesOnWhereTheLastOneEnded(t *testing.T) {
	dir := t.TempDir()
	k := &keeper{dir: dir, acks: t.TempDir(), name: "x"}
	result := filepath.Join(dir, "result")
	for run := 1; run <= 2; run++ {
		if err := k.write(3, result); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(result); err != nil || string(text) != fmt.Sprintf("ok %d", 3*run) {
			t.Errorf("run %d: %q, %v", run, text, err)
		}
	}
	if n, err := Acknowledged(filepath.Join(k.acks, "x.ack")); n != 6 || err != nil {
		t.Errorf("%d acknowledged, %v", n, err)
	}
	story, err := os.ReadFile(filepath.Join(k.acks, "x.story"))
	if err != nil || strings.Count(string(story), "start") != 2 || strings.Count(string(story), "stop") != 2 {
		t.Errorf("the story is %q, %v", story, err)
	}
	lock, err := os.Open(filepath.Join(k.acks, "x.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var v violation
	if err := k.write(1, result); !errors.As(err, &v) || !strings.Contains(v.Error(), "second writer") {
		t.Errorf("beside another writer: %v", err)
	}
}
