package external

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"berth/internal/base/fault"
	"berth/internal/model/taskconfig"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/internal/port/pluginhost/configspec"
	"berth/pluginproto/driverpb"
	"berth/pluginproto/structspb"
)

func connected(t *testing.T, caps *driverpb.DriverCapabilities) *connection {
	t.Helper()
	spec, err := configspec.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	node := func() Node { return Node{ID: "n1", Name: "here", MHz: 4000} }
	return &connection{
		d:    New(Config{Config: pluginhost.Config{Block: "b", Dir: "/d"}, Node: node}),
		spec: spec,
		caps: caps,
		info: driver.Info{Name: "x", Schema: taskconfig.Schema{}, Capabilities: capabilities(caps)},
	}
}

func full() *driver.TaskConfig {
	return &driver.TaskConfig{
		Alloc:     "a1",
		Job:       "j1",
		Group:     "g",
		Task:      "t",
		Attempt:   2,
		User:      "u",
		Env:       map[string]string{"NOMAD_NAMESPACE": "ns", "NOMAD_JOB_NAME": "job", "NOMAD_JOB_PARENT_ID": "p"},
		Resources: driver.Resources{CPUShares: 500, MemoryMB: 64, MemoryMaxMB: 128, CpusetCores: "1"},
		AllocDir:  "/data/alloc/a1/alloc",
		TaskDir:   "/data/alloc/a1/t",
		Mounts:    []driver.Mount{{Source: "/s", Target: "/t", ReadOnly: true, Propagation: "private", Volume: "v"}},
		Devices:   []driver.Device{{HostPath: "/dev/h", TaskPath: "/dev/t", Permissions: "rw"}},
		Network:   &driver.Network{Namespace: "/run/ns", Hostname: "web"},
		Ports:     []driver.Port{{Label: "http", Value: 20001, To: 80, HostIP: "10.0.0.1"}},
		Address:   "172.26.64.2",
	}
}

// Given a task with everything that a task can have, when a plugin is to start it, then each arrives in the field that
// plugins read it from.
func TestAPluginLearnsEverythingOfATask(t *testing.T) {
	c := connected(t, &driverpb.DriverCapabilities{
		NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_GROUP},
	})
	got, err := c.taskConfig(full())
	if err != nil {
		t.Fatal(err)
	}
	id := taskID("a1", "t", 2)
	stdout, stderr := c.d.cfg.fifos("a1", "t", 2)
	want := &driverpb.TaskConfig{
		Id:                  id,
		Name:                "t",
		MsgpackDriverConfig: []byte{0x80},
		Env:                 full().Env,
		Resources: &driverpb.Resources{
			AllocatedResources: &driverpb.AllocatedTaskResources{
				Cpu:    &driverpb.AllocatedCpuResources{CpuShares: 500},
				Memory: &driverpb.AllocatedMemoryResources{MemoryMb: 64, MemoryMaxMb: 128},
				Networks: []*driverpb.NetworkResource{{
					Ip:           "10.0.0.1",
					DynamicPorts: []*driverpb.NetworkPort{{Label: "http", Value: 20001}},
				}},
			},
			LinuxResources: &driverpb.LinuxResources{
				CpuShares:        500,
				MemoryLimitBytes: 128 << 20,
				CpusetCpus:       "1",
				PercentTicks:     0.125,
			},
			Ports: []*driverpb.PortMapping{{Label: "http", Value: 20001, To: 80, HostIp: "10.0.0.1"}},
		},
		Mounts: []*driverpb.Mount{{
			TaskPath:        "/t",
			HostPath:        "/s",
			Readonly:        true,
			PropagationMode: "private",
			RequestName:     "v",
		}},
		Devices:       []*driverpb.Device{{TaskPath: "/dev/t", HostPath: "/dev/h", CgroupPermissions: "rw"}},
		User:          "u",
		AllocDir:      "/data/alloc/a1",
		StdoutPath:    stdout,
		StderrPath:    stderr,
		TaskGroupName: "g",
		JobName:       "job",
		AllocId:       "a1",
		NetworkIsolationSpec: &driverpb.NetworkIsolationSpec{
			Mode:        driverpb.NetworkIsolationMode_GROUP,
			Path:        "/run/ns",
			HostsConfig: &driverpb.HostsConfig{Hostname: "web", Address: "172.26.64.2"},
		},
		JobId:       "j1",
		Namespace:   "ns",
		NodeName:    "here",
		NodeId:      "n1",
		ParentJobId: "p",
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !strings.HasPrefix(id, "a1/t/") || id == taskID("a1", "t", 3) {
		t.Errorf("the id is %q", id)
	}
}

// Given tasks that ask for what a plugin cannot do, when they start, then each is refused with the reason and the way
// out, before the plugin hears of it.
func TestWhatAPluginCannotDoIsRefusedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		caps   *driverpb.DriverCapabilities
		change func(*driver.TaskConfig)
		say    string
	}{
		"a network": {&driverpb.DriverCapabilities{}, func(*driver.TaskConfig) {}, `mode = "host"`},
		"a mount": {
			&driverpb.DriverCapabilities{MountConfigs: driverpb.MountConfigs_NO_MOUNTS},
			func(c *driver.TaskConfig) { c.Network = nil },
			"the driver cannot mount",
		},
		"a network that it makes itself": {
			&driverpb.DriverCapabilities{
				MustCreateNetwork:     true,
				NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_GROUP},
			},
			func(*driver.TaskConfig) {},
			"insists on making the network itself",
		},
		"a user that it is to be given": {
			&driverpb.DriverCapabilities{DynamicWorkloadUsers: true},
			func(c *driver.TaskConfig) { c.User = "" },
			`user = "nobody"`,
		},
		"a storage plugin": {
			&driverpb.DriverCapabilities{},
			func(c *driver.TaskConfig) { c.CSIPluginNode = true },
			"driver exec or raw_exec",
		},
	} {
		cfg := full()
		c.change(cfg)
		_, err := connected(t, c.caps).taskConfig(cfg)
		if !fault.Has(err, fault.Unsupported) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given networks of allocs, when a plugin learns of them, then one that it made itself comes back as it gave it, one
// that it sees to itself is said to be none, and names are resolved as the job says, in tasks that have a root of their
// own.
func TestAPluginLearnsOfTheNetwork(t *testing.T) {
	made := &driverpb.NetworkIsolationSpec{
		Mode:        driverpb.NetworkIsolationMode_GROUP,
		Path:        "/run/theirs",
		Labels:      map[string]string{"sandbox": "1"},
		HostsConfig: &driverpb.HostsConfig{Hostname: "h", Address: "a"},
	}
	state, err := proto.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	group := []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_GROUP}
	hosts := []driver.Mount{
		{Source: "/n/hosts", Target: "/etc/hosts", ReadOnly: true},
		{Source: "/n/resolv.conf", Target: "/etc/resolv.conf", ReadOnly: true},
	}
	for name, c := range map[string]struct {
		caps   *driverpb.DriverCapabilities
		net    driver.Network
		spec   *driverpb.NetworkIsolationSpec
		dns    *driverpb.DNSConfig
		mounts int
	}{
		"its own": {
			&driverpb.DriverCapabilities{
				MustCreateNetwork:     true,
				NetworkIsolationModes: group,
				FsIsolation:           driverpb.FSIsolation_IMAGE,
			},
			driver.Network{
				Namespace: "/held",
				Files:     hosts,
				By:        "x",
				Made:      &driver.MadeNetwork{Path: "/run/theirs", State: state},
			},
			made, nil, 0,
		},
		"another driver's": {
			&driverpb.DriverCapabilities{NetworkIsolationModes: group, FsIsolation: driverpb.FSIsolation_IMAGE},
			driver.Network{
				Namespace: "/held",
				Files:     hosts,
				Resolver: driver.Resolver{
					Servers:  []string{"192.0.2.53"},
					Searches: []string{"s"},
					Options:  []string{"o"},
				},
				By:   "y",
				Made: &driver.MadeNetwork{Path: "/run/theirs", State: state},
			},
			&driverpb.NetworkIsolationSpec{
				Mode:        driverpb.NetworkIsolationMode_GROUP,
				Path:        "/held",
				HostsConfig: &driverpb.HostsConfig{},
			},
			&driverpb.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"s"}, Options: []string{"o"}}, 1,
		},
		"none": {
			&driverpb.DriverCapabilities{
				NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_NONE},
			},
			driver.Network{Namespace: "/held", Files: hosts},
			&driverpb.NetworkIsolationSpec{Mode: driverpb.NetworkIsolationMode_NONE}, nil, 0,
		},
	} {
		cfg := full()
		cfg.Mounts, cfg.Network = nil, &c.net
		cfg.Address = ""
		got, err := connected(t, c.caps).taskConfig(cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !proto.Equal(got.GetNetworkIsolationSpec(), c.spec) || !proto.Equal(got.GetDns(), c.dns) ||
			len(got.GetMounts()) != c.mounts {
			t.Errorf("%s: %v, %v, %v", name, got.GetNetworkIsolationSpec(), got.GetDns(), got.GetMounts())
		}
	}
}

// Given limits of memory, when a plugin learns them, then one that is not there is no limit.
func TestMemoryOfAPluginsTask(t *testing.T) {
	for _, c := range []struct{ memory, most, limit int64 }{
		{64, 0, 64 << 20}, {64, 128, 128 << 20}, {64, -1, 0},
	} {
		r := resources(&driver.TaskConfig{Resources: driver.Resources{MemoryMB: c.memory, MemoryMaxMB: c.most}})
		if got := r.GetLinuxResources().GetMemoryLimitBytes(); got != c.limit {
			t.Errorf("%d to %d MiB: %d, not %d", c.memory, c.most, got, c.limit)
		}
	}
}

// Given a plugin that says more of the node than anybody reads, then the node says a bounded part of that, the same one
// each time, and how much is left out.
func TestWhatAPluginSaysOfTheNodeIsBounded(t *testing.T) {
	f := &driverpb.FingerprintResponse{
		Health:            driverpb.HealthState_HEALTHY,
		HealthDescription: strings.Repeat("d", 1<<20),
		Attributes:        map[string]*structspb.Attribute{},
	}
	for i := range 1000 {
		f.Attributes[fmt.Sprintf("a%03d", i)] = &structspb.Attribute{
			Value: &structspb.Attribute_StringVal{StringVal: strings.Repeat("v", 1<<16)},
		}
	}
	got := connected(t, &driverpb.DriverCapabilities{}).fingerprint(f)
	if n := len(got.Attributes); n != maxAttributes+1 || got.Attributes["driver.x"] != "1" ||
		got.Attributes["a000"] == "" || got.Attributes["a999"] != "" || len(got.Attributes["a000"]) > maxEventText {
		t.Errorf("%d attributes", n)
	}
	if d := got.Description; len(d) > maxEventText || !strings.Contains(d, "744 of its attributes are left out") {
		t.Errorf("it says %d bytes: %.80s", len(d), d)
	}
}
