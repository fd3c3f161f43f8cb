package external

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"berth/internal/base/fault"
	model "berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/port/device"
	"berth/internal/port/driver"
	"berth/pluginproto/devicepb"
	"berth/pluginproto/structspb"
)

// Bounds of what a plugin finds: it is repeated in every description of the node.
const (
	maxInstances  = 4096
	maxAttributes = 128 // of one kind
	maxText       = 256 // bytes of a name, an id or a reason
)

// groups reads what a plugin finds. What could not be told apart, or would burst the node's record, is refused.
func groups(in []*devicepb.DeviceGroup) ([]model.Group, error) {
	refuse := func(format string, args ...any) ([]model.Group, error) {
		return nil, fault.New(fault.Invalid, "", "", fmt.Sprintf(format, args...))
	}
	var out []model.Group
	kinds, ids := map[model.Kind]bool{}, map[string]bool{}
	for _, g := range in {
		group := model.Group{Vendor: g.GetVendor(), Type: g.GetDeviceType(), Name: g.GetDeviceName()}
		for what, text := range map[string]string{"vendor": group.Vendor, "type": group.Type, "name": group.Name} {
			if !plain(text) || what != "name" && strings.Contains(text, "/") {
				return refuse("it finds devices whose %s is %q", what, clip(text))
			}
		}
		if kinds[group.Kind()] {
			return refuse("it finds devices %s twice", group.Kind())
		}
		kinds[group.Kind()] = true
		if len(g.GetAttributes()) > maxAttributes {
			return refuse("devices %s have %d attributes, and %d is the most", group.Kind(), len(g.GetAttributes()),
				maxAttributes)
		}
		for name, a := range g.GetAttributes() {
			if group.Attributes == nil {
				group.Attributes = map[string]model.Value{}
			}
			group.Attributes[clip(name)] = value(a)
		}
		for _, d := range g.GetDevices() {
			switch id := d.GetID(); {
			case !plain(id):
				return refuse("it finds a device of %s whose id is %q", group.Kind(), clip(id))
			case ids[id]:
				return refuse("it finds device %q twice", id)
			case len(ids) == maxInstances:
				return refuse("it finds more than %d devices", maxInstances)
			}
			ids[d.GetID()] = true
			group.Instances = append(group.Instances, instance(d))
		}
		slices.SortFunc(group.Instances, func(a, b model.Instance) int { return strings.Compare(a.ID, b.ID) })
		out = append(out, group)
	}
	model.Sort(out)
	return out, nil
}

// plain reports a text by which people can name something.
func plain(text string) bool {
	return text != "" && len(text) <= maxText && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) })
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD") }

func instance(d *devicepb.DetectedDevice) model.Instance {
	out := model.Instance{ID: d.GetID(), Healthy: d.GetHealthy(), BusID: clip(d.GetHwLocality().GetPciBusId())}
	if !out.Healthy {
		out.Reason = clip(d.GetHealthDescription())
	}
	return out
}

func value(a *structspb.Attribute) model.Value {
	out := model.Value{Unit: clip(a.GetUnit())}
	switch v := a.GetValue().(type) {
	case *structspb.Attribute_FloatVal:
		out.Float = &v.FloatVal
	case *structspb.Attribute_IntVal:
		out.Int = &v.IntVal
	case *structspb.Attribute_StringVal:
		text := clip(v.StringVal)
		out.String = &text
	case *structspb.Attribute_BoolVal:
		out.Bool = &v.BoolVal
	}
	return out
}

// maxProvided is how many variables, mounts and nodes of devices each a plugin may give a task.
const maxProvided = 1000

// within refuses what no task could be given, before anybody tries.
func within(in *devicepb.ContainerReservation) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "reserve", "devices", "the plugin gives "+fmt.Sprintf(format, args...))
	}
	for _, l := range []struct {
		n    int
		what string
	}{
		{len(in.GetEnvs()), "variables"},
		{len(in.GetMounts()), "mounts"},
		{len(in.GetDevices()), "nodes of devices"},
	} {
		if l.n > maxProvided {
			return refuse("%d %s, %d are the most", l.n, l.what, maxProvided)
		}
	}
	all := 0
	for k, v := range in.GetEnvs() {
		n := len(k) + len(v) + 2
		if n > job.MaxEnvString {
			return refuse("variable %q of %d bytes, and a process takes at most %d with its name", clip(k), len(v),
				job.MaxEnvString)
		}
		all += n
	}
	if all > job.MaxEnv {
		return refuse("variables of %d bytes together, and a process takes at most %d", all, job.MaxEnv)
	}
	return nil
}

// provided reads what a task needs to use devices.
func provided(in *devicepb.ContainerReservation) (*device.Provided, error) {
	if err := within(in); err != nil {
		return nil, err
	}
	out := &device.Provided{Env: in.GetEnvs()}
	refuse := func(what, path string) error {
		return fault.New(fault.Invalid, "reserve", "devices", "the plugin gives "+what+" at "+strconv.Quote(clip(path))+
			", which is no absolute path")
	}
	for k, v := range out.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return nil, fault.New(fault.Invalid, "reserve", "devices",
				"the plugin gives a variable that cannot be one: "+strconv.Quote(clip(k)))
		}
	}
	for _, m := range in.GetMounts() {
		if !path.IsAbs(m.GetHostPath()) || !path.IsAbs(m.GetTaskPath()) {
			return nil, refuse("a mount", m.GetHostPath()+":"+m.GetTaskPath())
		}
		out.Mounts = append(out.Mounts, driver.Mount{
			Source:   m.GetHostPath(),
			Target:   m.GetTaskPath(),
			ReadOnly: m.GetReadOnly(),
		})
	}
	for _, d := range in.GetDevices() {
		to := d.GetTaskPath()
		if to == "" {
			to = d.GetHostPath()
		}
		if !path.IsAbs(d.GetHostPath()) || !path.IsAbs(to) {
			return nil, refuse("a device", d.GetHostPath()+":"+to)
		}
		out.Devices = append(out.Devices, driver.Device{
			HostPath:    d.GetHostPath(),
			TaskPath:    to,
			Permissions: d.GetPermissions(),
		})
	}
	return out, nil
}

// stats reads a plugin's figures.
func stats(in []*devicepb.DeviceGroupStats) []model.Stats {
	var out []model.Stats
	for _, g := range in {
		s := model.Stats{
			Kind:      model.Kind{Vendor: clip(g.GetVendor()), Type: clip(g.GetType()), Name: clip(g.GetName())},
			Instances: map[string]model.InstanceStats{},
		}
		for id, i := range g.GetInstanceStats() {
			s.Instances[clip(id)] = model.InstanceStats{
				Summary: stat(i.GetSummary()),
				Stats:   object(i.GetStats(), maxDepth),
				At:      i.GetTimestamp().AsTime(),
			}
		}
		out = append(out, s)
	}
	return out
}

// maxDepth bounds how deep figures are nested: whoever shows them descends.
const maxDepth = 8

func object(in *structspb.StatObject, depth int) *model.StatObject {
	if in == nil || depth == 0 {
		return nil
	}
	out := &model.StatObject{}
	for name, o := range in.GetNested() {
		if out.Nested == nil {
			out.Nested = map[string]*model.StatObject{}
		}
		if nested := object(o, depth-1); nested != nil {
			out.Nested[clip(name)] = nested
		}
	}
	for name, s := range in.GetAttributes() {
		if out.Attributes == nil {
			out.Attributes = map[string]*model.Stat{}
		}
		out.Attributes[clip(name)] = stat(s)
	}
	return out
}

func stat(in *structspb.StatValue) *model.Stat {
	if in == nil {
		return nil
	}
	out := &model.Stat{Unit: clip(in.GetUnit()), Desc: clip(in.GetDesc())}
	if v := in.GetFloatNumeratorVal(); v != nil {
		out.Float = &v.Value
	}
	if v := in.GetFloatDenominatorVal(); v != nil {
		out.FloatOf = &v.Value
	}
	if v := in.GetIntNumeratorVal(); v != nil {
		out.Int = &v.Value
	}
	if v := in.GetIntDenominatorVal(); v != nil {
		out.IntOf = &v.Value
	}
	if v := in.GetStringVal(); v != nil {
		text := clip(v.Value)
		out.String = &text
	}
	if v := in.GetBoolVal(); v != nil {
		out.Bool = &v.Value
	}
	return out
}
