package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/internal/base/backup"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/base/storecheck"
)

// The cast of the transcripts.
const (
	nodeA  = "8f3a11c0-0000-4000-8000-00000000000a"
	nodeB  = "91b2c3d4-0000-4000-8000-00000000000b"
	allocA = "4ff1d9c5-0000-4000-8000-000000000001"
	allocB = "4f02aa10-0000-4000-8000-000000000002"
	allocC = "77c0ffee-0000-4000-8000-000000000003"
	evalA  = "5bce5263-0000-4000-8000-000000000001"
	evalB  = "6bce5263-0000-4000-8000-000000000002"
)

// fake is an agent with a little cluster. Its answers are those of a cluster, as far as the transcripts go.
type fake struct {
	mu       sync.Mutex
	now      time.Time
	requests []string
	bodies   []string
	reads    map[string]int // how often a path was read, for stories with several chapters
	job      string         // the one that was registered or stopped last
	stopping bool           // it was stopped
	unmounts bool           // the node was seen unmounting what the database has
	watched  chan struct{}  // closed when somebody waits for news of the volume
	watch    sync.Once

	said      nodeWords
	recovered *api.RecoveryStatus // in place of its own
	wrote     *api.Namespace      // that was written last
}

func newFake() *fake {
	return &fake{
		now:     time.Now(),
		reads:   map[string]int{},
		watched: make(chan struct{}),
		said:    nodeWords{asks: []string{"10.0.0.1:4647"}},
	}
}

func (f *fake) ago(d time.Duration) int64 { return f.now.Add(-d).UnixNano() }

// patient is a request that waits for longer than commands do by themselves.
func patient(q url.Values) bool {
	d, err := time.ParseDuration(q.Get("wait"))
	return err == nil && d > 5*time.Second
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch q := r.URL.Query(); {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/volume/csi/db-data" && q.Has("index"):
		f.watch.Do(func() { close(f.watched) })
		<-r.Context().Done() // there is no news
		return
	case r.Method == http.MethodDelete && patient(q):
		<-f.watched // a deletion takes its time
	}
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	f.mu.Lock()
	defer f.mu.Unlock()
	story := strings.TrimSuffix(path, "/rollout") // each look at how far a job is tells the next of it
	last := 100 + f.chapters(story)
	if index, err := strconv.Atoi(r.URL.Query().Get("index")); err == nil && index >= last {
		f.noNews(r)
	}
	f.requests = append(f.requests,
		strings.TrimSuffix(r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.Query().Encode(), "?"))
	f.bodies = append(f.bodies, string(body))
	f.reads[story]++
	var out any
	var err error
	acl, ofACL := strings.CutPrefix(path, "acl/")
	divided, ofPartitions, refused := f.partitions(r.Method, path, body)
	deployed, ofDeployments, denied := f.deployments(path, body)
	kept, ofVariables, unkept := f.variables(r, path, body)
	switch {
	case ofVariables:
		out, err = kept, unkept
	case ofDeployments:
		out, err = deployed, denied
	case ofPartitions:
		out, err = divided, refused
	case ofACL:
		out, err = f.acl(r.Method, acl, body)
	case r.Method == http.MethodGet:
		out, err = f.get(path, r, f.reads[story])
	case r.Method == http.MethodPut:
		out, err = f.put(path, r, body)
	case r.Method == http.MethodDelete:
		out, err = f.del(path, r)
	}
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made below
		w.WriteHeader(refused.code)
		_, _ = io.WriteString(w, refused.text)
		return
	}
	w.Header().Set("X-Nomad-Index", strconv.Itoa(min(100+f.reads[story], last)))
	if raw, ok := out.(string); ok {
		_, _ = io.WriteString(w, raw)
		return
	}
	if out != nil {
		_ = json.NewEncoder(w).Encode(out)
	}
}

// chapters is how many different answers a path gives one after another.
func (f *fake) chapters(path string) int {
	id, ok := strings.CutPrefix(path, "job/")
	switch {
	case path == "evaluation/"+evalA, path == "deployment/"+deployA:
		return 2
	case ok && id == f.job && !f.stopping:
		return len(f.plot(id))
	case path == "node/"+nodeB:
		return 100
	case f.stopping && path == "job/"+f.job+"/allocations":
		return len(f.ending())
	}
	return 1
}

// noNews keeps a reader waiting as long as it asked.
func (f *fake) noNews(r *http.Request) {
	f.mu.Unlock()
	defer f.mu.Lock()
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil {
		wait = 5 * time.Minute
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
	}
}

type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func ptr[T any](v T) *T { return &v }

// get answers reads; n says how often this one was made.
func (f *fake) get(path string, r *http.Request, n int) (any, error) {
	q := r.URL.Query()
	switch {
	case path == "jobs" && q.Get("namespace") == "empty":
		return []*api.JobListStub{}, nil
	case path == "jobs" && q.Get("namespace") == "berth":
		return []*api.JobListStub{{ID: "local-csi", Namespace: "berth", Status: "running"}}, nil
	case path == "jobs" && q.Get("filter") == "Status==running":
		return slices.DeleteFunc(f.jobs(""), func(j *api.JobListStub) bool { return j.Status != "running" }), nil
	case path == "jobs":
		return f.jobs(q.Get("prefix")), nil
	case path == "nodes" && strings.Contains(r.FormValue("filter"), api.NodeAttributeLocalCSI):
		return f.bundled(), nil
	case path == "operator/ca":
		until := f.now.Add(90 * 24 * time.Hour)
		return &api.CA{
			Roots: []*api.CARoot{
				{KeyID: "n5xgkidsn5xxi", Created: f.now, By: "ann"},
				{KeyID: "mfzs3ojvgq2ts", Created: f.now, Until: &until},
			},
			Unaware: []*api.CANode{{NodeID: nodeB, Name: "beech"}},
		}, nil
	case path == "node/denials":
		return []*api.NodeDenial{{
			NodeID: nodeA,
			Name:   "ash",
			Key:    "mfzs3ojvgq2ts",
			Since:  f.now,
			By:     "ann",
			Reason: "it was stolen",
		}}, nil
	case path == "nodes" && r.FormValue("filter") != "":
		return nil, &refusal{400, "failed to read filter expression: 1:2: no match found"}
	case path == "nodes":
		return []*api.NodeListStub{
			{
				ID:                    nodeA,
				Name:                  "ash",
				Datacenter:            "dc1",
				NodePool:              "default",
				SchedulingEligibility: "eligible",
				Status:                "ready",
				CreateIndex:           2,
			},
			{
				ID:                    nodeB,
				Name:                  "birch",
				Datacenter:            "dc1",
				NodePool:              "default",
				NodeClass:             "big",
				SchedulingEligibility: "ineligible",
				Status:                "down",
				Orphans:               2,
				CreateIndex:           1,
			},
		}, nil
	case path == "node/"+nodeA:
		return f.node(), nil
	case path == "node/"+nodeB:
		return f.nodeWithOrphans(n), nil
	case path == "node/"+nodeB+"/orphan/"+allocB:
		return f.orphan(), nil
	case path == "node/"+nodeA+"/allocations":
		return []*api.Allocation{f.alloc()}, nil
	case path == "client/metadata":
		return f.nodeMeta(), nil
	case path == "agent/servers":
		return f.said.asks, nil
	case path == "client/stats":
		return &api.HostStats{
			Uptime:           3661,
			CPUTicksConsumed: 460,
			Memory:           &api.HostMemoryStats{Used: 1 << 30, Total: 8 << 30},
			AllocDirStats:    &api.HostDiskStats{Used: 5 << 30, Size: 50 << 30},
			DeviceStats:      deviceStats(),
		}, nil
	case path == "allocations":
		return f.under(q.Get("prefix"), f.stub(allocA, "running", f.events(n)), f.stub(allocB, "failed", nil),
			f.stub(allocC, "failed", nil)), nil
	case path == "allocation/"+allocA && f.stopping:
		return f.holding(), nil
	case path == "allocation/"+allocA:
		return f.alloc(), nil
	case path == "allocation/"+allocB && f.endsOrphan(allocB):
		return f.releasing(allocB, n < 2), nil
	case path == "allocation/"+allocC && f.endsOrphan(allocC) && !f.endsOrphan(allocB):
		return f.releasing(allocC, true), nil
	case path == "allocation/"+allocC:
		return f.crashing(), nil
	case path == "job/edge/consul":
		return []*api.ConsulEntryStatus{{
			Kind:   "ingress-gateway",
			Name:   "edge",
			Reason: "write ingress-gateway edge: permission denied: give the servers a token with mesh:write",
			Since:  f.ago(3*time.Minute) / int64(time.Second),
		}}, nil
	case path == "service/edge" && q.Get("provider") == "consul":
		return []*api.ServiceRegistration{{
			ID:          "_berth-edge",
			ServiceName: "edge",
			Namespace:   "default",
			JobID:       "edge",
			AllocID:     allocA,
			NodeID:      nodeA,
			Address:     "10.0.0.1",
			Port:        8080,
		}}, nil
	case path == "service/edge":
		return []*api.ServiceRegistration{}, nil
	case path == "allocation/"+allocA+"/consul":
		return []*api.ConsulServiceStatus{{
			ID:         "_berth-edge",
			Service:    "edge",
			Registered: true,
			Since:      f.ago(time.Minute) / int64(time.Second),
		}}, nil
	case strings.HasPrefix(path, "job/"):
		return f.jobGet(strings.TrimPrefix(path, "job/"), n)
	case strings.HasPrefix(path, "evaluation"):
		return f.evalGet(path, n)
	case path == "volumes":
		return f.volumes(q.Get("prefix")), nil
	case path == "volume/csi/db-data":
		return f.volume(), nil
	case path == "volume/csi/db-data/usage":
		return f.usage(), nil
	case path == "plugins":
		return []*api.CSIPluginListStub{{
			ID:                  "local-csi",
			Provider:            "local.csi.berth",
			ControllersHealthy:  1,
			ControllersExpected: 1,
			NodesHealthy:        1,
			NodesExpected:       2,
		}}, nil
	case path == "plugin/csi/local-csi":
		return f.plugin(), nil
	case path == "volumes/snapshot":
		return &api.CSISnapshotListResponse{Snapshots: []*api.CSISnapshot{f.snapshot()}, Incomplete: []string{"oak"}},
			nil
	case path == "volumes/external":
		return &api.CSIVolumeListExternalResponse{
			Volumes: []*api.CSIVolumeExternalStub{{
				ExternalID:               "vol-1",
				CapacityBytes:            1 << 30,
				PublishedExternalNodeIDs: []string{"ash"},
			}},
		}, nil
	case strings.HasPrefix(path, "client/"):
		return f.runtime(path, r)
	case path == "agent/self":
		return &api.AgentSelf{
			Stats: map[string]map[string]string{"client": {"node_id": nodeA},
				"berth": {"version": "9", "uptime": "1m"}},
		}, nil
	case path == "agent/members":
		return &api.ServerMembers{
			Members: []*api.AgentMember{{
				Name:   "ash.global",
				Addr:   "127.0.0.1",
				Port:   4648,
				Status: "alive",
				Tags: map[string]string{"port": "4647", "raft_vsn": "3", "build": "9", "dc": "dc1",
					"region": "global"},
			}},
		}, nil
	case path == "operator/recovery":
		return f.recovery(), nil
	case path == "operator/raft/configuration", path == "operator/autopilot/health":
		return f.servers(path), nil
	case path == "operator/autopilot/configuration":
		return f.autopilot(), nil
	case path == "operator/keyring/keys":
		return []*api.RootKeyMeta{rootKey(evalA, "inactive", 3), rootKey(evalB, "active", 1)}, nil
	case path == "status/leader":
		return "\"127.0.0.1:4647\"\n", nil
	case path == "agent/monitor":
		return `{"Data":"` + "bGluZQo=" + `"}{}`, nil
	}
	if strings.HasPrefix(path, "node/") {
		return []*api.Allocation{}, nil
	}
	if strings.HasPrefix(path, "allocation/") {
		return nil, &refusal{404, "alloc not found"}
	}
	return nil, &refusal{404, ""}
}

func (f *fake) jobs(prefix string) []*api.JobListStub {
	out := []*api.JobListStub{}
	for _, j := range []*api.JobListStub{
		{
			ID:         "db",
			Namespace:  "default",
			Type:       "service",
			Priority:   50,
			Status:     "running",
			SubmitTime: f.ago(time.Hour),
		},
		{
			ID:         "db-backup",
			Namespace:  "default",
			Type:       "batch",
			Priority:   50,
			Status:     "dead",
			Stop:       true,
			Periodic:   true,
			SubmitTime: f.ago(25 * time.Hour),
		},
		{
			ID:         "web",
			Namespace:  "default",
			Type:       "service",
			Priority:   70,
			Status:     "pending",
			SubmitTime: f.ago(time.Minute),
		},
	} {
		if strings.HasPrefix(j.ID, prefix) {
			out = append(out, j)
		}
	}
	if len(out) == 0 && len(f.plot(prefix)) > 1 { // those of the stories are found by their whole id
		out = append(out, &api.JobListStub{ID: prefix, Namespace: "default"})
	}
	return out
}

func (f *fake) jobGet(path string, n int) (any, error) {
	id, part, _ := strings.Cut(path, "/")
	switch part {
	case "":
		return f.jobFull(id), nil
	case "summary":
		return &api.JobSummary{JobID: id, Summary: map[string]api.TaskGroupSummary{"g": {Running: 1, Queued: 1}}}, nil
	case "allocations":
		if f.stopping {
			return f.ending()[min(n, len(f.ending()))-1], nil
		}
		return f.scene(id).allocs, nil
	case "evaluations":
		return f.scene(id).evals, nil
	case "rollout":
		return f.rollout(id), nil
	case "versions":
		return &api.JobVersionsResponse{Versions: []*api.Job{f.jobFull(id)}, Diffs: []*api.JobDiff{diff()}}, nil
	case "submission":
		return submissionOf(id), nil
	}
	return nil, &refusal{404, "job not found"}
}

// events are the first n things that happen to a task with a volume.
func (f *fake) events(n int) []*api.TaskEvent {
	all := []*api.TaskEvent{
		{Type: api.TaskReceived, Time: f.ago(5 * time.Second), DisplayMessage: "Task received by client"},
		{
			Type:           "Storage",
			Time:           f.ago(4 * time.Second),
			DisplayMessage: `volume "db-data": held by allocation 4f02aa10, which is stopping`,
		},
		{Type: "Storage", Time: f.ago(3 * time.Second), DisplayMessage: `volume "db-data": being staged`},
		{Type: api.TaskStarted, Time: f.ago(2 * time.Second), DisplayMessage: "Task started by client"},
	}
	return all[:min(n, len(all))]
}

func (f *fake) stub(id, status string, events []*api.TaskEvent) *api.AllocationListStub {
	state := &api.TaskState{State: "running", Failed: status == "failed", Events: events}
	desired := "run"
	if id == allocB {
		desired = "stop"
	}
	return &api.AllocationListStub{
		ID:            id,
		EvalID:        evalA,
		Name:          "db.g[0]",
		Namespace:     "default",
		NodeID:        nodeA,
		NodeName:      "ash",
		JobID:         "db",
		JobType:       "service",
		TaskGroup:     "g",
		JobVersion:    3,
		DesiredStatus: desired,
		ClientStatus:  status,
		TaskStates:    map[string]*api.TaskState{"redis": state},
		CreateIndex:   50,
		ModifyIndex:   60,
		CreateTime:    f.ago(90 * time.Second),
		ModifyTime:    f.ago(30 * time.Second),
	}
}

// under keeps the allocations whose ids begin so.
func (f *fake) under(prefix string, list ...*api.AllocationListStub) []*api.AllocationListStub {
	out := []*api.AllocationListStub{}
	for _, a := range list {
		if strings.HasPrefix(a.ID, prefix) {
			out = append(out, a)
		}
	}
	return out
}

func (f *fake) alloc() *api.Allocation {
	return &api.Allocation{
		ID:                allocA,
		EvalID:            evalA,
		Name:              "db.g[0]",
		Namespace:         "default",
		NodeID:            nodeA,
		NodeName:          "ash",
		JobID:             "db",
		TaskGroup:         "g",
		Job:               f.jobFull("db"),
		ClientStatus:      "running",
		ClientDescription: "Tasks are running",
		DesiredStatus:     "run",
		Standing:          &api.AllocStanding{Phase: "running"},
		DeploymentStatus:  &api.AllocDeploymentStatus{Healthy: ptr(true)},
		CreateTime:        f.ago(90 * time.Second),
		ModifyTime:        f.ago(30 * time.Second),
		AllocatedResources: &api.AllocatedResources{
			Tasks: map[string]*api.AllocatedTaskResources{"redis": {
				Cpu:    api.AllocatedCpuResources{CpuShares: 100},
				Memory: api.AllocatedMemoryResources{MemoryMB: 64},
				Devices: []*api.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "k80",
					DeviceIDs: []string{"gpu-1"}}},
			}},
			Shared: api.AllocatedSharedResources{
				DiskMB: 300,
				Ports:  []api.PortMapping{{Label: "redis", Value: 6379, HostIP: "10.0.0.1"}},
			},
		},
		Storage: []api.AllocVolume{{
			Alias:     "data",
			Volume:    "db-data",
			Plugin:    "local-csi",
			State:     "published at /m",
			Path:      "/m",
			LastError: "code Aborted: an earlier call goes on",
		}},
		TaskStates: map[string]*api.TaskState{"redis": {
			State:     "running",
			Restarts:  1,
			StartedAt: ptr(f.now.Add(-time.Minute)),
			Events:    f.events(4),
		}},
		Metrics: &api.AllocationMetric{
			ScoreMetaData: []*api.NodeScoreMeta{{
				NodeID:    nodeA,
				Scores:    map[string]float64{"binpack": 0.5},
				NormScore: 0.5,
			}},
		},
	}
}

func (f *fake) unplaced() *api.Evaluation {
	return &api.Evaluation{
		ID:                evalB,
		Namespace:         "default",
		Priority:          50,
		Type:              "service",
		TriggeredBy:       "job-register",
		JobID:             "web",
		Status:            "complete",
		CreateIndex:       10,
		BlockedEval:       evalA,
		QueuedAllocations: map[string]int{"g": 2},
		FailedTGAllocs: map[string]*api.AllocationMetric{"g": {NodesExhausted: 2, Reasons: []api.NodeReason{
			{
				Node:   nodeA,
				Name:   "ash",
				Reason: "volume \"db-data\" is held by allocation 4ff1d9c5",
				Hint:   "stop the job db",
			},
			{
				Node:   nodeB,
				Name:   "birch",
				Reason: "not enough memory: 64 MiB are left",
			}, {Node: "x", Name: "cedar", Reason: "not enough memory: 64 MiB are left"}}},
			"old": {
				NodesEvaluated:     2,
				ConstraintFiltered: map[string]int{"${attr.kernel.name} = windows": 2},
				NodesAvailable:     map[string]int{"dc2": 0},
			}},
	}
}

func (f *fake) evalGet(path string, n int) (any, error) {
	switch path {
	case "evaluations":
		return []*api.Evaluation{f.unplaced()}, nil
	case "evaluation/" + evalB:
		return f.unplaced(), nil
	case "evaluation/" + evalA:
		e := &api.Evaluation{
			ID:          evalA,
			Namespace:   "default",
			JobID:       f.job,
			TriggeredBy: "job-register",
			Status:      "complete",
			CreateIndex: 40,
		}
		if n == 1 {
			e.Status = "pending"
		}
		if f.job == "same" {
			e.CreateIndex = 60 // its allocations are older
		}
		return e, nil
	case "evaluation/" + evalA + "/allocations":
		switch f.job {
		case "roll":
			return []*api.AllocationListStub{f.stub(allocA, "pending", nil),
				f.bent(allocC, "running", nil, old, func(a *api.AllocationListStub) { a.DesiredStatus = "stop" })}, nil
		case "db":
			return []*api.AllocationListStub{f.stub(allocA, "pending", nil), f.stub(allocB, "running", nil)}, nil
		case "bad", "loop", "sums":
			return []*api.AllocationListStub{f.stub(allocC, "pending", nil)}, nil
		}
	}
	if !strings.HasSuffix(path, "/allocations") {
		return nil, &refusal{404, "eval not found"}
	}
	return []*api.AllocationListStub{}, nil
}

func diff() *api.JobDiff {
	return &api.JobDiff{
		Type: "Edited",
		ID:   "db",
		Fields: []*api.FieldDiff{{Type: "None", Name: "Type", Old: "service", New: "service"},
			{Type: "Edited", Name: "Priority", Old: "50", New: "60"}},
		TaskGroups: []*api.TaskGroupDiff{{
			Type:    "Edited",
			Name:    "g",
			Updates: map[string]uint64{"create/destroy update": 1},
			Objects: []*api.ObjectDiff{{
				Type:   "Added",
				Name:   "Volume",
				Fields: []*api.FieldDiff{{Type: "Added", Name: "Source", New: "db-data"}},
			}},
			Tasks: []*api.TaskDiff{{
				Type:        "Edited",
				Name:        "redis",
				Annotations: []string{"forces create/destroy update"},
				Fields:      []*api.FieldDiff{{Type: "Deleted", Name: "User", Old: "redis"}},
			}},
		}},
	}
}

func (f *fake) put(path string, r *http.Request, body []byte) (any, error) {
	var job struct{ Job struct{ ID string } }
	_ = json.Unmarshal(body, &job)
	switch {
	case path == "operator/snapshot":
		return struct{}{}, nil
	case strings.HasPrefix(path, "operator/recovery/"):
		return struct{}{}, nil
	case path == "operator/ca/finish" && !strings.Contains(string(body), `"Force":true`):
		return nil, &refusal{409, "forget the former root: nodes have not shown that they know the present one: " +
			"beech (" + nodeB + ") (start their agents and wait)"}
	case path == "operator/ca/rotate", path == "operator/ca/finish":
		return struct{}{}, nil
	case path == "operator/raft/transfer-leadership", path == "agent/force-leave":
		return f.changeServers(path, r)
	case path == "operator/autopilot/configuration":
		return f.setAutopilot(body, r)
	case path == "operator/keyring/rotate":
		return struct{ Key *api.RootKeyMeta }{rootKey(evalB, "active", 4)}, nil
	case path == "node/"+nodeB+"/purge":
		return &api.NodePurgeResponse{EvalIDs: []string{evalA}, EvalCreateIndex: 9, NodeModifyIndex: 9}, nil
	case path == "client/metadata":
		return f.setMeta(body)
	case path == "agent/servers":
		return f.useServers(r)
	case path == "node/"+nodeB+"/replace":
		return &api.NodeReplaceResponse{Claims: 1, LostVolumes: []string{"default/db-data"}}, nil
	case path == "orphans/adopt":
		return &api.OrphanAdoptResponse{JobID: "db", EvalID: evalA}, nil
	case path == "plugin/csi/local-csi/rebind":
		return &api.CSIPluginRebindResponse{From: "old.csi.example", Count: 3}, nil
	case path == "node/"+nodeA+"/reboot-confirm":
		return &api.NodeRebootConfirmResponse{
			Resolved:     "other boot of node " + nodeA[:8] + " not proven dead",
			NextAccepted: true,
		}, nil
	case path == "node/"+nodeA+"/deny", path == "node/"+nodeA+"/allow":
		return struct{}{}, nil
	case path == "node/"+nodeA+"/readmit":
		return &api.NodeReadmitResponse{Token: nodeA + ".K3ZQ", Expires: f.now.Add(time.Hour)}, nil
	case path == "jobs":
		f.job = job.Job.ID
		out := &api.JobRegisterResponse{
			EvalID:         evalA,
			JobModifyIndex: 12,
			Outcome:        "created",
			Warnings:       "1 warning:\n\n* group \"g\": the default was taken",
		}
		switch job.Job.ID {
		case "web":
			out.EvalID = evalB
		case "same":
			out.Outcome = "unchanged"
		case "refused":
			return nil, &refusal{500, "2 errors occurred:\n\t* first.\n\t* second\n\n"}
		}
		return out, nil
	case strings.HasSuffix(path, "/plan"):
		out := &api.JobPlanResponse{
			JobModifyIndex: 12,
			Diff:           diff(),
			Annotations:    &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{"g": {Ignore: 1}}},
		}
		switch job.Job.ID {
		case "web":
			out.Annotations.DesiredTGUpdates["g"].Place = 1
			out.FailedTGAllocs = f.unplaced().FailedTGAllocs
		case "refused":
			return nil, &refusal{500, "no"}
		}
		return out, nil
	case path == "validate/job":
		if job.Job.ID == "web" {
			return &api.JobValidateResponse{ValidationErrors: []string{"group \"g\" has no task", "count is negative"}},
				nil
		}
		return &api.JobValidateResponse{}, nil
	case strings.HasPrefix(path, "volume/csi/"):
		return volumePut(path, body)
	case strings.HasSuffix(path, "/start"):
		return &api.JobRegisterResponse{EvalID: evalA, JobModifyIndex: 14, Outcome: "updated"}, nil
	case strings.HasSuffix(path, "/evaluate"):
		return &api.JobRegisterResponse{EvalID: evalA}, nil
	case path == "volumes/snapshot":
		return f.cut(r, body)
	case path == "search":
		var req api.SearchRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, &refusal{400, err.Error()}
		}
		found := map[string][]string{"jobs": {"db", "db-backup"}, "volumes": {"db-data"},
			"namespaces": {"default", "shop"}, "node_pools": {"default", "gpu"}}
		for context, ids := range found {
			found[context] = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, req.Prefix) })
		}
		return &api.SearchResponse{Matches: found}, nil
	case path == "allocation/"+allocA+"/stop":
		return &api.AllocStopResponse{EvalID: evalA}, nil
	case strings.HasPrefix(path, "node/"):
		return &api.NodeUpdateResponse{}, nil
	}
	return map[string]any{}, nil
}

func volumePut(path string, body []byte) (any, error) {
	result := api.CSIVolumeWriteResult{Outcome: "created"}
	switch {
	case path == "volume/csi/db-data":
		result.Outcome = "registered"
	case strings.HasSuffix(path, "/expand"):
		var req api.CSIVolumeExpandRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, &refusal{400, err.Error()}
		}
		if req.CapacityMin < 1<<30 {
			return nil, &refusal{409,
				fmt.Sprintf(
					`expand volume "db-data": %d bytes are less than its 1073741824 bytes: volumes cannot shrink`,
					req.CapacityMin)}
		}
		result.Outcome = "expanded"
	case strings.Contains(string(body), `"FSType":"xfs"`):
		return nil, &refusal{409, `the file system cannot be changed from ext4 to xfs`}
	case strings.Contains(string(body), `"noatime"`):
		result = api.CSIVolumeWriteResult{Outcome: "updated", Changed: []string{"mount_options"}}
	}
	return &api.CSIVolumeCreateResponse{
		Volumes: []*api.CSIVolume{{ID: "db-data", ExternalID: "vol-1", Capacity: 1 << 30}},
		Results: []api.CSIVolumeWriteResult{result},
	}, nil
}

func (f *fake) del(path string, r *http.Request) (any, error) {
	switch {
	case path == "operator/raft/peer":
		return f.changeServers(path, r)
	case strings.HasPrefix(path, "job/"):
		f.job, f.stopping = strings.TrimPrefix(path, "job/"), true
		out := &api.JobDeregisterResponse{EvalID: evalA}
		if f.job == "web" {
			out.Warnings = `plugin "ebs" serves volumes in use: volume "db-data" is held by allocation 4ff1d9c5`
		}
		return out, nil
	case path == "volume/csi/db-data/delete" && !patient(r.URL.Query()):
		return nil, &refusal{409,
			`volume in use: db-data: held by allocation 4ff1d9c5 of job "db" on node 8f3a11c0 since 1999-12-31T23:00:00Z (stop the job first: berth job stop db)`}
	case path == "volumes/snapshot" && r.URL.Query().Get("snapshot_id") == "gone":
		return nil, &refusal{404, "snapshot not found"}
	case path == "volumes/snapshot" && r.URL.Query().Get("snapshot_id") == "unheard":
		return nil, &refusal{503, "delete snapshot \"unheard\": the servers' state was restored: node birch " +
			"(91b2c3d4) has yet to report what it holds (see what to do: berth operator recovery status)"}
	}
	return nil, nil
}

// identities are the nodes of data directories: one has lost its store.
type identities struct{}

// Keep implements cluster.Identities.
func (identities) Keep(_ context.Context, dataDir string, token redact.Secret) (string, error) {
	node, _, _ := strings.Cut(token.Reveal(), ".")
	if dataDir != "/lost" {
		return "", fault.WithHint(fault.New(fault.Conflict, "keep the identity of", dataDir,
			"its store knows that it is node "+nodeB), "start the agent")
	}
	return node, nil
}

// New implements cluster.Identities.
func (identities) New(_ context.Context, dataDir string) (string, error) {
	if dataDir != "/lost" {
		return "", fault.New(fault.Conflict, "begin another node on", dataDir,
			"something is mounted at "+dataDir+"/csi/m")
	}
	return nodeB, nil
}

// Sources implements cluster.DataDirs: one directory is in use, without volumes.
func (dataDirs) Sources(dir string) (*backup.Sources, error) {
	if dir != "/in-use" {
		return nil, fault.WithHint(fault.New(fault.NotFound, "back up", dir, "no agent uses it"), "go there")
	}
	return &backup.Sources{NodeID: nodeA, Store: "client/client.db", Plugin: "local-csi"}, nil
}

// Snapshot implements cluster.DataDirs.
func (dataDirs) Snapshot(_ *backup.Sources, id string) (backup.Image, error) {
	return backup.Image{}, fault.New(fault.NotFound, "find", id, "there is none")
}

// Restore implements cluster.DataDirs.
func (dataDirs) Restore(ctx context.Context, from, dir string, _ backup.Progress) (*backup.Manifest, error) {
	m, err := backup.Restore(ctx, from, dir, nil, nil)
	return m, err
}

// dataDirs are data directories: one is whole, another one is damaged.
type dataDirs struct{}

// Check implements cluster.DataDirs.
func (dataDirs) Check(dir string) (*storecheck.Report, error) {
	r := &storecheck.Report{DataDir: dir, Whole: true}
	log := storecheck.Store{
		Name:  "servers' log",
		Path:  dir + "/server/raft",
		Holds: "entries 1 to 900, a snapshot up to 700",
	}
	switch dir {
	case "/hurt":
		log.Damage = []string{"check log /hurt/server/raft/wal/1.wal: entry 812 is damaged (restore it)"}
	case "/whole":
		log.Warnings = []string{"40 bytes after entry 900 are of a write that was cut off"}
	default:
		return nil, fault.WithHint(fault.New(fault.NotFound, "check", dir, "it is no directory"), "name another")
	}
	r.Add(log)
	r.Add(storecheck.Store{Name: "node's store", Path: dir + "/client/client.db"})
	return r, nil
}

// ForgetVolumes implements cluster.DataDirs: the disk of one is away.
func (dataDirs) ForgetVolumes(dir string, agree func(refused error, known []string) error) error {
	if dir != "/away" {
		return fault.WithHint(fault.New(fault.Conflict, "give up the volumes of", dir, "its store is not missing"),
			"start the agent")
	}
	return agree(fault.WithHint(fault.New(fault.Conflict, "serve volumes from", "/away/volumes", "it is empty, and "+
		"this node's volumes are in instance 3f0c"), "mount it on /away/volumes"), []string{"app/db", "default/files"})
}

func rootKey(id, state string, sealed int) *api.RootKeyMeta {
	return &api.RootKeyMeta{
		KeyID:      id,
		Algorithm:  "aes256-gcm",
		State:      state,
		CreateTime: 946684740000000000,
		Sealed:     sealed,
		Holders:    []string{"server s1", "recovery 4f3a"},
	}
}
