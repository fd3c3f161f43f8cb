package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/api"
)

// put sets a member at a path of a job in JSON; a step with [] goes into the first of a list, or the one of a map.
func put(at map[string]any, path string, value any) {
	step, rest, more := strings.Cut(path, ".")
	name, each := strings.CutSuffix(step, "[]")
	if !more {
		at[name] = value
		return
	}
	inner := map[string]any{}
	switch {
	case !each:
		if have, ok := at[name].(map[string]any); ok {
			inner = have
		}
		at[name] = inner
	case name == "Volumes":
		at[name] = map[string]any{"v": inner}
	default:
		if have, ok := at[name].([]any); ok {
			inner = have[0].(map[string]any)
		} else {
			at[name] = []any{inner}
		}
	}
	put(inner, rest, value)
}

// Given each member of a job that is not built, when a job in JSON sets that one alone, then registration, plan and
// validation name it, and the job is not there.
func TestEveryMemberThatIsNotBuiltIsRefused(t *testing.T) {
	r := newRig(t)
	some, list := map[string]any{"Name": "x"}, []any{map[string]any{}}
	const g, k = "TaskGroups[].", "TaskGroups[].Tasks[]."
	for _, c := range []struct {
		path  string
		value any
		word  string
	}{
		{"AllAtOnce", true, "all_at_once"}, {"Multiregion", map[string]any{}, "multiregion"},
		{"UI", map[string]any{"Description": "x"}, "ui"},
		{"ConsulNamespace", "x", "consul"}, {"VaultNamespace", "x", "vault"},
		{"Update.Stagger", 60_000_000_000, "stagger"},
		{g + "Services[].Connect.SidecarService.Proxy.TransparentProxy", map[string]any{}, "transparent_proxy"},
		{g + "Services[].AddressMode", "driver", "address_mode"},
		{g + "Consul.Namespace", "x", "consul namespace"}, {k + "Consul.Namespace", "x", "consul namespace"},
		{g + "Consul.Partition", "x", "consul partition"}, {k + "Consul.Partition", "x", "consul partition"},
		{g + "Consul.Cluster", "x", "consul cluster"},
		{g + "Services[].Cluster", "x", "service cluster"},
		{g + "EphemeralDisk.Sticky", true, "sticky"},
		{g + "EphemeralDisk.Migrate", true, "migrate"}, {g + "Volumes[].Sticky", true, "sticky"},
		{g + "Update.Stagger", 60_000_000_000,
			"stagger"},
		{g + "Migrate.MaxParallel", 7, "migrate max_parallel"}, {g + "Networks[].CIDR", "10.0.0.0/8", "network cidr"},
		{g + "Networks[].Device", "eth0", "network device"},
		{k + "Vault", map[string]any{}, "vault"}, {k + "Consul.Cluster", "x", "consul cluster"},
		{k + "Secrets[].Provider", "vault", "secret provider"}, {k + "Actions", []any{some}, "action"},
		{k + "Schedule", map[string]any{}, "schedule"},
		{k + "Identity.ServiceName", "x", "identity service_name"},
		{k + "Resources.DiskMB", 10, "disk"}, {k + "Resources.Networks", list,
			"network"},
		{k + "Resources.NUMA", map[string]any{"Devices": []any{"a"}}, "numa devices"}, {k + "Resources.SecretsMB", 3,
			"secrets"}, {k + "LogConfig.Enabled", false, "logs enabled"},
		{k + "Templates[].ChangeScript.RunOnFirstRender", true, "run_on_first_render"},
		{k + "VolumeMounts[].SELinuxLabel", "z",
			"selinux_label"},
	} {
		j := webJob("unbuilt")
		put(j, c.path, c.value)
		for _, path := range []string{"/v1/jobs", "/v1/job/unbuilt", "/v1/job/unbuilt/plan"} {
			a := r.try("PUT", path, map[string]any{"Job": j})
			if text := string(a.body); a.status != 400 || !strings.Contains(text, c.word) ||
				!strings.Contains(text, "is not built yet: ") {
				t.Errorf("%s: %s answers %d %s", c.path, path, a.status, text)
			}
		}
		var v api.JobValidateResponse
		r.must("PUT", "/v1/validate/job", map[string]any{"Job": j}).into(t, &v)
		if !strings.Contains(v.Error, c.word) {
			t.Errorf("%s: validation says %+v", c.path, v)
		}
	}
	if a := r.try("GET", "/v1/job/unbuilt", nil); a.status != 404 {
		t.Errorf("a refused job is there: %s", a.body)
	}
}

// Given members of requests beside the job and the volume that cannot act, then they are refused or warned of.
func TestMembersOfRequestsAreNotDropped(t *testing.T) {
	w := newWorld(t)
	var reg api.JobRegisterResponse
	launched := webJob("web")
	launched["ParentID"], launched["Dispatched"] = "other", true
	launched["Payload"], launched["DispatchIdempotencyToken"] = []byte("x"), "t"
	w.must("PUT", "/v1/jobs", map[string]any{"Job": launched, "PolicyOverride": true}).into(t, &reg)
	for _, name := range []string{"ParentID", "Dispatched", "Payload", "DispatchIdempotencyToken"} {
		if !strings.Contains(reg.Warnings, name+" has no effect: servers write it of what a job launches") {
			t.Errorf("of %s the answer says nothing: %q", name, reg.Warnings)
		}
	}
	var plan api.JobPlanResponse
	w.must("PUT", "/v1/job/web/plan", map[string]any{"Job": webJob("web"), "PolicyOverride": true}).into(t, &plan)
	var vol api.CSIVolumeRegisterResponse
	w.must("PUT", "/v1/volume/csi/more/create?wait=5s",
		map[string]any{"Volumes": []any{withSecrets(t, volumeSpec("more"))}, "PolicyOverride": true}).into(t, &vol)
	for what, text := range map[string]string{"register": reg.Warnings, "plan": plan.Warnings,
		"volume create": vol.Warnings} {
		if !strings.Contains(text, "PolicyOverride has no effect") {
			t.Errorf("%s warns %q", what, text)
		}
	}
	for _, c := range []struct {
		method, path string
		body         any
		text         string
		header       []string
	}{
		{"PUT", "/v1/jobs", map[string]any{"Job": webJob("web"), "PreserveResources": true},
			"PreserveResources is not built", nil},
		{"PUT", "/v1/job/web/evaluate", map[string]any{"JobID": "other"}, "does not match", nil},
		{"PUT", "/v1/volumes/snapshot", `{"Snapshots": [null]}`, "missing snapshot definition", nil},
		{"DELETE", "/v1/volume/csi/more/delete", nil, "secret 2 of the header",
			[]string{"X-Nomad-CSI-Secrets", "key=a," + canary}},
		{"GET", "/v1/volumes/snapshot?plugin_id=disk", nil, "secret 1 of the header",
			[]string{"X-Nomad-CSI-Secrets", canary}},
		{"DELETE", "/v1/volumes/snapshot?plugin_id=disk&snapshot_id=x", nil, "secret 1 of the header",
			[]string{"X-Nomad-CSI-Secrets", "=" + canary}},
		{"PUT", "/v1/volumes/snapshot", map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "db"}}},
			"secret 1 of the header", []string{"X-Nomad-CSI-Secrets", canary}},
	} {
		a := w.try(c.method, c.path, c.body, c.header...)
		if a.status != 400 || !strings.Contains(string(a.body), c.text) || strings.Contains(string(a.body), canary) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	var still json.RawMessage
	w.get("/v1/volume/csi/more", &still)
}
