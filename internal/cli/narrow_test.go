package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"berth/internal/testkit/pty"
)

// asItIs tells commands whose output is for programs, or copied as a whole: it is the same on every terminal.
func asItIs(command string) bool {
	for _, mark := range []string{" -json", " -t ", "inspect", " -help", " -h", "completion", "operator api",
		"job run -output", "policy info"} {
		if strings.Contains(command+" ", mark) {
			return true
		}
	}
	return false
}

// Given terminals of 60 and 80 columns, when people type what the transcripts say, then no line is wider than the
// terminal, unless it is a word that is copied as a whole, and no identifier at the begin of a row is cut.
func TestWhatPeopleReadFitsTheirTerminal(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ berth")
			if !ok || asItIs(command) {
				continue
			}
			for _, columns := range []int{60, 80} {
				fits(t, columns, command)
			}
		}
	}
}

// styles are what steers a terminal and takes no room on it.
var styles = regexp.MustCompile("\r?\x1b\\[[0-9]*[mK]")

func fits(t *testing.T, columns int, command string) {
	args := words(command)
	got := pty.Run(t, columns, func(terminal *os.File) {
		synctest.Test(t, func(t *testing.T) { writing(t.Context(), terminal, terminal, args...) })
	})
	for line := range strings.Lines(got) {
		line = styles.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
		_, value, pair := strings.Cut(line, " = ")
		if !pair {
			value = line
		}
		if utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(value), " ") {
			t.Errorf("berth%s\non %d columns: %s", command, columns, line)
		}
	}
}
