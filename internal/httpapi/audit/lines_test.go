package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/httpapi/audit"
)

// Given files of a record in which lines were damaged or cut off, when they are read, then each file is named with the
// numbers of those lines and how many they are; of whole ones, and of those that are not there, nothing is said.
func TestLinesThatTellOfNothingAreNamed(t *testing.T) {
	const good = `{"time":"2026-01-02T03:04:05Z","stage":"received","request":"r","who":"w","what":"GET /v1/x"}` +
		"\n"
	long := `{"x":"` + strings.Repeat("x", 200<<10) + `"}` + "\n"
	for name, c := range map[string]struct {
		text, says string
	}{
		"whole":                    {good + good, ""},
		"empty":                    {"", ""},
		"of a later version":       {strings.Replace(good, "{", `{"later":[1],`, 1), ""},
		"random bytes":             {good + "\x00\xff\x13\n" + good, "lines that tell of nothing: 1 (2)"},
		"the last one cut off":     {good + good[:40], "lines that tell of nothing: 1 (2)"},
		"one cut off, and others":  {good[:40] + "\n" + good, "lines that tell of nothing: 1 (1)"},
		"whole but for its end":    {good + strings.TrimSuffix(good, "\n"), "lines that tell of nothing: 1 (2)"},
		"JSON of something else":   {good + "{}\n[]\n" + good, "lines that tell of nothing: 2 (2, 3)"},
		"longer than any":          {good + long + good + "x\n", "lines that tell of nothing: 2 (2, 4)"},
		"longer than any, the end": {good + strings.TrimSuffix(long, "\n"), "lines that tell of nothing: 1 (2)"},
		"more than are named":      {strings.Repeat("x\n", 9), "lines that tell of nothing: 9 (1, 2, 3, 4, 5, …)"},
	} {
		for _, file := range []string{"audit.log", "audit.log.2", "audit.strangers.log"} {
			dir := t.TempDir()
			path := filepath.Join(dir, file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			bad := audit.Damaged(audit.Config{Path: filepath.Join(dir, "audit.log"), Files: 2})
			said := fmt.Sprint(errors.Join(bad...))
			if c.says == "" && said != "<nil>" || c.says != "" && !strings.HasPrefix(said, path+": "+c.says) {
				t.Errorf("%s, %s: %q does not say %q", name, file, said, c.says)
			}
		}
	}
}
