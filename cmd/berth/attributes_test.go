package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/internal/testkit/reference"
	"berth/jobspec"
)

// effects are where the effect of attributes on tasks is shown.
const effects = "../../e2e/testdata/attributes.txt"

// Given all attributes that a job can have, then the list of their effects on tasks has each once: with a command that
// is played, with a test that there is, beside which the attribute is named, or with the reason why no task shows it.
func TestTheEffectOfEveryAttributeIsShown(t *testing.T) {
	members := map[string]string{}
	var known []string
	for _, e := range jobspec.JobEntries() {
		key := lastOf(e.In) + "." + e.Name
		if strings.HasSuffix(e.Type, "block") || strings.HasSuffix(e.Type, "blocks") || refusedWhole(e.Path) {
			continue
		}
		if _, again := members[key]; !again {
			known = append(known, key)
		}
		members[key] = e.Path[strings.LastIndex(e.Path, ".")+1:]
	}
	text, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	beside := besideTests(t)
	var said []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if attribute, _, command := strings.Cut(line, "|"); command {
			said = append(said, strings.TrimSpace(attribute))
			continue
		}
		how, list, _ := strings.Cut(line, ": ")
		tests, isTest := beside[how]
		if !isTest && !strings.HasPrefix(how, "none, ") {
			t.Errorf("there is no test %s", how)
		}
		for _, attribute := range strings.Fields(list) {
			said = append(said, attribute)
			name := attribute[strings.Index(attribute, ".")+1:]
			if member := members[attribute]; isTest && !strings.Contains(tests, name) &&
				(member == "" || !strings.Contains(tests, member)) {
				t.Errorf("nothing beside %s names %s", how, attribute)
			}
		}
	}
	p := reference.Open(t, "reference/jobspec.md")
	p.Same("the effect of an attribute", said, known)
}

// besideTests are the tests of all packages, with the text of what is tested by each package: its tests, and what they
// read.
func besideTests(t *testing.T) map[string]string {
	t.Helper()
	texts, tests := map[string]string{}, map[string][]string{} // by package
	begins := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		dir, under, inData := strings.Cut(filepath.Dir(path), "/testdata")
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest && !inData || strings.HasPrefix(under, "/fuzz") || path == effects {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts[dir] += string(text)
		if isTest {
			for _, m := range begins.FindAllStringSubmatch(string(text), -1) {
				tests[dir] = append(tests[dir], m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for dir, names := range tests {
		for _, name := range names {
			out[name] += texts[dir]
		}
	}
	return out
}
