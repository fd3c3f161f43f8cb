package mounts_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/server/mounts"
)

var update = flag.Bool("update", false, "rewrite the table in testdata")

// TestWhoseWordAboutAMountCounts: for every combination of facts, as testdata/believed.txt says.
func TestWhoseWordAboutAMountCounts(t *testing.T) {
	names := []string{"given", "unremembered", "older", "vouched", "together", "elsewhere", "unattached"}
	var b strings.Builder
	for bits := range 1 << len(names) {
		set := make([]bool, len(names))
		var said []string
		for i := range names {
			if set[i] = bits&(1<<i) > 0; set[i] {
				said = append(said, names[i])
			}
		}
		got := mounts.Decide(mounts.Facts{
			Given:        set[0],
			Unremembered: set[1],
			Older:        set[2],
			Vouched:      set[3],
			Together:     set[4],
			Elsewhere:    set[5],
			Unattached:   set[6],
		})
		// What an honest node may have done by a state that this one does not know is believed, whatever else holds.
		if honest := set[0] || set[1] || set[2] || set[3] || set[4]; honest && got != mounts.Believed {
			t.Errorf("%v: %s", said, got)
		}
		fmt.Fprintf(&b, "%s: %s\n", strings.Join(append([]string{"-"}, said...), " "), got)
	}
	path := filepath.Join("testdata", "believed.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("%s has changed; see the difference with -update:\n%s", path, b.String())
	}
}
