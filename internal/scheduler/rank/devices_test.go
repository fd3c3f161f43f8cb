package rank

import (
	"testing"

	"berth/internal/model/alloc"
	"berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/devices"
)

// Given a node with one device, when a group that asks for it is placed twice, then the first alloc is given it in its
// task's resources, the second does not fit and is said why, and the planner takes the first as it stands, once.
func TestACapacityHasDevices(t *testing.T) {
	n := &node.Node{ID: "n", Resources: node.Resources{
		CPUShares: 1000,
		MemoryMB:  1000,
		Devices: []device.Group{{
			Vendor:    "acme",
			Type:      "gpu",
			Name:      "small",
			Instances: []device.Instance{{ID: "a", Healthy: true}},
		}},
	}}
	g := &job.TaskGroup{Name: "g", Tasks: []*job.Task{{Name: "t", Resources: &job.Resources{
		CPU:     10,
		Devices: []*job.RequestedDevice{{Name: "gpu", Count: 1}},
	}}}}
	ask := NewAsk(&job.Job{}, g)
	r := NewCapacity(n, nil, nil, nil)
	if short := r.Fits(ask, false); short != "" {
		t.Fatalf("it does not fit: %s", short)
	}
	chosen := r.Choose(ask, "one")
	a := &alloc.Alloc{ID: "one", Resources: chosen}
	given := a.Resources.Tasks["t"].Devices
	if len(given) != 1 || given[0].String() != "acme/gpu/small" || len(given[0].IDs) != 1 || given[0].IDs[0] != "a" ||
		a.Resources.Tasks["t"].CPUShares != 10 || len(NewAsk(&job.Job{}, g).tasks["t"].Devices) != 0 {
		t.Errorf("%+v", a.Resources)
	}
	r.Put(ask, chosen, "g", "one")
	if short := r.Fits(ask, false); short != devices.Dimension || r.Shortage(ask, false).Reason == "" {
		t.Errorf("a second one: %q, %+v", short, r.Shortage(ask, false))
	}
	checked := NewCapacity(n, nil, nil, nil)
	if first, second := checked.PutAlloc(a), checked.PutAlloc(a); first != "" || second != devices.Dimension {
		t.Errorf("the planner says %q, and then %q", first, second)
	}
	bare := NewCapacity(&node.Node{ID: "m", Resources: node.Resources{CPUShares: 1000}}, nil, nil, nil)
	if bare.Fits(ask, false) != devices.Dimension || bare.PutAlloc(a) != devices.Dimension {
		t.Error("a node without devices takes it")
	}
}
