package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

// withSecrets encodes a volume with its secrets in clear, as the command line sends it.
func withSecrets(t testing.TB, v *api.CSIVolume) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out["Secrets"] = map[string]string(v.Secrets)
	return out
}

// observed is a reply as an unmodified client saw it.
func observed(t testing.TB, name string) any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../api/testdata/replies", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Body any }
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s.Body
}

// free are members whose own members are names of things: any one of them stands for all.
var free = regexp.MustCompile(
	`\.(Attributes|Meta|Drivers|HostVolumes|HostNetworks|Links|Tasks|TaskLifecycles|TaskResources|TaskStates|Summary|` +
		`NodesAvailable|Config|Env|Tags|Parameters|Context|Details|Segments|DesiredTGUpdates|Controllers|Nodes|CSINodePlugins|CSIControllerPlugins|` +
		`Matches|Truncations|QueuedAllocations|Volumes|ReadAllocs|WriteAllocs|config|stats|Scores|FailedTGAllocs|ClassFiltered|ConstraintFiltered|DimensionExhausted|Updates|Pids)$`)

// absent are observed members that stand for what is not built, or that depend on the thing observed; each with a
// reason.
var absent = []struct {
	path   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`Services$|Canary|CSIVolumes`), "services are not built"},
	{regexp.MustCompile(`Migrate$`), "draining goes by built-in defaults"},
	{regexp.MustCompile(`DeploymentID$|DeploymentStatus$|IsMultiregion$|PlanAnnotations$`), "there are no deployments"},
	{regexp.MustCompile(`Constraints$|Affinities$|Spreads$|Templates$|Update$|Networks$|Ports$`),
		"depends on the job that was observed"},
	{regexp.MustCompile(`Identity$|Identities$|SigningKeyID$`), "workload identities are not signed"},
	{regexp.MustCompile(
		`NextEval$|PreviousEval$|BlockedEval$|RelatedEvals|FailedTGAllocs$|QueuedAllocations$|ClassEligibility$|WaitUntil$|EscapedComputedClass$|QuotaLimitReached$`), "depends on the evaluation that was observed"},
	{regexp.MustCompile(
		`RescheduleTracker$|NextAllocation$|PreviousAllocation$|FollowupEvalID$|ClassFiltered|ConstraintFiltered|DimensionExhausted|ScoreMetaData|NetworkStatus$`), "depends on the alloc that was observed"},
	{regexp.MustCompile(
		`Events$|Disconnect$|Consul$|ReservedCores$|ReservableCpuCores$|Processors|NUMA|Busses|NetworkResource|Networks|Hash$|NodePoolConfiguration$|Capabilities$`), "not built"},
	{regexp.MustCompile(`LastDrain$`), "no node was drained"},
	{regexp.MustCompile(`Diff.*Fields$`), "depends on the two versions"},
	{regexp.MustCompile(`LastRestart$`), "the task that was observed had been restarted"},
	{regexp.MustCompile(`(Controller|Node)Jobs\.default$|EvalIDs$|^GET_plugin_csi_ID.Allocations$|^PUT_search.Matches`),
		"depends on what was observed"},
	{regexp.MustCompile(`^GET_job_ID\.(VersionTag|Reschedule)$|Diffs$`), "depends on the job that was observed"},
}

// exchanges are the replies that are held against the observed ones. A path holds ALLOC, EVAL, BLOCKED and NODE.
var exchanges = []struct{ sample, method, path string }{
	{"GET_agent_members.200", "GET", "/v1/agent/members"},
	{"GET_agent_self.200", "GET", "/v1/agent/self"},
	{"GET_allocation_ID.200", "GET", "/v1/allocation/ALLOC"},
	{"GET_allocations.200", "GET", "/v1/allocations"},
	{"GET_allocations.200", "GET", "/v1/job/web/allocations"},
	{"GET_client_allocation_ID_stats.200", "GET", "/v1/client/allocation/ALLOC/stats"},
	{"GET_client_fs_ls_ID.200", "GET", "/v1/client/fs/ls/ALLOC?path=/"},
	{"GET_client_fs_stat_ID.200", "GET", "/v1/client/fs/stat/ALLOC?path=/alloc/data/readme"},
	{"GET_client_stats.200", "GET", "/v1/client/stats?node_id=NODE"},
	{"GET_evaluation_ID.200", "GET", "/v1/evaluation/EVAL?related=true"},
	{"GET_evaluation_ID_allocations.200", "GET", "/v1/evaluation/EVAL/allocations"},
	{"GET_evaluations.200", "GET", "/v1/evaluations"},
	{"GET_job_ID.200", "GET", "/v1/job/web"},
	{"GET_job_ID_evaluations.200", "GET", "/v1/job/web/evaluations"},
	{"GET_job_ID_submission.200", "GET", "/v1/job/web/submission?version=0"},
	{"GET_job_ID_summary.200", "GET", "/v1/job/web/summary"},
	{"GET_job_ID_versions.200", "GET", "/v1/job/web/versions"},
	{"GET_jobs.200", "GET", "/v1/jobs"},
	{"GET_namespace_ID.200", "GET", "/v1/namespace/default"},
	{"GET_namespaces.200", "GET", "/v1/namespaces"},
	{"GET_node_ID.200", "GET", "/v1/node/NODE"},
	{"GET_nodes.200", "GET", "/v1/nodes"},
	{"GET_plugin_csi_ID.200", "GET", "/v1/plugin/csi/disk"},
	{"GET_plugins.200", "GET", "/v1/plugins?type=csi"},
	{"GET_status_leader.200", "GET", "/v1/status/leader"},
	{"GET_volume_csi_ID.200", "GET", "/v1/volume/csi/db"},
	{"GET_volumes.200", "GET", "/v1/volumes?type=csi"},
	{"GET_volumes_external.200", "GET", "/v1/volumes/external?plugin_id=disk"},
	{"GET_volumes_snapshot.200", "GET", "/v1/volumes/snapshot?plugin_id=disk"},
	{"GET_operator_raft_configuration.200", "GET", "/v1/operator/raft/configuration"},
	{"GET_agent_servers.200", "GET", "/v1/agent/servers"},
	{"PUT_search.200", "PUT", "/v1/search"},
	{"PUT_job_ID_plan.200", "PUT", "/v1/job/web/plan"},
	{"PUT_jobs.200", "PUT", "/v1/jobs"},
	{"PUT_validate_job.200", "PUT", "/v1/validate/job"},
	{"PUT_volume_csi_ID_create.200", "PUT", "/v1/volume/csi/db2/create"},
	{"PUT_volume_csi_ID.200", "PUT", "/v1/volume/csi/reg"},
	{"PUT_volumes_snapshot.200", "PUT", "/v1/volumes/snapshot"},
	{"PUT_job_ID_evaluate.200", "PUT", "/v1/job/web/evaluate"},
	{"PUT_node_ID_eligibility.200", "PUT", "/v1/node/NODE/eligibility"},
	{"PUT_client_allocation_ID_restart.200", "PUT", "/v1/client/allocation/ALLOC/restart"},
	{"PUT_client_allocation_ID_signal.200", "PUT", "/v1/client/allocation/ALLOC/signal"},
	{"PUT_allocation_ID_stop.200", "PUT", "/v1/allocation/ALLOC/stop"},
	{"DELETE_job_ID.200", "DELETE", "/v1/job/web"},
}

// bodies are the requests of exchanges that need one.
func bodies(t testing.TB) map[string]any {
	registered := withSecrets(t, volumeSpec("reg"))
	registered["ExternalID"] = "ext-reg"
	return map[string]any{
		"PUT_search.200":               map[string]any{"Prefix": "w", "Context": "all"},
		"PUT_job_ID_plan.200":          map[string]any{"Job": webJob("web"), "Diff": true},
		"PUT_jobs.200":                 map[string]any{"Job": webJob("other")},
		"PUT_validate_job.200":         map[string]any{"Job": webJob("other")},
		"PUT_volume_csi_ID_create.200": map[string]any{"Volumes": []any{withSecrets(t, volumeSpec("db2"))}},
		"PUT_volume_csi_ID.200":        map[string]any{"Volumes": []any{registered}},
		"PUT_volumes_snapshot.200": map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "db",
			"Name": "s2"}}},
		"PUT_job_ID_evaluate.200":              map[string]any{"JobID": "web"},
		"PUT_node_ID_eligibility.200":          map[string]any{"Eligibility": "eligible"},
		"PUT_client_allocation_ID_restart.200": map[string]any{"TaskName": "t"},
		"PUT_client_allocation_ID_signal.200":  map[string]any{"Task": "t", "Signal": "SIGHUP"},
	}
}

// Given replies that an unmodified client saw, when we answer the same requests, then every member that was there is
// there with the same JSON type.
func TestRepliesHaveTheObservedShape(t *testing.T) {
	w := newWorld(t)
	fill := strings.NewReplacer("ALLOC", w.alloc, "EVAL", w.eval, "BLOCKED", w.blocked, "NODE", string(w.node.id.Node))
	body := bodies(t)
	for _, x := range exchanges {
		t.Run(x.sample, func(t *testing.T) {
			a := w.must(x.method, fill.Replace(x.path), body[x.sample])
			if strings.Contains(string(a.body), canary) {
				t.Errorf("a secret is shown: %s", a.body)
			}
			if ct := a.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("the content type is %q", ct)
			}
			var got any
			a.into(t, &got)
			for _, d := range lacking(strings.TrimSuffix(x.sample, ".200"), observed(t, x.sample), got) {
				t.Error(d)
			}
		})
	}
}

func excused(path string) bool {
	return slices.ContainsFunc(absent, func(a struct {
		path   *regexp.Regexp
		reason string
	}) bool {
		return a.path.MatchString(path)
	})
}

// lacking lists what the observed value has and ours has not, or has with another type.
func lacking(path string, want, got any) []string {
	if want == nil || excused(path) && got == nil {
		return nil
	}
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		return []string{fmt.Sprintf("%s: was %T, is %T", path, want, got)}
	}
	switch w := want.(type) {
	case map[string]any:
		return lackingMembers(path, w, got.(map[string]any))
	case []any:
		g := got.([]any)
		if len(w) == 0 || len(g) == 0 {
			if len(w) > 0 && !excused(path) {
				return []string{path + ": the list is empty, so that nothing was compared"}
			}
			return nil
		}
		for _, one := range w {
			if one != nil {
				return lacking(path+"[]", one, g[0])
			}
		}
	}
	return nil
}

func lackingMembers(path string, w, g map[string]any) (out []string) {
	if free.MatchString(path) {
		for _, k := range slices.Sorted(maps.Keys(w)) {
			for _, l := range slices.Sorted(maps.Keys(g)) {
				if w[k] != nil && g[l] != nil && !strings.HasPrefix(path, "GET_agent_self") {
					return lacking(path+"{}", w[k], g[l])
				}
			}
		}
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(w)) {
		v, there := g[k]
		switch {
		case !there && w[k] == nil, !there && excused(path+"."+k):
		case !there:
			out = append(out, path+"."+k+": is lacking")
		default:
			out = append(out, lacking(path+"."+k, w[k], v)...)
		}
	}
	return out
}
