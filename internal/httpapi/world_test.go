package httpapi_test

import (
	"slices"
	"testing"

	"berth/api"
)

// webJob is a job as clients send it: nothing that its author left out is filled in.
func webJob(id string) map[string]any {
	return map[string]any{"ID": id, "Name": id, "TaskGroups": []any{map[string]any{"Name": "g", "Count": nil,
		"Networks": []any{map[string]any{"DynamicPorts": []any{map[string]any{"Label": "http"}}}},
		"Tasks": []any{map[string]any{"Name": "t", "Driver": "exec",
			"Config":    map[string]any{"command": "/bin/sleep", "args": []any{"60"}},
			"Resources": map[string]any{"CPU": 50, "MemoryMB": 32}}}}}}
}

func group(job map[string]any) map[string]any {
	return job["TaskGroups"].([]any)[0].(map[string]any)
}

func task(job map[string]any) map[string]any {
	return group(job)["Tasks"].([]any)[0].(map[string]any)
}

// submit registers a job and waits for its evaluation to be over.
func (r *rig) submit(job map[string]any) *api.Evaluation {
	r.t.Helper()
	var reply api.JobRegisterResponse
	r.must("PUT", "/v1/jobs",
		map[string]any{"Job": job, "Submission": map[string]any{"Source": "job {}", "Format": "hcl2"}}).into(r.t,
		&reply)
	if reply.EvalID == "" || reply.EvalCreateIndex == 0 || reply.JobModifyIndex == 0 {
		r.t.Fatalf("the registration answered %+v", reply)
	}
	return until(r, "/v1/evaluation/"+reply.EvalID+"?related=true", func(e *api.Evaluation) bool {
		return e.Status == "complete" || e.Status == "failed"
	})
}

// volume is what a volume file becomes.
func volumeSpec(id string) *api.CSIVolume {
	return &api.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             "disk",
		RequestedCapacityMin: 1 << 20,
		RequestedCapacityMax: 2 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
		MountOptions: &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=" + canary}},
		Secrets:      api.Secrets{"key": canary},
		Parameters:   map[string]string{"tier": "fast"},
		RequestedTopologies: &api.CSITopologyRequest{
			Required: []*api.CSITopology{{Segments: map[string]string{"zone": "z1"}}},
		},
	}
}

func (r *rig) createVolume(id string) {
	r.t.Helper()
	body := map[string]any{"Volumes": []any{withSecrets(r.t, volumeSpec(id))}}
	r.must("PUT", "/v1/volume/csi/"+id+"/create?wait=5s", body)
}

// world is a rig where something of every kind is there.
type world struct {
	*rig
	alloc, eval, blocked string
	token                string // the accessor of one, that expires
	secret               string // of one that does not
}

func newWorld(t testing.TB) *world {
	w := &world{rig: newRig(t)}
	w.createVolume("db")
	w.must("PUT", "/v1/volumes/snapshot?wait=5s",
		map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "db", "Name": "s1",
			"Secrets": map[string]any{"k": canary}}}})
	web := webJob("web")
	web["Meta"] = map[string]any{"team": "a"}
	group(web)["Services"] = []any{map[string]any{"Name": "web", "Provider": "nomad", "PortLabel": "http",
		"Checks": []any{map[string]any{"Type": "tcp", "Interval": 5e9, "Timeout": 1e9}}}}
	group(web)["Volumes"] = map[string]any{"data": map[string]any{"Type": "csi", "Source": "db",
		"AccessMode": "single-node-writer", "AttachmentMode": "file-system"},
		"certs": map[string]any{"Type": "host", "Source": "certs", "ReadOnly": true}}
	task(web)["VolumeMounts"] = []any{map[string]any{"Volume": "data", "Destination": "/data"},
		map[string]any{"Volume": "certs", "Destination": "/certs"}}
	ev := w.submit(web)
	w.eval = ev.ID
	w.alloc = until(w.rig, "/v1/job/web/allocations", func(l []*api.AllocationListStub) bool {
		return len(l) == 1 && l[0].ClientStatus == "running"
	})[0].ID
	w.submit(webJob("fails"))
	until(w.rig, "/v1/job/fails/evaluations", func(l []*api.Evaluation) bool { // its next try is known
		return slices.ContainsFunc(l, func(e *api.Evaluation) bool { return e.WaitUntil != nil })
	})
	huge := webJob("huge")
	task(huge)["Resources"] = map[string]any{"CPU": 1 << 30, "MemoryMB": 32}
	huge["Constraints"] = []any{map[string]any{"LTarget": "${attr.kernel.name}", "RTarget": "windows", "Operand": "="}}
	w.blocked = w.submit(huge).ID
	w.accessLists()
	w.must("PUT", "/v1/var/foo/bar", map[string]any{"Items": map[string]any{"k": "v3"}})
	return w
}

// accessLists writes a policy, a role, and a token of either type. Nothing is judged by them here.
func (w *world) accessLists() {
	w.must("PUT", "/v1/acl/policy/ro", map[string]any{"Name": "ro", "Description": "d",
		"Rules": "namespace \"default\" {\n  policy = \"read\"\n}\n"})
	w.must("PUT", "/v1/acl/role", map[string]any{"Name": "r", "Policies": []any{map[string]any{"Name": "ro"}}})
	var made api.ACLToken
	w.must("PUT", "/v1/acl/token", map[string]any{"Name": "m", "Type": "management"}).into(w.t, &made)
	w.secret = made.SecretID
	w.must("PUT", "/v1/acl/token", map[string]any{"Name": "t", "Type": "client", "Policies": []string{"ro"},
		"ExpirationTTL": "1h0m0s"}).into(w.t, &made)
	w.token = made.AccessorID
}
