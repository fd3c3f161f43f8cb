// Package devices owns the translation of what nodes have of devices, what tasks were given of them, and their figures.
// Only package convert imports it.
package devices

import (
	"berth/api"
	"berth/internal/model/device"
)

// OfNode are the devices of a node.
func OfNode(in []device.Group) []*api.NodeDeviceResource {
	var out []*api.NodeDeviceResource
	for _, g := range in {
		d := &api.NodeDeviceResource{Vendor: g.Vendor, Type: g.Type, Name: g.Name}
		for _, i := range g.Instances {
			one := &api.NodeDevice{ID: i.ID, Healthy: i.Healthy, HealthDescription: i.Reason}
			if i.BusID != "" {
				one.Locality = &api.NodeDeviceLocality{PciBusID: i.BusID}
			}
			d.Instances = append(d.Instances, one)
		}
		for name, v := range g.Attributes {
			if d.Attributes == nil {
				d.Attributes = map[string]*api.Attribute{}
			}
			d.Attributes[name] = &api.Attribute{
				FloatVal:  v.Float,
				IntVal:    v.Int,
				StringVal: v.String,
				BoolVal:   v.Bool,
				Unit:      v.Unit,
			}
		}
		out = append(out, d)
	}
	return out
}

// Given are the devices that a task was given.
func Given(in []device.Given) []*api.AllocatedDeviceResource {
	var out []*api.AllocatedDeviceResource
	for _, g := range in {
		out = append(out, &api.AllocatedDeviceResource{
			Vendor:    g.Vendor,
			Type:      g.Type,
			Name:      g.Name,
			DeviceIDs: g.IDs,
		})
	}
	return out
}

// Stats are the figures of a node's devices.
func Stats(in []device.Stats) []*api.DeviceGroupStats {
	out := make([]*api.DeviceGroupStats, 0, len(in))
	for _, s := range in {
		g := &api.DeviceGroupStats{
			Vendor:        s.Vendor,
			Type:          s.Type,
			Name:          s.Name,
			InstanceStats: map[string]*api.DeviceStats{},
		}
		for id, i := range s.Instances {
			g.InstanceStats[id] = &api.DeviceStats{Summary: value(i.Summary), Stats: object(i.Stats), Timestamp: i.At}
		}
		out = append(out, g)
	}
	return out
}

func object(in *device.StatObject) *api.StatObject {
	if in == nil {
		return nil
	}
	out := &api.StatObject{}
	for name, o := range in.Nested {
		if out.Nested == nil {
			out.Nested = map[string]*api.StatObject{}
		}
		out.Nested[name] = object(o)
	}
	for name, v := range in.Attributes {
		if out.Attributes == nil {
			out.Attributes = map[string]*api.StatValue{}
		}
		out.Attributes[name] = value(v)
	}
	return out
}

func value(in *device.Stat) *api.StatValue {
	if in == nil {
		return nil
	}
	return &api.StatValue{
		FloatNumeratorVal:   in.Float,
		FloatDenominatorVal: in.FloatOf,
		IntNumeratorVal:     in.Int,
		IntDenominatorVal:   in.IntOf,
		StringVal:           in.String,
		BoolVal:             in.Bool,
		Unit:                in.Unit,
		Desc:                in.Desc,
	}
}
