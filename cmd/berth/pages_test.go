package main

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"berth/internal/agent"
	"berth/internal/agent/plugins"
	"berth/internal/model/acl"
	"berth/jobspec"
	"berth/jobspec/hclfile"
)

// shownHCL is a piece of a file that a page shows.
var shownHCL = regexp.MustCompile("(?s)```hcl\n(.*?)```")

// Given the pages, then each piece of a job file, of a volume file, of a namespace's file, of a policy and of an
// agent's configuration that they show is one.
func TestPagesShowFilesThatAreRight(t *testing.T) {
	pages := os.DirFS("../..")
	kinds := map[string]int{}
	err := fs.WalkDir(pages, "docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := fs.ReadFile(pages, path)
		for _, m := range shownHCL.FindAllStringSubmatch(string(text), -1) {
			kind, err := readShown(m[1])
			if err != nil {
				t.Errorf("%s shows what is no %s: %v\n%s", path, kind, err, m[1])
			}
			kinds[kind]++
		}
		return err
	})
	if err != nil || len(kinds) != 5 {
		t.Errorf("the pages show %v, %v", kinds, err)
	}
}

// readShown reads a piece as what it is a piece of.
func readShown(text string) (kind string, err error) {
	volume := "id = \"v\"\ntype = \"csi\"\nplugin_id = \"p\"\ncapability {\n access_mode = \"single-node-writer\"\n " +
		"attachment_mode = \"file-system\"\n}\n"
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if strings.Contains(text, "node_pool_config {") {
		_, err = jobspec.ParseNamespace("shown.hcl", []byte(text))
		return "namespace file", err
	}
	switch word {
	case "template", "identity":
		text = "task \"t\" {\n driver = \"exec\"\n" + text + "}\n"
		fallthrough
	case "task", "volume":
		text = "group \"g\" {\n" + text + "}\n"
		fallthrough
	case "group":
		text = "job \"j\" {\n" + text + "}\n"
		fallthrough
	case "job", "variable":
		_, err = jobspec.Parse(jobspec.ParseConfig{Path: "shown.hcl", Source: []byte(text)})
		return "job file", err
	case "id":
		volume = ""
		fallthrough
	case "ownership":
		_, err = jobspec.ParseVolume("shown.hcl", []byte(volume+text))
		return "volume file", err
	case "namespace":
		_, found := acl.ParseNew("shown.hcl", text)
		for _, f := range found {
			err = errors.Join(err, errors.New(f.String()))
		}
		return "policy", err
	}
	r := hclfile.NewReport()
	hclfile.DecodeInto(r, "shown.hcl", []byte(text), &agent.Config{}, map[reflect.Type]hclfile.Special{
		reflect.TypeFor[plugins.Plugin](): plugins.Special,
	})
	return "agent's configuration", r.Err()
}
