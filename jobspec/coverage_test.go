package jobspec

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/jobspec/hclfile"

	"github.com/google/go-cmp/cmp"
)

// serverSet are the members of job types that have no place in a file, with the reason.
var serverSet = map[string]string{
	"Job.Stop": "server", "Job.ParentID": "server", "Job.Dispatched": "server",
	"Job.DispatchIdempotencyToken": "server",
	"Job.Payload":                  "server", "Job.ConsulNamespace": "from the consul block",
	"Job.VaultNamespace": "server",
	"Job.NomadTokenID":   "server",
	"Job.Status":         "server", "Job.StatusDescription": "server", "Job.Stable": "server", "Job.Version": "server",
	"Job.SubmitTime":  "server",
	"Job.CreateIndex": "server", "Job.ModifyIndex": "server", "Job.JobModifyIndex": "server",
	"Job.VersionTag":          "server",
	"PeriodicConfig.SpecType": "always cron", "ScalingPolicy.ID": "server", "ScalingPolicy.Namespace": "server",
	"ScalingPolicy.Target":      "server",
	"ScalingPolicy.CreateIndex": "server", "ScalingPolicy.ModifyIndex": "server",
	"Task.Identity":                 "from the identity blocks",
	"NetworkResource.ReservedPorts": "from the port blocks", "Service.Namespace": "server",
	"ConsulProxy.ExposeConfig": "older name", "ConsulExposeConfig.Path": "older name",
}

// Given a job file that sets everything that the types can carry, when it is decoded, then every member that has a
// place in a file has arrived, and every other is one that only the server sets.
func TestEveryMemberOfAJobCanBeWritten(t *testing.T) {
	w := &writer{}
	w.body(reflect.TypeFor[jobBlock](), 1)
	src := "job \"label-1\" {\n" + w.String() + "}\n"
	r := hclfile.NewReport()
	job, _ := decodeJob(r, &ParseConfig{Path: "all.hcl", Source: []byte(src)})
	if err := r.Err(); err != nil {
		t.Fatalf("%v\n%s", err, numbered(src))
	}
	full := map[string]bool{}
	found := map[string]bool{}
	visitMembers(reflect.ValueOf(job).Elem(), found, full)
	for name := range found {
		_, exempt := serverSet[name]
		switch {
		case !full[name] && !exempt:
			t.Errorf("%s was written but is empty, or cannot be written", name)
		case full[name] && exempt && serverSet[name] == "server":
			t.Errorf("%s is set by a file but listed as the server's", name)
		}
	}
	for name := range serverSet {
		if !found[name] {
			t.Errorf("%s is listed but is no member", name)
		}
	}
}

// visitMembers notes every member of every struct in v, and which are not zero anywhere.
func visitMembers(v reflect.Value, found, full map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visitMembers(v.Elem(), found, full)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitMembers(v.Index(i), found, full)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			visitMembers(v.MapIndex(k), found, full)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			found[name] = true
			if !v.Field(i).IsZero() {
				full[name] = true
			}
			visitMembers(v.Field(i), found, full)
		}
	}
}

// writer writes a document that sets every field of a type.
type writer struct{ strings.Builder }

func (w *writer) block(name string, elem reflect.Type, label string, depth int) {
	pad := strings.Repeat("  ", depth)
	labels := ""
	for range hclfile.SchemaOf(elem).Labels {
		labels += fmt.Sprintf(" %q", label)
	}
	fmt.Fprintf(w, "%s%s%s {\n", pad, name, labels)
	w.body(elem, depth+1)
	fmt.Fprintf(w, "%s}\n", pad)
}

// sampleValue is a value that is not the zero value of the field.
func sampleValue(t reflect.Type, f *hclfile.Field) string {
	if t == reflect.TypeFor[api.VolumeRequest]() && f.Name == "type" {
		return `"csi"`
	}
	typ := f.Type
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("%q", 7*time.Second)
	case typ.Kind() == reflect.String:
		return `"x"`
	case typ.Kind() == reflect.Bool:
		return "true"
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String:
		return `["x"]`
	case typ.Kind() == reflect.Slice:
		return "[7]"
	default:
		return "7"
	}
}

func (w *writer) body(t reflect.Type, depth int) {
	s := hclfile.SchemaOf(t)
	pad := strings.Repeat("  ", depth)
	for _, name := range s.Names() {
		f := s.Fields[name]
		switch f.Kind {
		case hclfile.KindLabel, hclfile.KindMaybe:
		case hclfile.KindMap:
			value := `"x"`
			if f.Type.Elem().Kind() == reflect.Slice {
				value = `["x"]`
			}
			fmt.Fprintf(w, "%s%s {\n%s  k = %s\n%s}\n", pad, name, pad, value, pad)
		case hclfile.KindAny:
			fmt.Fprintf(w, "%s%s {\n%s  k = 1\n%s}\n", pad, name, pad, pad)
		case hclfile.KindBlock:
			elem := f.Type
			for elem.Kind() != reflect.Struct {
				elem = elem.Elem()
			}
			w.block(name, elem, name, depth)
			if name == "port" {
				fmt.Fprintf(w, "%sport \"dynamic\" {\n%s}\n", pad, pad)
			}
			if name == "identity" && f.Repeatable() {
				fmt.Fprintf(w, "%sidentity {\n%s}\n", pad, pad)
			}
		default:
			fmt.Fprintf(w, "%s%s = %s\n", pad, name, sampleValue(t, f))
		}
	}
}

func numbered(src string) string {
	lines := strings.Split(src, "\n")
	for i := range lines {
		lines[i] = fmt.Sprintf("%4d %s", i+1, lines[i])
	}
	return strings.Join(lines, "\n")
}

// webJob is the source of the job that an unmodified client sent in the observed request of job register.
const webJob = `job "web" {
  group "g" {
    count = 2
    update {
      min_healthy_time  = "1s"
      healthy_deadline  = "20s"
      progress_deadline = "40s"
    }
    network {
      port "http" {}
    }
    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
    }
    volume "v" {
      type   = "host"
      source = "shared"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo hello; echo err >&2; sleep 3600"]
      }
      volume_mount {
        volume      = "v"
        destination = "${NOMAD_ALLOC_DIR}/v"
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

// Given the source of an observed job, when we decode it, then the JSON is what an unmodified client sent for it.
func TestTheObservedJobIsDecodedAsOtherClientsDo(t *testing.T) {
	r := hclfile.NewReport()
	job, _ := decodeJob(r, &ParseConfig{Path: "web.hcl", Source: []byte(webJob)})
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../api/testdata/replies/PUT_jobs.200.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		RequestBody struct{ Job map[string]any } `json:"request_body"`
	}
	if err := json.Unmarshal(data, &sample); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	// The one member that we always send and others leave out when it is null.
	task := got["TaskGroups"].([]any)[0].(map[string]any)["Tasks"].([]any)[0].(map[string]any)
	if task["CSIPluginConfig"] != nil {
		t.Error("the task became a plugin")
	}
	delete(task, "CSIPluginConfig")
	if diff := cmp.Diff(sample.RequestBody.Job, got); diff != "" {
		t.Error(diff)
	}
}

// Given documents of all kinds, when they are parsed, then nothing panics and a failure is an *Error with a text.
func FuzzParse(f *testing.F) {
	f.Add([]byte(webJob))
	f.Add([]byte(
		"job \"j\" { group \"g\" { dynamic \"task\" { for_each = [1] labels = [\"a\"] content { driver = \"x\" } } } " +
			"}"))
	f.Add([]byte("variable \"a\" { default = [for x in range(3): x] }\njob \"j\" { meta = { a = jsonencode(var.a) } }"))
	f.Add([]byte("{\"Job\":{\"ID\":\"a\",\"TaskGroups\":[null]}}"))
	f.Add([]byte("job \"j\" { constraint { regexp = null distinct_hosts = true } }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		_, err := Parse(ParseConfig{Path: "f.hcl", Source: src, Strict: true, MaxSize: 1 << 16})
		if err != nil && (len(Problems(err)) == 0 || err.Error() == "") {
			t.Errorf("an error without problems: %v", err)
		}
	})
}

// Given volume files of all kinds, when they are parsed, then nothing panics.
func FuzzParseVolume(f *testing.F) {
	f.Add([]byte(
		"type = \"csi\"\nid = \"v\"\ncapability { \"access_mode\" = \"x\" }\nparameters { \"a/b\" = 1, c = 2 }"))
	f.Add([]byte("{\"type\":\"host\",\"name\":\"a\",\"capability\":[[{}]],\"capacity_min\":\"1G\"}"))
	f.Add([]byte("\"type\" = \"csi\"\ntopology_request { required { topology { segments { \"a\" = \"b\" } } } }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		vol, err := ParseVolume("f.hcl", src)
		if err == nil && (vol.CSI == nil) == (vol.Host == nil) {
			t.Errorf("not exactly one volume: %+v", vol)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
	})
}
