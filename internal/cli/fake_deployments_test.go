package cli_test

import (
	"encoding/json"
	"strings"
	"time"

	"berth/api"
)

// The deployments: one whose canary waits to be promoted, and one that failed before.
const (
	deployA = "9277ed84-0000-4000-8000-000000000001"
	deployB = "e324e566-0000-4000-8000-000000000002"
)

// deployed are the deployments of job "roll", newest first.
func (f *fake) deployed() []*api.Deployment {
	by := time.Date(2030, 1, 1, 0, 10, 0, 0, time.UTC)
	tried := &api.DeploymentState{
		AutoRevert:        true,
		RequireProgressBy: &by,
		PlacedCanaries:    []string{allocA},
		DesiredCanaries:   1,
		DesiredTotal:      2,
		PlacedAllocs:      1,
		HealthyAllocs:     1,
	}
	a := &api.Deployment{
		ID:                deployA,
		Namespace:         "default",
		JobID:             "roll",
		JobVersion:        3,
		TaskGroups:        map[string]*api.DeploymentState{"g": tried},
		Status:            "running",
		StatusDescription: "Deployment is running but requires manual promotion",
		CreateIndex:       40,
		ModifyIndex:       44,
	}
	if f.reads["deployment/"+deployA] > 1 { // a person has promoted it meanwhile
		tried.Promoted = true
		tried.PlacedAllocs, tried.HealthyAllocs = 2, 2
		a.Status, a.StatusDescription = "successful", "Deployment completed successfully"
	}
	b := &api.Deployment{
		ID:         deployB,
		Namespace:  "default",
		JobID:      "roll",
		JobVersion: 2,
		TaskGroups: map[string]*api.DeploymentState{"g": {
			AutoRevert:      true,
			DesiredTotal:    2,
			PlacedAllocs:    2,
			UnhealthyAllocs: 2,
		}},
		Status:            "failed",
		StatusDescription: "Failed due to progress deadline - rolling back to job version 1",
		CreateIndex:       30,
		ModifyIndex:       39,
	}
	return []*api.Deployment{a, b}
}

const policyA = "31a53813-0000-4000-8000-000000000001"

// policy is the one scaling policy.
func policy() *api.ScalingPolicy {
	return &api.ScalingPolicy{
		ID:        policyA,
		Namespace: "default",
		Type:      "horizontal",
		Min:       ptr(int64(1)),
		Max:       ptr(int64(20)),
		Policy:    map[string]any{"cooldown": "1m"},
		Target:    map[string]string{"Namespace": "default", "Job": "db", "Group": "g"},
		Enabled:   ptr(true),
	}
}

// scaled is how a job was scaled.
func (f *fake) scaled(id string) *api.JobScaleStatusResponse {
	return &api.JobScaleStatusResponse{
		JobID:     id,
		Namespace: "default",
		TaskGroups: map[string]api.TaskGroupScaleStatus{"g": {
			Desired: 1,
			Events: []api.ScalingEvent{
				{
					Error:         true,
					Message:       "no metrics",
					PreviousCount: 1,
					Time:          uint64(f.ago(time.Minute)),
					CreateIndex:   9,
				},
				{
					Count:         ptr(int64(1)),
					PreviousCount: 3,
					Message:       "scaled by hand",
					EvalID:        ptr(evalA),
					Time:          uint64(f.ago(time.Hour)),
					CreateIndex:   8,
				},
			},
		}},
	}
}

// deployments answers about deployments; no: it is about something else.
func (f *fake) deployments(path string, body []byte) (out any, ok bool, err error) {
	if job, has := strings.CutPrefix(path, "job/"); has {
		id, what, _ := strings.Cut(job, "/")
		var list []*api.Deployment
		if id == "roll" {
			list = f.deployed()
		}
		switch {
		case strings.HasSuffix(what, "/tag"):
			return &api.JobVersionTag{Name: "golden"}, true, nil
		case what == "scale" && len(body) == 0:
			return f.scaled(id), true, nil
		case what == "scale":
			var in api.ScalingRequest
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, true, &refusal{400, "no JSON"}
			}
			if id == "roll" {
				return nil, true, &refusal{400, "job scaling blocked due to active deployment"}
			}
			return &api.JobRegisterResponse{EvalID: evalA, JobModifyIndex: 13}, true, nil
		case what == "deployments":
			return append([]*api.Deployment{}, list...), true, nil
		case what == "deployment" && len(list) > 0:
			return list[0], true, nil
		case what == "deployment":
			return "null", true, nil
		case what == "revert":
			var in api.JobRevertRequest
			if err := json.Unmarshal(body, &in); err != nil || in.JobVersion == 3 {
				return nil, true, &refusal{400, "can't revert to current version"}
			}
			return &api.JobRegisterResponse{EvalID: evalA, JobModifyIndex: 12}, true, nil
		}
		return nil, false, nil
	}
	if what, has := strings.CutPrefix(path, "scaling/"); has {
		if p := policy(); what == "policies" {
			stub := &api.ScalingPolicyListStub{ID: p.ID, Enabled: true, Type: p.Type, Target: p.Target}
			return []*api.ScalingPolicyListStub{stub}, true, nil
		} else if what == "policy/"+p.ID {
			return p, true, nil
		}
		return nil, true, &refusal{404, "policy not found"}
	}
	rest, has := strings.CutPrefix(path, "deployment")
	if !has {
		return nil, false, nil
	}
	for _, d := range f.deployed() {
		switch strings.TrimPrefix(rest, "/") {
		case d.ID:
			return d, true, nil
		case "promote/" + d.ID, "fail/" + d.ID, "pause/" + d.ID, "allocation-health/" + d.ID:
			if d.ID == deployB {
				what, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
				if what == "allocation-health" {
					what = "set health of allocations for a"
				}
				return nil, true, &refusal{500, "can't " + what + " terminal deployment"}
			}
			return &api.DeploymentUpdateResponse{EvalID: evalA, DeploymentModifyIndex: 45, Index: 45}, true, nil
		case "allocations/" + d.ID:
			return []*api.AllocationListStub{f.stub(allocA, "running", nil)}, true, nil
		}
	}
	if rest == "s" {
		return f.deployed(), true, nil
	}
	return nil, true, &refusal{404, "deployment not found"}
}
