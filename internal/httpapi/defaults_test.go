package httpapi_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// observedJobs are the jobs that the recorded replies show whole, by the reply and the place.
func observedJobs(t testing.TB) map[string]any {
	out := map[string]any{}
	var look func(at string, v any)
	look = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, is := v["TaskGroups"].([]any); is && v["JobModifyIndex"] != nil && v["Type"] != nil {
				out[at] = v
				return
			}
			for k, m := range v {
				look(at+"."+k, m)
			}
		case []any:
			for i, m := range v {
				look(fmt.Sprintf("%s[%d]", at, i), m)
			}
		}
	}
	for _, s := range samples(t) {
		if s.status() == 200 && strings.HasPrefix(s.name, "GET_") {
			look(s.name, s.whole())
		}
	}
	return out
}

// leaves are the values of a document by their paths. Null is none: it is the absence of a value.
func leaves(at string, v any, out map[string]any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		for k, m := range v {
			leaves(at+"."+k, m, out)
		}
	case []any:
		for i, m := range v {
			leaves(fmt.Sprintf("%s[%d]", at, i), m, out)
		}
	case nil:
	default:
		out[at] = v
	}
	return out
}

func isZero(v any) bool { return v == nil || reflect.ValueOf(v).IsZero() }

// otherwise says why a value that nobody wrote is another here, by the beginning of its path.
var otherwise = map[string]string{
	".CreateIndex":                         "the servers count",
	".JobModifyIndex":                      "the servers count",
	".ModifyIndex":                         "the servers count",
	".Version":                             "the observed job had been changed",
	".SubmitTime":                          "another day",
	".Stable":                              "a deployment had made it stable",
	".TaskGroups[0].Constraints":           "they follow from services, which are not built yet",
	".TaskGroups[0].Services":              "services are not built yet",
	".TaskGroups[0].Tasks[0].Identity":     "every task has it: it is shown where the job says something of it",
	".TaskGroups[0].Update.Canary":         "its author had written it",
	".TaskGroups[0].Volumes":               "its author had written it (see TestDefaultsOfMounts)",
	".TaskGroups[0].Tasks[0].VolumeMounts": "its author had written it (see TestDefaultsOfMounts)",
}

func whyOtherwise(path string) string {
	for begin := range otherwise {
		if strings.HasPrefix(path, begin) {
			return begin
		}
	}
	return ""
}

// sameDefaults holds what nobody wrote against what was observed. It returns how many values were the same.
func sameDefaults(t *testing.T, name string, observed, ours, written any, met map[string]bool) (same int) {
	t.Helper()
	wrote, has := leaves("", written, map[string]any{}), leaves("", ours, map[string]any{})
	for path, was := range leaves("", observed, map[string]any{}) {
		is, why := has[path], whyOtherwise(path)
		switch {
		case !isZero(wrote[path]), isZero(was) && isZero(is):
		case reflect.DeepEqual(was, is):
			same++
		case why != "":
			met[why] = true
		default:
			t.Errorf("%s: %s was %v, is %v", name, path, was, is)
		}
	}
	return same
}

// Given the jobs that the recorded replies show whole, when a job is submitted here of which its author wrote no more
// than what every job must say, then each value that the observed system filled in for an author is the same here, but
// for those with a reason. Only jobs of the type service were observed whole; of a batch job it was a line of a list.
func TestDefaultsAreAsObserved(t *testing.T) {
	r := newRig(t)
	r.submit(webJob("web"))
	var service any
	r.get("/v1/job/web", &service)
	sent := readSample(t, "PUT_jobs.500").Sent.(map[string]any)["Job"]
	maps.Copy(sent.(map[string]any), map[string]any{"ID": "web", "Name": "web"})
	met, same := map[string]bool{}, 0
	all := observedJobs(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		same += sameDefaults(t, name, all[name], service, sent, met)
	}
	if len(all) < 4 || same < 30*len(all) {
		t.Errorf("only %d values of %d jobs were compared", same, len(all))
	}

	batch := webJob("batch")
	batch["Type"] = "batch"
	r.submit(batch)
	var stubs []any
	r.get("/v1/jobs?prefix=batch", &stubs)
	line := readSample(t, "GET_jobs.200").Body.([]any)[1].(map[string]any)
	for _, m := range []string{"Priority", "Datacenters", "NodePool", "Periodic", "ParameterizedJob", "Stop", "Type"} {
		if is := stubs[0].(map[string]any)[m]; !reflect.DeepEqual(is, line[m]) {
			t.Errorf("%s of a batch job was %v, is %v", m, line[m], is)
		}
	}
	for begin := range otherwise {
		if !met[begin] {
			t.Errorf("no difference for a reason: %s", begin)
		}
	}
}

// Given a job that mounts a volume, then what its author left out of the mount and of the volume is as observed.
func TestDefaultsOfMounts(t *testing.T) {
	r := newRig(t)
	web := webJob("web")
	group(web)["Volumes"] = map[string]any{"v": map[string]any{"Type": "host", "Source": "certs", "ReadOnly": true}}
	task(web)["VolumeMounts"] = []any{map[string]any{"Volume": "v", "Destination": "/v"}}
	r.submit(web)
	var ours any
	r.get("/v1/job/web", &ours)
	was, is := map[string]any{}, leaves("", ours, map[string]any{})
	for _, job := range observedJobs(t) {
		maps.Copy(was, leaves("", job, map[string]any{}))
	}
	for path, want := range map[string]any{
		".TaskGroups[0].Volumes.v.Name":                           "v",
		".TaskGroups[0].Volumes.v.PerAlloc":                       false,
		".TaskGroups[0].Tasks[0].VolumeMounts[0].PropagationMode": "private",
		".TaskGroups[0].Tasks[0].VolumeMounts[0].ReadOnly":        false,
	} {
		if !reflect.DeepEqual(was[path], want) || !reflect.DeepEqual(is[path], want) {
			t.Errorf("%s was %v, is %v", path, was[path], is[path])
		}
	}
}

// Given a job that was submitted and read, when a client sends it back as it was shown, then nothing of it has changed.
func TestAJobThatComesBackAsItWasShownIsTheSame(t *testing.T) {
	r := newRig(t)
	for _, kind := range []string{"service", "batch", "system"} {
		sent := webJob("back-" + kind)
		sent["Type"] = kind
		if kind != "batch" {
			sent["Update"] = map[string]any{"MaxParallel": 2, "MinHealthyTime": 3e9, "HealthyDeadline": 60e9}
		}
		r.submit(sent)
		var first, second map[string]any
		r.get("/v1/job/back-"+kind, &first)
		r.submit(first)
		r.get("/v1/job/back-"+kind, &second)
		for _, m := range []string{"ModifyIndex", "SubmitTime", "Status"} {
			delete(first, m)
			delete(second, m)
		}
		if !reflect.DeepEqual(first, second) {
			t.Errorf("a %s job was shown as\n%v\nand came back as\n%v", kind, first, second)
		}
		g := group(second)
		if kind != "batch" && g["Update"].(map[string]any)["MinHealthyTime"] != 3e9 {
			t.Errorf("what the job's own update says is lost: %v", g["Update"])
		}
		another := map[string]any{}
		maps.Copy(another, g)
		another["Name"], another["Update"] = "another", nil
		second["TaskGroups"] = append(second["TaskGroups"].([]any), another)
		r.submit(second)
		r.get("/v1/job/back-"+kind, &second)
		if u, _ := second["TaskGroups"].([]any)[1].(map[string]any)["Update"].(map[string]any); kind != "batch" &&
			(u["MaxParallel"] != 2. || u["MinHealthyTime"] != 10e9) {
			t.Errorf("a group that came later has the update %v", u)
		}
	}
}
