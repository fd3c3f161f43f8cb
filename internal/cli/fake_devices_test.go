package cli_test

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/pluginreport"
)

// devices of a node: one is well, and one is not.
func devices() []*api.NodeDeviceResource {
	return []*api.NodeDeviceResource{{
		Vendor: "acme",
		Type:   "gpu",
		Name:   "k80",
		Instances: []*api.NodeDevice{
			{ID: "gpu-1", Healthy: true, Locality: &api.NodeDeviceLocality{PciBusID: "0000:01:00.0"}},
			{ID: "gpu-2", HealthDescription: "too hot"},
		},
		Attributes: map[string]*api.Attribute{
			"memory": {IntVal: new(int64(11)), Unit: "GiB"},
			"ecc":    {BoolVal: new(true)},
		},
	}}
}

// deviceStats are the figures of devices.
func deviceStats() []*api.DeviceGroupStats {
	used := &api.StatValue{IntNumeratorVal: new(int64(20)), IntDenominatorVal: new(int64(11264)), Unit: "MiB"}
	one := &api.DeviceStats{Summary: used, Stats: &api.StatObject{
		Attributes: map[string]*api.StatValue{"Memory": used},
		Nested: map[string]*api.StatObject{"Fan": {Attributes: map[string]*api.StatValue{
			"Speed": {FloatNumeratorVal: new(0.5), Unit: "%"},
		}}},
	}}
	return []*api.DeviceGroupStats{{
		Vendor:        "acme",
		Type:          "gpu",
		Name:          "k80",
		InstanceStats: map[string]*api.DeviceStats{"gpu-1": one},
	}}
}

// pluginTests tests two plugins: one is well, and one breaks a promise.
type pluginTests struct{}

// Driver implements plugintest.Tester.
func (pluginTests) Driver(_ context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	r := &pluginreport.Report{Kind: "driver", Name: "hello", Version: "0.1.0"}
	r.Add(pluginreport.Check{Name: "it starts", Result: pluginreport.Passed, Took: 12 * time.Millisecond})
	if asked.Task == nil {
		r.Add(pluginreport.Check{Name: "a task runs", Result: pluginreport.Skipped, Message: "no task was given"})
	}
	return r, nil
}

// CSI implements plugintest.Tester.
func (pluginTests) CSI(_ context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	r := &pluginreport.Report{Kind: "csi", Name: "some.csi", Version: "1.0.0"}
	r.Add(pluginreport.Check{
		Name:    "a volume is created",
		Result:  pluginreport.Passed,
		Message: fmt.Sprintf("%d bytes with %v", asked.Volume.Bytes, asked.Volume.Parameters),
	})
	return r, nil
}

// Device implements plugintest.Tester.
func (pluginTests) Device(_ context.Context, asked pluginreport.Asked) (*pluginreport.Report, error) {
	if asked.Command[0] != "./broken" {
		return nil, fault.New(fault.NotFound, "test", "plugin "+asked.Command[0], "there is no such program")
	}
	r := &pluginreport.Report{Kind: "device"}
	r.Add(pluginreport.Check{Name: "it starts", Result: pluginreport.Failed, Message: "it ended\nat once"})
	return r, nil
}
