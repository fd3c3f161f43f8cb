package jobjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"berth/api"
)

// Given jobs in JSON, when they are decoded strictly, then members that no job has are named by path, unless they are
// empty; wrong types, double members and broken documents are errors with a line.
func TestStrictDecodingNamesWhatItDoesNotKnow(t *testing.T) {
	job, unknown, err := Decode(
		[]byte(`{"Job": {"ID": "a", "name": "n", "Nme": "x", "Old": null, "Gone": {}, "TaskGroups": [
		{"Name": "g", "Tasks": [{"Name": "t", "Config": {"anything": {"goes": 1}}, "Envv": {"A": "b"}}], "Volumes": {"v": {"Src": "x"}}}]}, "Extra": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Unknown{{"Nme", "Name"}, {"TaskGroups[0].Tasks[0].Envv", "Env"},
		{"TaskGroups[0].Volumes.v.Src", "Source"}, {"Extra", ""}}
	if !reflect.DeepEqual(unknown, want) {
		t.Errorf("unknown: %v, want %v", unknown, want)
	}
	if *job.ID != "a" || *job.Name != "n" || job.TaskGroups[0].Tasks[0].Config["anything"] == nil {
		t.Errorf("the job is not whole: %+v", job)
	}
	bare, unknown, err := Decode([]byte(`{"ID": "a"}`))
	if err != nil || len(unknown) != 0 || *bare.ID != "a" {
		t.Errorf("bare job: %+v %q %v", bare, unknown, err)
	}
	for src, want := range map[string]string{
		`{"ID": 5}`:                         "decode JSON: json: cannot unmarshal number",
		"{\n\"ID\": \"a\",\n\"id\": \"b\"}": "line 3: the member id is there twice",
		`{"Job": null}`:                     "the member Job is null",
		`{"ID": "a"`:                        "line 1: ",
		`{"ID": "a"} x`:                     "line 1: there is more text after the JSON document",
		`{"ID": "a"} {}`:                    "line 1: there is more text after the JSON document",
		"{\n\n  \"ID\" \"a\"}":              "line 3: not valid JSON",
		`{"Meta":` + strings.Repeat("{\"a\":", 200): "line 1: the document is nested more than 100 levels deep",
	} {
		if _, _, err := Decode([]byte(src)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", src, err, want)
		}
	}
}

// Given any bytes, when they are decoded strictly, then nothing panics, and what decodes can be checked.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"Job":{"ID":"a","TaskGroups":[null,{"Tasks":[null]}]}}`))
	f.Add([]byte(`{"TaskGroups":[{"Networks":[{"DynamicPorts":[{"To":1}]}],"Volumes":{"a":null}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		job, _, err := Decode(data)
		if err == nil && job == nil {
			t.Error("neither a job nor an error")
		}
	})
}

// Given any bytes, when the body of a request decodes strictly, then encoding/json makes the same of it.
func FuzzDecodeRequest(f *testing.F) {
	f.Add(jobBody(2))
	f.Add([]byte(
		`{"job":{"ID":"a","TaskGroups":[null,{"Tasks":[null,{"Config":{"x":[1,{"y":null,"z":[]}]}}]}]},"Other":{"a":1}}`))
	f.Add([]byte(
		`{"Job":{"Payload":"aGk=","Spreads":[{"Weight":3,"SpreadTarget":[]}],"priority":5},"EnforceIndex":true,"Region":"eu"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var strict, plain api.JobRegisterRequest
		unknown, err := DecodeRequest(data, &strict)
		if err != nil {
			return
		}
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		if !reflect.DeepEqual(strict, plain) {
			t.Errorf("it became another request; unknown: %q", unknown)
		}
	})
}

// Given more unknown members than anybody reads, when they are named, then a hundred are, and the rest is counted.
func TestUnknownMembersAreNamedWithinABound(t *testing.T) {
	var src strings.Builder
	for i := range maxNamed + 20 {
		fmt.Fprintf(&src, `"Nam%d": 1, `, i)
	}
	_, unknown, err := Decode([]byte("{" + src.String() + `"ID": "a"}`))
	if err != nil || len(unknown) != maxNamed+20 {
		t.Fatalf("%d unknown, %v", len(unknown), err)
	}
	if first, late := unknown[0].Near, unknown[maxNamed].Near; first != "Name" || late != "" {
		t.Errorf("offered %q, then %q", first, late)
	}
	all := Ignored(unknown)
	if len(all) != maxNamed+1 || all[maxNamed] != "20 more members that are not known are ignored" {
		t.Errorf("%d sentences, the last: %s", len(all), all[len(all)-1])
	}
}

// Given bodies of requests, when they are decoded, then the job's unknown members are named, those beside it are not,
// and a value of a wrong type is named as encoding/json names it.
func TestTheBodyOfAJobRequestIsReadStrictlyInItsJob(t *testing.T) {
	var body api.JobRegisterRequest
	unknown, err := DecodeRequest(
		[]byte(`{"Job": {"ID": "a", "Nme": "x", "TaskGroups": [{"Nam": "g"}]}, "Later": 1, "EnforceIndex": true, "Region": "eu"}`), &body)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Unknown{{"Nme", "Name"}, {"TaskGroups[0].Nam", "Name"}}; !reflect.DeepEqual(unknown, want) {
		t.Errorf("unknown: %v, want %v", unknown, want)
	}
	if *body.Job.ID != "a" || !body.EnforceIndex || body.Region != "eu" {
		t.Errorf("the request is not whole: %+v", body)
	}
	for _, tc := range []struct {
		src  string
		want string
	}{
		{`{"TaskGroups":[{"Count":"x"}]}`,
			`cannot unmarshal string into Go struct field TaskGroup.TaskGroups.Count of type int`},
		{`{"TaskGroups":[{"Meta":{"a":5}}]}`,
			`cannot unmarshal number into Go struct field TaskGroup.TaskGroups.Meta of type string`},
		{`{"TaskGroups":[{"Volumes":{"a":{"Source":5}}}]}`,
			`cannot unmarshal number into Go struct field VolumeRequest.TaskGroups.Volumes.Source of type string`},
		{`{"TaskGroups":5}`, `cannot unmarshal number into Go struct field Job.TaskGroups of type []*api.TaskGroup`},
		{`{"TaskGroups":[5]}`, `cannot unmarshal number into Go struct field Job.TaskGroups of type api.TaskGroup`},
		{`{"TaskGroups":{"a":[{}]},"Priority":"x"}`,
			`cannot unmarshal object into Go struct field Job.TaskGroups of type []*api.TaskGroup`},
		{`{"Priority":1.5}`, `cannot unmarshal number 1.5 into Go struct field Job.Priority of type int`},
		{`{"Priority":[{"a":1}]}`, `cannot unmarshal array into Go struct field Job.Priority of type int`},
		{`{"TaskGroups":[{"Tasks":[{"Config":{"a":1e999}}]}]}`,
			`cannot unmarshal number 1e999 into Go struct field Task.TaskGroups.Tasks.Config of type float64`},
		{`{"Payload":[1,300]}`, `cannot unmarshal number 300 into Go struct field Job.Payload of type uint8`},
		{`[]`, `cannot unmarshal array into Go value of type api.Job`},
	} {
		_, _, err := Decode([]byte(tc.src))
		if err == nil || err.Error() != "decode JSON: json: "+tc.want {
			t.Errorf("%s: %v, want %s", tc.src, err, tc.want)
		}
		var body api.JobRegisterRequest
		request := []byte(`{"Job":` + tc.src + `}`)
		_, err = DecodeRequest(request, &body)
		if plain := json.Unmarshal(request, &body); err == nil || err.Error() != "decode JSON: "+plain.Error() {
			t.Errorf("%s in a request: %v, want %v", tc.src, err, plain)
		}
	}
}

// jobBody is a request with a job of so many groups.
func jobBody(groups int) []byte {
	job := &api.Job{ID: new("big"), Name: new("big"), Type: new("service"), Datacenters: []string{"dc1"}}
	for i := range groups {
		job.TaskGroups = append(job.TaskGroups, &api.TaskGroup{
			Name:  fmt.Sprintf("g%d", i),
			Count: new(3),
			Volumes: map[string]*api.VolumeRequest{"data": {
				Type:       "csi",
				Source:     "db",
				AccessMode: "single-node-writer",
			}},
			Tasks: []*api.Task{{
				Name:   "t",
				Driver: "exec",
				Config: map[string]any{"command": "/bin/sleep", "args": []any{"1000"}},
				Env:    map[string]string{"A": "1", "B": "2"},
			}},
		})
	}
	data, err := json.Marshal(&api.JobRegisterRequest{Job: job})
	if err != nil {
		panic(err)
	}
	return data
}

func BenchmarkDecodeRequest(b *testing.B) {
	data := jobBody(100)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRequest(data, &api.JobRegisterRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
