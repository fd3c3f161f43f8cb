package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/api"
)

func (f *fake) node() *api.Node {
	return &api.Node{
		ID:                    nodeA,
		Name:                  "ash",
		NodePool:              "default",
		Datacenter:            "dc1",
		SchedulingEligibility: "eligible",
		Status:                "ready",
		Attributes:            map[string]string{"kernel.name": "linux", "os\x1b]0;PWN\x07\nlate\r": "x"},
		HostVolumes: map[string]*api.HostVolumeInfo{
			"media": {Path: "/srv/media"},
			"music": {Path: "/srv/music", Unhealthy: "stat /srv/music: no such file or directory"},
		},
		Drivers: map[string]*api.DriverInfo{"exec": {
			Detected:          true,
			Healthy:           true,
			HealthDescription: "Healthy",
		}, "raw_exec": {Detected: true, HealthDescription: "no cgroups"}, "docker": {}},
		CSINodePlugins: map[string]*api.CSIInfo{"local-csi": {
			PluginID:          "local-csi",
			AllocID:           allocA,
			HealthDescription: "its socket does not answer",
		}},
		Events: []*api.NodeEvent{{
			Message:   "Node registered",
			Subsystem: "Cluster",
			Timestamp: f.now.Add(-time.Hour),
		}},
		NodeResources: &api.NodeResources{
			Devices: devices(),
			Cpu:     api.NodeCpuResources{CpuShares: 4600},
			Memory:  api.NodeMemoryResources{MemoryMB: 8192},
			Disk:    api.NodeDiskResources{DiskMB: 51200},
		},
		ReservedResources: &api.NodeReservedResources{Memory: api.NodeMemoryResources{MemoryMB: 192}},
	}
}

// nodeWithOrphans keeps what the servers do not know: a database and the plugin through which it has its volume. Each
// is gone when it was ended.
func (f *fake) nodeWithOrphans(int) *api.Node {
	n := f.node()
	n.ID = nodeB
	n.Name = "birch"
	n.Status = "down"
	n.Events = nil
	for _, o := range []*api.NodeOrphan{
		{
			AllocID:   allocC,
			Namespace: "berth",
			JobID:     "local-csi",
			TaskGroup: "csi",
			Reason:    "the servers do not know it",
			Since:     f.now.Add(-time.Hour),
			Processes: true,
			Plugin:    true,
		},
		{
			AllocID:   allocB,
			Namespace: "default",
			JobID:     "db",
			TaskGroup: "g",
			Reason:    "the servers do not know it",
			Since:     f.now.Add(-time.Hour),
			Processes: true,
			Volumes:   []string{"db-data"},
		},
	} {
		adopted := slices.Contains(f.requests, "PUT /v1/orphans/adopt") && o.AllocID == allocB
		if !adopted && !f.endsOrphan(o.AllocID) {
			n.Orphans = append(n.Orphans, o)
		}
		if o.AllocID == allocB && f.endsOrphan(allocB) && !f.unmounts {
			f.unmounts = true // and gone when it is read next
			o.Processes = false
			o.Awaits = `volume "db-data" of plugin "local-csi" is to be unmounted: no instance of it runs here`
			n.Orphans = append(n.Orphans, o)
		}
	}
	if path := "/d/csi/4f02aa10/p/0a/m"; !slices.Contains(f.requests, "PUT /v1/node/"+nodeB+"/unknown-mount/forget") {
		n.UnknownMounts = []*api.NodeUnknownMount{{Path: path, Device: "0:51", FSType: "tmpfs"}}
	}
	n.UnclaimedVolumes = []*api.NodeUnclaimedVolume{{
		Namespace:  "default",
		VolumeID:   "db-data",
		PluginID:   "local-csi",
		ExternalID: "x-1",
		State:      "staged",
		Allocs:     []string{"77c0ffee-0000-4000-8000-000000000000"},
	}}
	n.RefusedAgents = []*api.NodeRefusedAgent{{
		Address:       "birch (10.0.0.9)",
		ObeyedAddress: "birch (10.0.0.2)",
		ObeyedSince:   f.now.Add(-time.Hour),
		Since:         f.now.Add(-10 * time.Minute),
		LastTry:       f.now.Add(-30 * time.Second),
		Reason:        "it is a copy: it does not follow the agent at birch (10.0.0.2)",
		Hint:          "stop it and give it an empty data_dir",
	}}
	return n
}

func (f *fake) endsOrphan(id string) bool {
	return slices.Contains(f.requests, "PUT /v1/node/"+nodeB+"/orphan/"+id+"/end")
}

// releasing is an allocation that the servers know and whose record its node had lost: a person has ended it.
func (f *fake) releasing(id string, held bool) *api.Allocation {
	a := f.holding()
	a.ID, a.ClientStatus = id, "lost"
	if !held {
		a.Storage[0] = api.AllocVolume{Alias: "data", Volume: "db-data", State: "released"}
	}
	return a
}

// bundled are the nodes that are to run the bundled plugin: one cannot.
func (f *fake) bundled() []*api.NodeListStub {
	wants := map[string]string{api.NodeAttributeLocalCSI: "true"}
	ready := map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}}
	disabled := map[string]*api.DriverInfo{"raw_exec": {HealthDescription: "disabled: its tasks are not isolated"}}
	return []*api.NodeListStub{
		{ID: nodeA, Name: "ash", Attributes: wants, Drivers: ready},
		{ID: nodeB, Name: "birch", Attributes: wants, Drivers: disabled},
	}
}

// orphan is the database in full.
func (f *fake) orphan() *api.Orphan {
	return &api.Orphan{
		AllocID:    allocB,
		NodeID:     nodeB,
		Name:       "db.g[0]",
		TaskGroup:  "g",
		Digest:     "0123",
		RecordLost: true,
		Job:        &api.Job{ID: ptr("db"), Namespace: ptr("default"), Type: ptr("service")},
		Volumes: []*api.OrphanVolume{{
			ID:             "db-data",
			Namespace:      "default",
			Alias:          "data",
			PluginID:       "local-csi",
			ExternalID:     "vol-1",
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
			FSType:         "ext4",
			Context:        map[string]string{"pool": "ssd"},
		}},
	}
}

func (f *fake) volumes(prefix string) []*api.CSIVolumeListStub {
	out := []*api.CSIVolumeListStub{}
	for _, v := range []*api.CSIVolumeListStub{
		{
			ID:             "db-data",
			Name:           "db-data",
			Namespace:      "default",
			ExternalID:     "vol-1",
			PluginID:       "local-csi",
			Schedulable:    true,
			AccessMode:     "single-node-writer",
			CurrentWriters: 1,
			CreateIndex:    3,
		},
		{
			ID:             "shared",
			Name:           "a-name-that-is-never-cut-however-long-it-may-be",
			Namespace:      "default",
			PluginID:       "nfs",
			CurrentReaders: 2,
			CreateIndex:    2,
		},
		{ID: "spare", Name: "spare", Namespace: "default", PluginID: "local-csi", Schedulable: true, CreateIndex: 1},
	} {
		if strings.HasPrefix(v.ID, prefix) {
			out = append(out, v)
		}
	}
	return out
}

func (f *fake) volume() *api.CSIVolume {
	return &api.CSIVolume{
		ID:                   "db-data",
		Name:                 "db-data",
		Namespace:            "default",
		ExternalID:           "vol-1",
		PluginID:             "local-csi",
		Provider:             "local.csi.berth",
		ProviderVersion:      "1",
		Capacity:             3 << 29,
		RequestedCapacityMin: 1 << 30,
		RequestedCapacityMax: 2 << 30,
		Schedulable:          true,
		ControllersHealthy:   1,
		ControllersExpected:  1,
		NodesHealthy:         1,
		NodesExpected:        2,
		AccessMode:           "single-node-writer",
		AttachmentMode:       "file-system",
		MountOptions:         &api.CSIMountOptions{FSType: "ext4", MountFlags: []string{"[REDACTED]"}},
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
		Topologies: []*api.CSITopology{{Segments: map[string]string{"node": "ash", "zone": "z"}}},
		Parameters: map[string]string{"speed": "high"},
		State:      []string{`held by allocation 4ff1d9c5 of job "db" on node 8f3a11c0 since 1999-12-31T23:00:00Z`},
		Places: []api.VolumePlace{{
			Node:      nodeA,
			Staged:    "present",
			Paths:     []string{"/m"},
			Step:      "publish",
			LastError: "code Aborted: an earlier call goes on",
			NextTry:   f.now.Add(time.Minute),
			Holders: []api.VolumeHolder{{
				PID:            123,
				Command:        "postgres",
				MountNamespace: "mnt:[4026532]",
				How:            "mounted there at /m",
			}},
		}},
		ProvenEnds: []api.VolumeProvenEnd{{
			Node:   nodeB,
			Alloc:  allocB,
			Proof:  "attested",
			Reason: "the rack burnt",
			By:     "user 0",
			Time:   f.now.Add(-time.Hour),
		}},
		Allocations: []*api.AllocationListStub{f.stub(allocA, "running", nil)},
		WriteAllocs: map[string]*api.Allocation{allocA: nil},
		CreateTime:  f.ago(time.Hour),
	}
}

func (f *fake) plugin() *api.CSIPlugin {
	return &api.CSIPlugin{
		ID:                  "local-csi",
		Provider:            "local.csi.berth",
		Version:             "1",
		ControllersHealthy:  1,
		ControllersExpected: 1,
		NodesHealthy:        1,
		NodesExpected:       2,
		Orphans: []string{"node 91b2c3d4 keeps allocation 77c0ffee as an orphan: this node has lost its record of it " +
			"(berth node orphans adopt 77c0ffee, or berth node orphans end 77c0ffee)"},
		Controllers: map[string]*api.CSIInfo{
			nodeA: {
				AllocID:           allocA,
				Healthy:           true,
				HealthDescription: "healthy",
				ControllerInfo:    &api.CSIControllerInfo{SupportsCreateDelete: true, SupportsExpand: true},
			},
		},
		Nodes: map[string]*api.CSIInfo{
			nodeA: {
				AllocID:           allocA,
				Healthy:           true,
				HealthDescription: "healthy",
				NodeInfo: &api.CSINodeInfo{
					ID:                 "ash",
					MaxVolumes:         16,
					AccessibleTopology: &api.CSITopology{Segments: map[string]string{"node": "ash"}},
				},
			},
			nodeB: {AllocID: allocB, HealthDescription: "its socket does not answer"}},
		Allocations: []*api.AllocationListStub{f.stub(allocA, "running", nil)},
	}
}

// cut answers who asks for a snapshot: one of the name "late" is made when it is asked for the third time, one of
// "never" is not.
func (f *fake) cut(r *http.Request, body []byte) (any, error) {
	var req api.CSISnapshotCreateRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	out := &api.CSISnapshotCreateResponse{Snapshots: []*api.CSISnapshot{f.snapshot()}}
	name := req.Snapshots[0].Name
	if name != "late" && name != "never" {
		return out, nil
	}
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil {
		return nil, err
	}
	time.Sleep(wait)
	if f.reads[name]++; name == "late" && f.reads[name] == 3 {
		return out, nil
	}
	out.Results = []api.CSIVolumeWriteResult{{Outcome: api.CSIVolumeAccepted, Waits: "its plugin does not answer"}}
	return out, nil
}

func (f *fake) snapshot() *api.CSISnapshot {
	return &api.CSISnapshot{
		ID:             "snap-0123456789-0123456789-0123456789",
		Name:           "before",
		SourceVolumeID: "db-data",
		SizeBytes:      1 << 20,
		CreateTime:     f.now.Unix(),
		IsReady:        true,
	}
}

// log is what the task wrote.
const log = "one\ntwo\nthree\n"

func (f *fake) runtime(path string, r *http.Request) (any, error) {
	q := r.URL.Query()
	kind, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(path, "client/"), allocC, allocA), "/"+allocA)
	info := &api.AllocFileInfo{
		Name:        "note.txt",
		Size:        int64(len(log)),
		FileMode:    "-rw-r--r--",
		ModTime:     f.now,
		ContentType: "text/plain",
	}
	switch kind {
	case "fs/logs":
		if q.Get("type") == "stderr" {
			switch {
			case f.job == "bad":
				return nil, &refusal{404, "task \"redis\" has not started"}
			case q.Get("follow") == "false" && q.Get("origin") == "end":
				return frame("starting\ncannot open /data: \x1b[2Jno such file\n"), nil
			}
			return frame("oops\n"), nil
		}
		if q.Get("task") == "prep" { // as many servers, it writes to its standard error alone
			return frame(""), nil
		}
		text := log
		if n := 0; q.Get("origin") == "end" {
			fmt.Sscan(q.Get("offset"), &n)
			text = log[max(len(log)-n, 0):]
		}
		return frame(text), nil
	case "fs/stat":
		if q.Get("path") == "/none" {
			return nil, &refusal{404, "no such file: /none"}
		}
		info.IsDir = q.Get("path") == "/"
		return info, nil
	case "fs/ls":
		return []*api.AllocFileInfo{info,
			{Name: "alloc", IsDir: true, FileMode: "drwxr-xr-x", Size: 4096, ModTime: f.now}}, nil
	case "fs/readat":
		offset, limit := 0, 0
		fmt.Sscan(q.Get("offset"), &offset)
		fmt.Sscan(q.Get("limit"), &limit)
		return log[offset : offset+limit], nil
	case "allocation":
		if strings.HasSuffix(path, "checks") {
			return map[string]any{}, nil
		}
		if strings.HasSuffix(path, "consul") {
			return []*api.ConsulServiceStatus{}, nil
		}
		usage := &api.ResourceUsage{
			CpuStats:    &api.CpuStats{TotalTicks: 12.4},
			MemoryStats: &api.MemoryStats{Usage: 5 << 20},
		}
		return &api.AllocResourceUsage{
			ResourceUsage: usage,
			Tasks:         map[string]*api.TaskResourceUsage{"redis": {ResourceUsage: usage}},
			Disk:          &api.AllocDiskUsage{Used: 120 << 20, Limit: 300 << 20},
		}, nil
	}
	return nil, &refusal{404, ""}
}

func frame(text string) string {
	return `{"Data":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `","File":"f","Offset":1}`
}

// recovery is what the servers wait for: a node that is away, and a person's word about one that shows another history.
func (f *fake) recovery() *api.RecoveryStatus {
	if f.recovered != nil {
		return f.recovered
	}
	begun := f.now.Add(-time.Hour)
	out := &api.RecoveryStatus{}
	out.Evidence = []*api.RecoveryEvidence{{
		NodeID:    nodeA,
		Name:      "ash",
		Relation:  "forked",
		SeenIndex: 512,
		Time:      begun,
	}}
	out.State, out.Cause = "recovering", "the backup of Sunday"
	out.By = "user 0"
	out.Parent, out.Incarnation = "0aa1", "7bb2"
	out.Begun = &begun
	out.Nodes = []*api.RecoveryNode{
		{ID: nodeA, Name: "ash", State: "reported"},
		{
			ID:     nodeB,
			Name:   "birch",
			State:  "awaited",
			Detail: "it does not answer",
			Exit:   `start its agent; or, if it is dead: berth operator recovery dismiss -reason "..." 91b2c3d4`,
		},
	}
	out.Suspended = []*api.RecoverySuspended{
		{
			Kind:   "volume",
			ID:     "default/spare",
			Phase:  "deleting",
			Resume: "berth volume delete -namespace default spare",
		},
	}
	out.Held = []*api.RecoveryHeld{
		{AllocID: allocC, Namespace: "default", JobID: "migrate", Resume: "berth job eval -force-reschedule migrate"},
	}
	out.Exits = []string{
		`if node 8f3a11c0 is wrong: berth operator recovery dismiss -reason "..." 8f3a11c0`,
		"when no node is missing in the list: berth operator recovery finish",
		"node 91b2c3d4: " + out.Nodes[1].Exit,
	}
	return out
}

// usage is what two nodes have measured of a volume; one of them does not answer any more.
func (f *fake) usage() *api.CSIVolumeUsage {
	before := f.now.Add(-20 * time.Second)
	return &api.CSIVolumeUsage{Abnormal: true, Nodes: []api.CSIVolumeNodeUsage{
		{
			NodeID:      nodeA,
			Allocations: []string{allocA},
			Bytes:       &api.CSIVolumeAmount{Total: 3 << 29, Used: 3 << 27, Available: 1 << 30},
			Inodes:      &api.CSIVolumeAmount{Total: 65536, Used: 655, Available: 64881},
			Condition:   &api.CSIVolumeCondition{Abnormal: true, Message: "a disk of the mirror is gone"},
			Measured:    &before,
		},
		{
			NodeID:      nodeB,
			Allocations: []string{},
			Error:       "the node did not say it: no connection to node 91b2c3d4",
		},
	}}
}
