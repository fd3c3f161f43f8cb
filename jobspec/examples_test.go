package jobspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/jobspec"
)

// Given the examples that come with the program, when they are read, then each is a job or a volume without a mistake;
// one shows how a volume is made from another, and one from a snapshot.
func TestTheExamplesAreRead(t *testing.T) {
	files, err := filepath.Glob("../examples/*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	var clones, restored, jobs int
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(path, ".volume.hcl"):
			v, err := jobspec.ParseVolume(path, src)
			if err != nil {
				t.Error(err)
				continue
			}
			if v.CSI.CloneID != "" {
				clones++
			}
			if v.CSI.SnapshotID != "" {
				restored++
			}
		case strings.HasSuffix(path, ".nomad.hcl"):
			if _, err := jobspec.Parse(jobspec.ParseConfig{Path: path, Source: src}); err != nil {
				t.Error(err)
			}
			jobs++
		}
	}
	if clones == 0 || restored == 0 || jobs == 0 {
		t.Errorf("%d examples of a clone, %d of a volume from a snapshot, %d of a job", clones, restored, jobs)
	}
}
