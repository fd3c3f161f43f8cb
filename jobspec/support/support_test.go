package support

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/jobspec/jobjson"
)

// set gives the member at a rule's path a value, making what is on the way.
func set(v reflect.Value, steps []string, value any) {
	name, each := strings.CutSuffix(steps[0], "[]")
	member := v.FieldByName(name)
	if !member.IsValid() {
		panic("no member " + name + " in " + v.Type().String())
	}
	if each && member.Kind() == reflect.Map {
		elem := reflect.New(member.Type().Elem().Elem())
		member.Set(reflect.MakeMap(member.Type()))
		member.SetMapIndex(reflect.ValueOf("v"), elem)
		set(elem.Elem(), steps[1:], value)
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
		set(member, steps[1:], value)
		return
	}
	if value != nil {
		member.Set(reflect.ValueOf(value).Convert(member.Type()))
	}
}

// something is a value of a member that is neither empty nor likely a default.
func something(v reflect.Value, steps []string) any {
	t := v.Type()
	for i, step := range steps {
		name, each := strings.CutSuffix(step, "[]")
		f, _ := t.FieldByName(name)
		t = f.Type
		if each && i < len(steps)-1 {
			t = t.Elem()
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	switch t.Kind() {
	case reflect.String:
		return "something"
	case reflect.Bool:
		return true
	case reflect.Slice:
		return reflect.MakeSlice(t, 1, 1).Interface()
	case reflect.Map:
		m := reflect.MakeMap(t)
		m.SetMapIndex(reflect.ValueOf("k"), reflect.Zero(t.Elem()))
		return m.Interface()
	case reflect.Struct:
		return nil
	case reflect.Int64:
		return int64(77 * time.Minute)
	default:
		return 77
	}
}

// Given each rule of what is not built, when a job sets that very member to something, then exactly that is refused;
// when it has the documented default or nothing, then nothing is.
func TestEveryRuleOfWhatIsNotBuilt(t *testing.T) {
	for _, rule := range unsupportedRules {
		steps := strings.Split(rule.path, ".")
		bad := []any{something(reflect.ValueOf(api.Job{}), steps)}
		fine := rule.accept
		if len(rule.refuse) > 0 {
			bad, fine = rule.refuse, append(fine, something(reflect.ValueOf(api.Job{}), steps))
		}
		for _, value := range bad {
			job := &api.Job{}
			set(reflect.ValueOf(job).Elem(), steps, value)
			got := Unsupported(job)
			if len(got) != 1 || strings.NewReplacer("[0]", "[]", `["v"]`, "[]").Replace(got[0].Path) != rule.path {
				t.Errorf("%s = %v: %v", rule.path, value, got)
				continue
			}
			if text := got[0].String(); !strings.Contains(text, rule.name) || !strings.Contains(text, rule.why) ||
				rule.why == "" {
				t.Errorf("%s: %s", rule.path, text)
			}
		}
		for _, value := range fine {
			job := &api.Job{}
			set(reflect.ValueOf(job).Elem(), steps, value)
			if got := Unsupported(job); len(got) != 0 {
				t.Errorf("%s = %v is refused: %v", rule.path, value, got)
			}
		}
	}
	if got := Unsupported(nil); got != nil {
		t.Errorf("no job: %v", got)
	}
}

// provided gives all services of a job a provider.
func provided(job *api.Job, provider string) {
	for _, g := range job.TaskGroups {
		all := slices.Clone(g.Services)
		for _, t := range g.Tasks {
			all = append(all, t.Services...)
		}
		for _, s := range all {
			s.Provider = provider
		}
	}
}

// Given old members without effect, when a job sets them, then they are named for a warning and not refused; what means
// something to Consul is not named where it is the provider, as it is of services that name none.
func TestIgnoredMembersAreNamed(t *testing.T) {
	for _, rule := range ignoredRules {
		steps := strings.Split(rule.path, ".")
		job := &api.Job{}
		set(reflect.ValueOf(job).Elem(), steps, something(reflect.ValueOf(api.Job{}), steps))
		for _, consul := range []string{"", "consul"} {
			provided(job, consul)
			if got := Ignored(job); rule.unlessConsul && len(got) > 0 {
				t.Errorf("%s with provider %q: %v", rule.path, consul, got)
			}
		}
		provided(job, "nomad")
		if got := Ignored(job); len(got) != 1 || !strings.Contains(got[0].Name, rule.name) {
			t.Errorf("%s: %v", rule.path, got)
		}
		if got := Unsupported(job); len(got) != 0 {
			t.Errorf("%s is refused too: %v", rule.path, got)
		}
	}
}

// Given several groups and tasks, when one member of the last is not built, then its path and words lead there.
func TestRefusalsNameGroupAndTask(t *testing.T) {
	job := &api.Job{
		TaskGroups: []*api.TaskGroup{nil, {Name: "a"},
			{Name: "b", Tasks: []*api.Task{{Name: "x"}, nil, {Name: "y", Vault: &api.Vault{}}},
				Volumes: map[string]*api.VolumeRequest{"data": {Name: "data", Sticky: true}, "none": nil}}},
	}
	got := Unsupported(job)
	want := []string{
		`TaskGroups[2].Volumes["data"].Sticky|group "b": volume "data": sticky`,
		`TaskGroups[2].Tasks[2].Vault|group "b": task "y": vault`,
	}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i, w := range want {
		if g := got[i].Path + "|" + got[i].Name; g != w {
			t.Errorf("got %s, want %s", g, w)
		}
	}
}

// Given any job, when it is checked, then nothing panics.
func FuzzRules(f *testing.F) {
	f.Add([]byte(`{"Job":{"ID":"a","TaskGroups":[null,{"Tasks":[null]}]}}`))
	f.Add([]byte(`{"TaskGroups":[{"Networks":[{"DynamicPorts":[{"To":1}]}],"Volumes":{"a":null}}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		job, _, err := jobjson.Decode(data)
		if err == nil {
			Unsupported(job)
			Ignored(job)
		}
	})
}
