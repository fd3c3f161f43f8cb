package convert

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/model/job"
	"berth/internal/testkit/samplejob"
	"berth/jobspec/support"
)

// inner strips pointers, lists and maps off a type.
func inner(t reflect.Type) (reflect.Type, string) {
	mark := ""
	for {
		switch t.Kind() {
		case reflect.Pointer:
			t = t.Elem()
		case reflect.Slice, reflect.Map:
			if e, _ := inner(t.Elem()); e.Kind() != reflect.Struct {
				return t, mark
			}
			t, mark = t.Elem(), "[]"
		default:
			return t, mark
		}
	}
}

// compareTypes lists the members that only one side has, by path.
func compareTypes(public, model reflect.Type, path string, onlyPublic, onlyModel map[string]bool) {
	for i := range model.NumField() {
		if f := model.Field(i); f.IsExported() {
			if _, there := public.FieldByName(f.Name); !there {
				onlyModel[path+f.Name] = true
			}
		}
	}
	for i := range public.NumField() {
		f := public.Field(i)
		m, there := model.FieldByName(f.Name)
		if !there {
			onlyPublic[path+f.Name] = true
			continue
		}
		pt, mark := inner(f.Type)
		mt, _ := inner(m.Type)
		if pt.Kind() == reflect.Struct && pt.PkgPath() != "time" {
			compareTypes(pt, mt, path+f.Name+mark+".", onlyPublic, onlyModel)
		}
	}
}

// elsewhere are the public members that the internal job lacks on purpose.
var elsewhere = map[string]string{
	"TaskGroups[].Services[].Namespace":                  "the servers say it",
	"TaskGroups[].Scaling.ID":                            "the servers say it",
	"TaskGroups[].Scaling.Namespace":                     "the servers say it",
	"TaskGroups[].Scaling.Target":                        "the servers say it",
	"TaskGroups[].Scaling.CreateIndex":                   "the servers say it",
	"TaskGroups[].Scaling.ModifyIndex":                   "the servers say it",
	"TaskGroups[].Tasks[].ScalingPolicies[].ID":          "the servers say it",
	"TaskGroups[].Tasks[].ScalingPolicies[].Namespace":   "the servers say it",
	"TaskGroups[].Tasks[].ScalingPolicies[].Target":      "the servers say it",
	"TaskGroups[].Tasks[].ScalingPolicies[].CreateIndex": "the servers say it",
	"TaskGroups[].Tasks[].ScalingPolicies[].ModifyIndex": "the servers say it",
	"TaskGroups[].Tasks[].Services[].Namespace":          "the servers say it",

	"TaskGroups[].StopAfterClientDisconnect": "the block disconnect says it",
	"TaskGroups[].MaxClientDisconnect":       "the block disconnect says it",
	"TaskGroups[].PreventRescheduleOnLost":   "the block disconnect says it",

	"TaskGroups[].Services[].Connect.SidecarService.Proxy.ExposeConfig":         older,
	"TaskGroups[].Services[].Connect.SidecarService.Proxy.Expose.Path":          older,
	"TaskGroups[].Tasks[].Services[].Connect.SidecarService.Proxy.ExposeConfig": older,
	"TaskGroups[].Tasks[].Services[].Connect.SidecarService.Proxy.Expose.Path":  older,

	"Update":            "every group inherits it",
	"Reschedule":        "every group inherits it",
	"Status":            "the servers say it",
	"StatusDescription": "the servers say it",
	"NomadTokenID":      "the servers say it",
}

// Given both shapes of a job, when their members are compared, then every internal one is public, and every public one
// that has no internal counterpart is refused or named in a warning when it is set.
func TestNothingOfAJobIsDroppedInSilence(t *testing.T) {
	onlyPublic, onlyModel := map[string]bool{}, map[string]bool{}
	compareTypes(reflect.TypeFor[api.Job](), reflect.TypeFor[job.Job](), "", onlyPublic, onlyModel)
	delete(onlyModel, "LastLaunch") // servers alone write it: it shows in the ids of what was launched
	for path := range onlyModel {
		t.Errorf("%s is internal and has no public counterpart", path)
	}
	for _, path := range slices.Sorted(maps.Keys(onlyPublic)) {
		if elsewhere[path] != "" {
			continue
		}
		if silent(path) && !slices.ContainsFunc(membersOf(path), func(m string) bool {
			return !silent(path + "." + m)
		}) {
			t.Errorf("%s is neither carried, nor refused, nor ignored with a warning", path)
		} else if silent(path) {
			for _, m := range membersOf(path) {
				if silent(path+"."+m) && elsewhere[path+"."+m] == "" {
					t.Errorf("%s.%s is neither carried, nor refused, nor ignored with a warning", path, m)
				}
			}
		}
	}
	for path := range elsewhere {
		if !onlyPublic[path] && !strings.Contains(path, "Identity.") {
			t.Errorf("%s is listed as lacking and is carried", path)
		}
	}
}

const older = "the block expose says it"

// silent tells whether a job that sets this member and no other is taken without a word.
func silent(path string) bool {
	j := &api.Job{}
	put(reflect.ValueOf(j).Elem(), strings.Split(path, "."))
	return len(support.Unsupported(j))+len(support.Ignored(j)) == 0
}

// membersOf lists the members of the block at a path; its refusal may go member by member.
func membersOf(path string) (out []string) {
	t := reflect.TypeFor[api.Job]()
	for _, step := range strings.Split(path, ".") {
		f, _ := t.FieldByName(strings.TrimSuffix(step, "[]"))
		t, _ = inner(f.Type)
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			out = append(out, t.Field(i).Name)
		}
	}
	return out
}

// put sets the member at a path to something, making what is on the way.
func put(v reflect.Value, steps []string) {
	name, each := strings.CutSuffix(steps[0], "[]")
	member := v.FieldByName(name)
	if each && member.Kind() == reflect.Map {
		elem := reflect.New(member.Type().Elem().Elem())
		member.Set(reflect.MakeMap(member.Type()))
		member.SetMapIndex(reflect.ValueOf("v"), elem)
		put(elem.Elem(), steps[1:])
		return
	}
	if each {
		member.Set(reflect.MakeSlice(member.Type(), 1, 1))
		member = member.Index(0)
	}
	if member.Kind() == reflect.Pointer {
		member.Set(reflect.New(member.Type().Elem()))
		member = member.Elem()
	}
	if len(steps) > 1 {
		put(member, steps[1:])
		return
	}
	something(member)
}

func something(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("something")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
	default:
		v.Set(reflect.ValueOf(77).Convert(v.Type()))
	}
}

// fill draws a value of any type of a job. Lists, maps and pointers of it are never nil here: absence is another test.
func fill(t *rapid.T, v reflect.Value, label string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.StringMatching(`[a-z]{0,6}`).Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64Range(-100, 100).Draw(t, label))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, 200).Draw(t, label))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), label)
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, label+" length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), fmt.Sprintf("%s[%d]", label, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range rapid.IntRange(0, 2).Draw(t, label+" length") {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e, fmt.Sprintf("%s{%d}", label, i))
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", i)).Convert(v.Type().Key()), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{"a", float64(3), map[string]any{"b": true}}))
	default:
		t.Fatalf("%s: nobody knows how to draw a %s", label, v.Type())
	}
}

// Given any internal job, when it is made public and read back, then it is the same job.
func TestAJobSurvivesTheWayOutAndBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := &job.Job{}
		fill(rt, reflect.ValueOf(want).Elem(), "job")
		want.LastLaunch = 0 // servers alone write it, and nobody is shown it
		for _, g := range want.TaskGroups {
			for alias, v := range g.Volumes {
				v.Name = alias // the alias is the key
			}
			for _, n := range g.Networks {
				n.Mode = "host" // there is no other; one that is not named is this one
			}
		}
		got := ToJob(FromJob(want, job.StatusRunning, ""))
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("lost on the way:\n%s", d)
		}
	})
}

// Given a public job with a canonical form, when it is stored and shown, then everything its author wrote is still
// there, and filling in defaults again changes nothing.
func TestWhatAUserWroteIsShownAgain(t *testing.T) {
	written := samplejob.New()
	j := samplejob.New()
	jobrules.Canonicalize(j, "global", "default")
	shown := FromJob(ToJob(j), "pending", "")
	written.Reschedule = nil // every group shows it
	if missing := notIn(reflect.ValueOf(written), reflect.ValueOf(shown), "job"); len(missing) > 0 {
		t.Errorf("not shown:\n%s", strings.Join(missing, "\n"))
	}
	again := ToJob(shown)
	jobrules.Canonicalize(shown, "global", "default")
	if d := cmp.Diff(again, ToJob(shown)); d != "" {
		t.Errorf("defaults were filled in twice:\n%s", d)
	}
}

// notIn lists what is set in want and differs in got.
func notIn(want, got reflect.Value, path string) (out []string) {
	switch want.Kind() {
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() {
			return nil
		}
		if got.Kind() != want.Kind() || got.IsNil() {
			return []string{path}
		}
		return notIn(want.Elem(), got.Elem(), path)
	case reflect.Struct:
		for i := range want.NumField() {
			out = append(out, notIn(want.Field(i), got.Field(i), path+"."+want.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		if want.Len() > 0 && got.Len() != want.Len() {
			return []string{path}
		}
		for i := range want.Len() {
			out = append(out, notIn(want.Index(i), got.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.Map:
		for _, k := range want.MapKeys() {
			g := got.MapIndex(k)
			if !g.IsValid() {
				return []string{fmt.Sprintf("%s[%v]", path, k)}
			}
			out = append(out, notIn(want.MapIndex(k), g, fmt.Sprintf("%s[%v]", path, k))...)
		}
	default:
		if !want.IsZero() && !reflect.DeepEqual(want.Interface(), got.Interface()) {
			return []string{fmt.Sprintf("%s: %v became %v", path, want, got)}
		}
	}
	return out
}
