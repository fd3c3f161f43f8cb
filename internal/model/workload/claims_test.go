package workload_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// Given a job that adds claims to an identity, then they are said under a name of their own, where none takes the place
// of what Berth says, and what they refer to is what it is.
func TestAJobsOwnClaims(t *testing.T) {
	token := sign(t, key("k", 'a'), func(s *workload.Statement) {
		s.Alloc.Node = "n1"
		s.Identity.ExtraClaims = map[string]string{
			"unique_id":    "${job.region}:${job.namespace}:${job.id}",
			"where":        "${node.id} ${node.datacenter} ${node.pool} ${node.class} ${job.node_pool}",
			"who":          "${group.name}/${task.name}/${alloc.id}",
			"nomad_job_id": "another",
		}
		s.Place = workload.Place{JobPool: "all", Datacenter: "dc1", NodePool: "gpu", NodeClass: "big"}
	})
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Job   string            `json:"nomad_job_id"`
		Extra map[string]string `json:"extra_claims"`
	}
	if err := json.Unmarshal(payload, &said); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"unique_id":    "global:shop:web",
		"where":        "n1 dc1 gpu big all",
		"who":          "front/app/a1",
		"nomad_job_id": "another",
	}
	if said.Job != "web" || !maps.Equal(said.Extra, want) {
		t.Errorf("it says %+v", said)
	}
	if without := sign(t, key("k", 'a'), nil); strings.Contains(decoded(t, without.Reveal()), "extra_claims") {
		t.Error("one without any names them")
	}
	_, err = key("k", 'a').Sign(&workload.Statement{
		Alloc:    &alloc.Alloc{},
		Region:   strings.Repeat("r", 600),
		Identity: &job.WorkloadIdentity{ExtraClaims: map[string]string{"x": "${job.region}${job.region}"}},
	})
	if !fault.Has(err, fault.Invalid) {
		t.Errorf("one that is too long: %v", err)
	}
}

func decoded(t *testing.T, token string) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(payload)
}

// A job with claims of its own needs servers that know them.
func TestWhichSchemaIdentitiesNeed(t *testing.T) {
	of := func(task *job.Task) *job.Job {
		return &job.Job{TaskGroups: []*job.TaskGroup{{Tasks: []*job.Task{task}}}}
	}
	plain := &job.WorkloadIdentity{Name: "a"}
	with := &job.WorkloadIdentity{Name: "b", ExtraClaims: map[string]string{"k": "v"}}
	for name, c := range map[string]struct {
		task *job.Task
		want uint64
	}{
		"none":       {&job.Task{}, 0},
		"one":        {&job.Task{Identity: plain}, job.SchemaIdentities},
		"one claims": {&job.Task{Identity: plain, Identities: []*job.WorkloadIdentity{with, plain}}, job.SchemaClaims},
		"default":    {&job.Task{Identity: with, Identities: []*job.WorkloadIdentity{plain}}, job.SchemaClaims},
	} {
		if got := workload.Needs(of(c.task)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
