package jobspec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/jobspec"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Given job files as people write them, when they are parsed, then the JSON is the golden one; and that JSON, given
// as a job itself, is the same job.
func TestJobFilesBecomeTheirGoldenJSON(t *testing.T) {
	files, err := filepath.Glob("testdata/jobs/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no job files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			job, err := jobspec.Parse(jobspec.ParseConfig{Path: file, Source: read(t, file), Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			enc := json.NewEncoder(&out)
			enc.SetIndent("", "  ")
			enc.SetEscapeHTML(false)
			if err := enc.Encode(job); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".nomad.hcl") + ".json"
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, golden)), out.String()); diff != "" {
				t.Errorf("the job differs from %s (run with -update if that is meant):\n%s", golden, diff)
			}
			again, err := jobspec.Parse(jobspec.ParseConfig{Path: golden, Source: out.Bytes()})
			if err != nil {
				t.Fatalf("the JSON is not a job: %v", err)
			}
			if diff := cmp.Diff(asJSON(t, job), asJSON(t, again)); diff != "" {
				t.Errorf("the job changed on its way through JSON:\n%s", diff)
			}
		})
	}
}

// Given the job files, when they are formatted, then nothing but spacing changes, and formatting again changes nothing.
func TestFormatIsStable(t *testing.T) {
	files, _ := filepath.Glob("testdata/jobs/*.hcl")
	for _, file := range files {
		src := read(t, file)
		messy := bytes.ReplaceAll(src, []byte("  "), []byte(" "))
		messy = bytes.ReplaceAll(messy, []byte("#!/bin"), []byte("#!/bin"))
		for _, in := range [][]byte{src, messy} {
			once, err := jobspec.Format(file, in)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			twice, err := jobspec.Format(file, once)
			if err != nil || !bytes.Equal(once, twice) {
				t.Errorf("%s: formatting twice differs from once: %v", file, err)
			}
		}
		if once, _ := jobspec.Format(file, src); !bytes.Equal(once, src) {
			t.Errorf("%s is not formatted:\n%s", file, cmp.Diff(string(src), string(once)))
		}
	}
	if _, err := jobspec.Format("x.hcl", []byte("job \"a\" {")); err == nil {
		t.Error("a document that is not valid was formatted")
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func asJSON(t *testing.T, job *api.Job) any {
	t.Helper()
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
