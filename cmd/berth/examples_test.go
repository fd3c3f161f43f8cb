package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/testkit/reference"
	"berth/jobspec"
	"berth/jobspec/support"
)

// needed are the attributes without which a block is none; those that an example sets itself are left out.
var needed = map[string][]string{
	"constraint": {`attribute = "${attr.cpu.arch}"`},
	"affinity":   {`attribute = "${attr.cpu.arch}"`},
	"volume":     {`type = "csi"`, `source = "postgres"`},
	"service":    {`provider = "consul"`},
}

// Given the page of job files, when the example of each attribute and block is put into its block, alone, then it is
// decoded, what it asks for is in the job, and nothing in it is refused or passed over.
func TestEveryExampleOfThePageIsDecodedInItsBlock(t *testing.T) {
	entries := map[string]string{}
	paths := map[string]string{}
	labels := map[string]int{"job": 1}
	for _, e := range jobspec.JobEntries() {
		labels[e.In+"/"+e.Name] = e.Labels
		key := e.In[strings.LastIndex(e.In, "/")+1:] + "." + e.Name
		at, have := entries[key]
		if !foreign(e.In) && (!have || strings.Count(e.In, "/") > strings.Count(at, "/")) {
			entries[key], paths[key] = e.In, e.Path
		}
	}
	shown := 0
	for _, s := range reference.Open(t, "reference/jobspec.md").Sections() {
		for _, row := range s.Rows {
			if len(row) != 5 {
				continue
			}
			name, _, _ := strings.Cut(strings.Trim(row[0], "[`"), "`")
			key, example := s.Head+"."+name, strings.Trim(row[3], "`")
			in, known := entries[key]
			if !known {
				t.Errorf("%s is on the page and cannot be decoded", key)
				continue
			}
			shown++
			if !strings.HasPrefix(example, name+" ") {
				t.Errorf("%s has the example %q", key, example)
				continue
			}
			holds(t, key, within(in, name, example, labels), paths[key])
		}
	}
	if shown < 300 {
		t.Errorf("the page shows %d attributes and blocks", shown)
	}
}

// foreign reports whether a block is one of those that are refused, or in which not all acts that acts elsewhere.
func foreign(in string) bool {
	return slices.ContainsFunc([]string{"/sidecar_task/", "/resources/network"}, func(part string) bool {
		return strings.Contains(in, part)
	})
}

// holds decodes a job file, and looks for a value at the path of a member.
func holds(t *testing.T, key, file, path string) {
	t.Helper()
	job, err := jobspec.Parse(jobspec.ParseConfig{Path: "example.hcl", Source: []byte(file), AnyFeature: true})
	if err != nil {
		t.Errorf("%s: %v\n%s", key, err, file)
		return
	}
	if !isSet(reflect.ValueOf(job), strings.Split(path, ".")) {
		t.Errorf("%s: nothing is set at %s by\n%s", key, path, file)
	}
	for _, f := range support.Unsupported(job) {
		t.Errorf("%s: the example is refused: %s", key, f)
	}
	for _, f := range support.Ignored(job) {
		t.Errorf("%s: the example has no effect: %s %s", key, f.Name, f.Why)
	}
}

// within is a job file of the blocks of a path, with the example in the innermost, and as many labels as each has.
func within(in, name, example string, labels map[string]int) string {
	if block, _, is := strings.Cut(example, "{ … }"); is {
		example = block + "{\n" + strings.Join(needed[name], "\n") + "\n}"
	}
	steps := strings.Split(in, "/")
	if name == "secret" && len(steps) < 3 { // it is each task's, and there has to be one
		example += "\ntask \"web\" {}"
	}
	for i := len(steps) - 1; i >= 0; i-- {
		lines := needed[steps[i]]
		if i > 0 && slices.Contains([]string{"listener", "terminating"}, steps[i-1]) {
			lines = nil // what a gateway leads to is less than a service of a job
		}
		for _, line := range lines {
			if attribute, _, _ := strings.Cut(line, " "); attribute != name || i < len(steps)-1 {
				example = line + "\n" + example
			}
		}
		label := strings.Repeat(` "web"`, labels[strings.Join(steps[:i+1], "/")])
		example = steps[i] + label + " {\n" + example + "\n}"
	}
	return example + "\n"
}

// isSet reports whether a member, or one of it in each list on the way, is more than its zero value. A path that ends
// in nothing, as that of an attribute which sets several members, says the block alone.
func isSet(v reflect.Value, path []string) bool {
	for v.Kind() == reflect.Pointer {
		if len(path) == 0 {
			return !v.IsNil()
		}
		v = v.Elem()
	}
	if len(path) == 0 || path[0] == "" {
		return v.IsValid() && !v.IsZero()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	name, many := strings.CutSuffix(path[0], "[]")
	member := v.FieldByName(name)
	switch {
	case !member.IsValid():
		return false
	case many && name == "DynamicPorts" && member.Len() == 0: // a static one stands elsewhere
		return isSet(v, append([]string{"ReservedPorts[]"}, path[1:]...))
	case many && name == "Identities" && member.Len() == 0: // so does one without a name
		return isSet(v, append([]string{"Identity"}, path[1:]...))
	case many && member.Kind() == reflect.Map:
		for _, k := range member.MapKeys() {
			if isSet(member.MapIndex(k), path[1:]) {
				return true
			}
		}
		return false
	case many:
		for i := range member.Len() {
			if isSet(member.Index(i), path[1:]) {
				return true
			}
		}
		return false
	}
	return isSet(member, path[1:])
}
