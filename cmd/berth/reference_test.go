package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/reference"
	"berth/jobspec"
	"berth/jobspec/functions"
	"berth/jobspec/support"
)

// refusedWhole tells the members of a job of which no value is taken, or none acts.
func refusedWhole(path string) bool {
	if path == "" {
		return false
	}
	return slices.ContainsFunc(slices.Concat(support.NotBuilt(), support.WithoutEffect()), func(r support.Rule) bool {
		below, ok := strings.CutPrefix(path, r.Path)
		return ok && !r.Values && (below == "" || strings.HasPrefix(below, "[]") || strings.HasPrefix(below, "."))
	})
}

// links are the forms of a name in a table.
var links = strings.NewReplacer("[", "", "]", "", "`", "")

// nameOf is the name in the first cell of a row, which may be a link.
func nameOf(cell string) string {
	name, _, _ := strings.Cut(cell, "](")
	return links.Replace(name)
}

// written are the rows of a page's blocks by "block.name".
func written(p *reference.Page, blocks []string) (out []string, rows map[string][]string) {
	rows = map[string][]string{}
	for _, s := range p.Sections() {
		if slices.Contains(blocks, s.Head) {
			for _, r := range s.Rows {
				key := s.Head + "." + nameOf(r[0])
				out, rows[key] = append(out, key), r
			}
		}
	}
	return out, rows
}

// lastOf is the innermost of nested blocks.
func lastOf(in string) string { return in[strings.LastIndex(in, "/")+1:] }

// Given all that may stand in a job file, then the page of job files has each block with its names, types and defaults,
// and nothing else; and what is refused or has no effect in the words that users read.
func TestThePageOfJobFilesIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/jobspec.md")
	types := map[string]string{}
	paths := map[string]string{}
	var known, blocks []string
	for _, e := range jobspec.JobEntries() {
		if refusedWhole(e.Path) {
			continue
		}
		key := lastOf(e.In) + "." + e.Name
		if have, again := types[key]; again && have != e.Type {
			t.Errorf("%s is %s here and %s there: the page needs two tables", key, have, e.Type)
		} else if !again {
			known = append(known, key)
		}
		types[key] = e.Type
		if len(e.Path) > len(paths[key]) { // of the places where it may stand, the one in a group or a task
			paths[key] = e.Path
		}
		if !slices.Contains(blocks, lastOf(e.In)) {
			blocks = append(blocks, lastOf(e.In))
		}
	}
	said, rows := written(p, blocks)
	p.Same("an attribute or a block", said, known)
	defaults := canonical()
	for key, row := range rows {
		if len(row) != 5 {
			t.Errorf("%s: the row has %d cells", key, len(row))
			continue
		}
		if want := types[key]; want != "" && row[1] != want {
			t.Errorf("%s is of the type %q, the page says %q", key, want, row[1])
		}
		if want := defaultOf(reflect.ValueOf(defaults), paths[key]); want != "" && !strings.Contains(row[2],
			"`"+want+"`") {
			t.Errorf("%s has the default %q, the page says %q", key, want, row[2])
		}
	}
	for head, rules := range map[string][]support.Rule{
		"Not built":      support.NotBuilt(),
		"Without effect": support.WithoutEffect(),
	} {
		var there, listed []string
		for _, r := range rules {
			if line := r.Name + ": " + r.Why; !slices.Contains(there, line) {
				there = append(there, line)
			}
		}
		for _, r := range p.Section(head).Rows {
			listed = append(listed, reference.Plain(r[0])+": "+reference.Plain(r[1]))
		}
		p.Same("what is "+strings.ToLower(head), listed, there)
	}
}

// canonical is a job with one of each block and nothing in it, as the servers complete it.
func canonical() *api.Job {
	job := &api.Job{TaskGroups: []*api.TaskGroup{{
		Networks:   []*api.NetworkResource{{DynamicPorts: []api.Port{{}}}},
		Volumes:    map[string]*api.VolumeRequest{"": {}},
		Affinities: []*api.Affinity{{}},
		Spreads:    []*api.Spread{{}},
		Tasks: []*api.Task{{
			Templates:       []*api.Template{{}},
			VolumeMounts:    []*api.VolumeMount{{}},
			CSIPluginConfig: &api.TaskCSIPluginConfig{},
		}},
	}}}
	jobrules.Canonicalize(job, "", "default")
	return job
}

// defaultOf is the value of a member in words; empty: it has none, or one that goes without saying.
func defaultOf(v reflect.Value, path string) string {
	for step := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		name, each := strings.CutSuffix(step, "[]")
		if v.Kind() != reflect.Struct || name == "" {
			return ""
		}
		if v = v.FieldByName(name); !v.IsValid() {
			return ""
		}
		if each && v.Kind() == reflect.Map {
			if v.Len() == 0 {
				return ""
			}
			v = v.MapIndex(v.MapKeys()[0])
		} else if each {
			if v.Len() == 0 {
				return ""
			}
			v = v.Index(0)
		}
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.IsZero() {
		return ""
	}
	switch d := v.Interface().(type) {
	case time.Duration:
		return short(d)
	case string, int, bool, int8:
		return fmt.Sprint(d)
	case []string:
		return strings.Join(d, ", ")
	}
	return ""
}

// short is a duration as people write it: 30m, not 30m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Given the functions of job files, then the page lists them.
func TestThePageOfJobFilesListsTheFunctions(t *testing.T) {
	p := reference.Open(t, "reference/jobspec.md")
	lists := p.Section("Variables, locals, functions").Lists()
	if len(lists) != 2 {
		t.Fatalf("the lists are %q", lists)
	}
	p.Same("a function", lists[0], functions.Pure())
	p.Same("a function that reads files", lists[1], functions.File())
}

// Given all that may stand in a volume file, then the page of volumes has it, and nothing else.
func TestThePageOfVolumesIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/storage.md")
	types := map[string]string{}
	var known []string
	for _, e := range jobspec.VolumeEntries() {
		key := strings.TrimPrefix(strings.ReplaceAll(e.In, "/", ".")+"."+e.Name, ".")
		known, types[key] = append(known, key), e.Type
	}
	rows := p.Section("The volume file").Rows
	p.Same("an attribute or a block", reference.Column(rows, 0), known)
	for _, r := range rows {
		if name := reference.Plain(r[0]); r[1] != types[name] {
			t.Errorf("%s is of the type %q, the page says %q", name, types[name], r[1])
		}
	}
}
