package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"berth/api"
)

// sample is one observed exchange.
type sample struct {
	Request     string          `json:"request"`
	RequestBody json.RawMessage `json:"request_body"`
	Status      string          `json:"status"`
	Body        json.RawMessage `json:"body"`
}

// replyTypes names the type of every observed reply that is a JSON object or list of tier 1.
var replyTypes = map[string]any{
	"DELETE_job_ID":                        api.JobDeregisterResponse{},
	"DELETE_volume_host_ID":                api.GenericResponse{},
	"GET_acl_policies":                     []api.ACLPolicyListStub{},
	"GET_acl_policy_ID":                    api.ACLPolicy{},
	"GET_acl_roles":                        []api.ACLRole{},
	"GET_acl_token_self":                   api.ACLToken{},
	"GET_acl_tokens":                       []api.ACLTokenListStub{},
	"GET_agent_members":                    api.ServerMembers{},
	"GET_agent_self":                       api.AgentSelf{},
	"GET_agent_servers":                    []string{},
	"GET_operator_autopilot_configuration": api.AutopilotConfiguration{},
	"GET_operator_autopilot_health":        api.AutopilotHealth{},
	"GET_allocation_ID":                    api.Allocation{},
	"GET_allocations":                      []api.AllocationListStub{},
	"GET_client_allocation_ID_checks":      map[string]api.AllocCheckStatus{},
	"GET_client_allocation_ID_stats":       api.AllocResourceUsage{},
	"GET_client_fs_logs_ID":                api.StreamFrame{},
	"GET_client_fs_ls_ID":                  []api.AllocFileInfo{},
	"GET_client_fs_stat_ID":                api.AllocFileInfo{},
	"GET_client_stats":                     api.HostStats{},
	"GET_deployment_ID":                    api.Deployment{},
	"GET_deployments":                      []api.Deployment{},
	"GET_evaluation_ID":                    api.Evaluation{},
	"GET_evaluation_ID_allocations":        []api.AllocationListStub{},
	"GET_evaluations":                      []api.Evaluation{},
	"GET_job_ID":                           api.Job{},
	"GET_job_ID_deployment":                api.Deployment{},
	"GET_job_ID_deployments":               []api.Deployment{},
	"GET_job_ID_evaluations":               []api.Evaluation{},
	"GET_job_ID_submission":                api.JobSubmission{},
	"GET_job_ID_summary":                   api.JobSummary{},
	"GET_job_ID_versions":                  api.JobVersionsResponse{},
	"GET_jobs":                             []api.JobListStub{},
	"GET_namespace_ID":                     api.Namespace{},
	"GET_namespaces":                       []api.Namespace{},
	"GET_node_ID":                          api.Node{},
	"GET_node_pools":                       []api.NodePool{},
	"GET_nodes":                            []api.NodeListStub{},
	"GET_operator_raft_configuration":      api.RaftConfiguration{},
	"GET_operator_scheduler_configuration": api.SchedulerConfigurationResponse{},
	"GET_plugin_csi_ID":                    api.CSIPlugin{},
	"GET_plugins":                          []api.CSIPluginListStub{},
	"GET_volume_csi_ID":                    api.CSIVolume{},
	"GET_volume_host_ID":                   api.HostVolume{},
	"GET_volumes":                          []api.CSIVolumeListStub{},
	"GET_volumes_external":                 api.CSIVolumeListExternalResponse{},
	"GET_volumes_snapshot":                 api.CSISnapshotListResponse{},
	"PUT_acl_bootstrap":                    api.ACLToken{},
	"PUT_acl_role":                         api.ACLRole{},
	"PUT_acl_token":                        api.ACLToken{},
	"PUT_allocation_ID_stop":               api.AllocStopResponse{},
	"PUT_client_allocation_ID_restart":     api.GenericResponse{},
	"PUT_client_allocation_ID_signal":      api.GenericResponse{},
	"PUT_job_ID_evaluate":                  api.JobRegisterResponse{},
	"PUT_job_ID_plan":                      api.JobPlanResponse{},
	"PUT_job_ID_revert":                    api.JobRegisterResponse{},
	"PUT_job_ID_scale":                     api.JobRegisterResponse{},
	"PUT_jobs":                             api.JobRegisterResponse{},
	"PUT_node_ID_drain":                    api.NodeUpdateResponse{},
	"PUT_node_ID_eligibility":              api.NodeUpdateResponse{},
	"PUT_search":                           api.SearchResponse{},
	"PUT_validate_job":                     api.JobValidateResponse{},
	"PUT_volume_csi_ID":                    api.CSIVolumeRegisterResponse{},
	"PUT_volume_csi_ID_create":             api.CSIVolumeCreateResponse{},
	"PUT_volumes_snapshot":                 api.CSISnapshotCreateResponse{},
}

// requestTypes names the type of every observed request body of tier 1.
var requestTypes = map[string]any{
	"PUT_jobs":                         api.JobRegisterRequest{},
	"PUT_validate_job":                 api.JobValidateRequest{},
	"PUT_job_ID_plan":                  api.JobPlanRequest{},
	"PUT_job_ID_evaluate":              api.JobEvaluateRequest{},
	"PUT_volume_csi_ID":                api.CSIVolumeRegisterRequest{},
	"PUT_volume_csi_ID_create":         api.CSIVolumeCreateRequest{},
	"PUT_volumes_snapshot":             api.CSISnapshotCreateRequest{},
	"PUT_node_ID_eligibility":          api.NodeUpdateEligibilityRequest{},
	"PUT_client_allocation_ID_restart": api.AllocRestartRequest{},
	"PUT_client_allocation_ID_signal":  api.AllocSignalRequest{},
	"PUT_search":                       api.SearchRequest{},
	"PUT_acl_bootstrap":                api.ACLBootstrapRequest{},
	"PUT_acl_policy_ID":                api.ACLPolicy{},
	"PUT_acl_role":                     api.ACLRole{},
	"PUT_acl_token":                    api.ACLToken{},
}

// laterReplies are observed replies whose types come with their feature, or that carry no JSON.
var laterReplies = map[string]string{
	"GET_job_ID_scale":           "comes with scaling",
	"GET_service_ID":             "comes with service discovery",
	"GET_services":               "comes with service discovery",
	"GET_volumes_claims":         "comes with task group host volume claims",
	"PUT_agent_join":             "comes with gossip",
	"PUT_deployment_pause_ID":    "comes with deployments",
	"PUT_deployment_promote_ID":  "comes with deployments",
	"PUT_job_ID_dispatch":        "comes with parameterized jobs",
	"PUT_job_ID_periodic_force":  "comes with periodic jobs",
	"PUT_volume_host_create":     "comes with host volumes",
	"GET_acl_auth-methods":       "later tier",
	"GET_acl_binding-rules":      "later tier",
	"PUT_acl_token_onetime":      "later tier",
	"GET_operator_keyring_keys":  "later tier",
	"GET_scaling_policies":       "later tier",
	"GET_var_ID_bar":             "later tier",
	"GET_vars":                   "later tier",
	"PUT_var_ID_bar":             "later tier",
	"PUT_var_ID_lock":            "later tier",
	"PUT_job_ID_versions_t1_tag": "later tier",
	"GET_metrics":                "the sample is cut inside its text",
}

// Given the replies that an unmodified client saw, when our types decode them strictly and encode them again, then no
// member is unknown and every member that was there is there with the same JSON type.
func TestObservedRepliesDecodeStrictlyAndKeepTheirShape(t *testing.T) {
	seen := map[string]bool{}
	for name, s := range samples(t) {
		if !strings.HasPrefix(s.Status, "200") || !isJSONDocument(s.Body) {
			continue
		}
		base := strings.TrimSuffix(name, ".200")
		if _, later := laterReplies[base]; later {
			continue
		}
		typ, known := replyTypes[base]
		if !known {
			t.Errorf("%s: no type is named for this reply", name)
			continue
		}
		seen[base] = true
		t.Run(name, func(t *testing.T) { roundTrip(t, typ, s.Body) })
	}
	for base := range replyTypes {
		if !seen[base] {
			t.Errorf("%s: no sample met this type", base)
		}
	}
}

// Given the requests that an unmodified client sent, when our types decode them strictly and encode them again, then
// the shape is the same; the server must be able to read every one of them.
func TestObservedRequestsDecodeStrictlyAndKeepTheirShape(t *testing.T) {
	seen := 0
	for name, s := range samples(t) {
		typ, known := requestTypes[name[:strings.LastIndex(name, ".")]]
		if !known || len(s.RequestBody) == 0 || string(s.RequestBody) == "null" {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) { roundTrip(t, typ, s.RequestBody) })
	}
	if seen < len(requestTypes) {
		t.Errorf("only %d samples met the %d request types", seen, len(requestTypes))
	}
}

// newLike makes a pointer to a zero value of v's type.
func newLike(v any) any { return reflect.New(reflect.TypeOf(v)).Interface() }

func samples(t *testing.T) map[string]sample {
	t.Helper()
	files, err := filepath.Glob("testdata/replies/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples found: %v", err)
	}
	out := map[string]sample{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".json")] = s
	}
	return out
}

// isJSONDocument tells objects and lists from texts, which the samples also write as JSON strings.
func isJSONDocument(body json.RawMessage) bool {
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

func roundTrip(t *testing.T, typ any, body json.RawMessage) {
	t.Helper()
	value := newLike(typ)
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(value); err != nil {
		t.Fatalf("decode: %v", err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for _, d := range shapeDiff("", want, got) {
		t.Error(d)
	}
}

// shapeDiff lists where got lacks a member of want, has it with another JSON type, or lost its value.
func shapeDiff(path string, want, got any) []string {
	if want == nil {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: was an object, is %T", path, got)}
		}
		keys := make([]string, 0, len(w))
		for k := range w {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		var out []string
		for _, k := range keys {
			v, there := g[k]
			if !there && !isEmpty(w[k]) {
				out = append(out, path+"."+k+": is lost")
				continue
			}
			if there {
				out = append(out, shapeDiff(path+"."+k, w[k], v)...)
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: was a list of %d, is %v", path, len(w), got)}
		}
		var out []string
		for i := range w {
			out = append(out, shapeDiff(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return out
	default:
		if want != got {
			return []string{fmt.Sprintf("%s: was %v (%T), is %v (%T)", path, want, want, got, got)}
		}
		return nil
	}
}

func isEmpty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	case string:
		return x == ""
	case float64:
		return x == 0
	case bool:
		return !x
	}
	return false
}
