package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/pluginproto/basepb"
	"berth/pluginproto/devicepb"
	"berth/pluginproto/hclspecpb"
	"berth/pluginproto/structspb"
)

// What a job asks for: `device "example/file/plain"`, or less of that.
const (
	Name   = "example"
	vendor = "example"
	kind   = "file"
	model  = "plain"
)

// configType is what the plugin's block of the agent's configuration may hold, as ConfigSchema describes it.
var configType = cty.Object(map[string]cty.Type{"dir": cty.String, "period": cty.String})

// devices keeps nothing of what it gave away: that is the host's to know.
type devices struct {
	basepb.UnimplementedBasePluginServer
	devicepb.UnimplementedDevicePluginServer

	mu     sync.Mutex
	dir    string
	period time.Duration // between two looks at the directory
}

// PluginInfo says that this is a plugin of devices.
func (d *devices) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return &basepb.PluginInfoResponse{
		Type:              basepb.PluginType_DEVICE,
		PluginApiVersions: []string{"v0.1.0"},
		PluginVersion:     "0.1.0",
		Name:              Name,
	}, nil
}

func attr(name string, required bool) *hclspecpb.Spec {
	return &hclspecpb.Spec{Block: &hclspecpb.Spec_Attr{
		Attr: &hclspecpb.Attr{Name: name, Type: "string", Required: required},
	}}
}

// ConfigSchema describes configType in the words of the protocol.
func (d *devices) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	period := &hclspecpb.Spec{Block: &hclspecpb.Spec_Default{Default: &hclspecpb.Default{
		Primary: attr("period", false),
		Default: &hclspecpb.Spec{Block: &hclspecpb.Spec_Literal{Literal: &hclspecpb.Literal{Value: `"1s"`}}},
	}}}
	return &basepb.ConfigSchemaResponse{Spec: &hclspecpb.Spec{Block: &hclspecpb.Spec_Object{Object: &hclspecpb.Object{
		Attributes: map[string]*hclspecpb.Spec{"dir": attr("dir", true), "period": period},
	}}}}, nil
}

// SetConfig is called more than once: first to have the configuration judged.
func (d *devices) SetConfig(_ context.Context, r *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	v, err := msgpack.Unmarshal(r.GetMsgpackConfig(), configType)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	dir := v.GetAttr("dir").AsString()
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, status.Errorf(codes.InvalidArgument, "dir: %q is no directory", dir)
	}
	period, err := time.ParseDuration(v.GetAttr("period").AsString())
	if err != nil || period <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "period: %v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir, d.period = dir, period
	return &basepb.SetConfigResponse{}, nil
}

func (d *devices) config() (string, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dir, d.period
}

// Fingerprint sends all devices at once, and again whenever something is different. Hardware would tell by itself when
// that is; a directory is looked at from time to time.
func (d *devices) Fingerprint(_ *devicepb.FingerprintRequest, s devicepb.DevicePlugin_FingerprintServer) error {
	_, period := d.config()
	tick := time.NewTicker(period)
	defer tick.Stop()
	said := ""
	for {
		group, err := d.look()
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		if now := group.String(); now != said {
			if err := s.Send(&devicepb.FingerprintResponse{DeviceGroup: []*devicepb.DeviceGroup{group}}); err != nil {
				return err
			}
			said = now
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// broken is how the content of a file begins that is to be unhealthy; the rest of its line is the reason.
const broken = "broken:"

// look reads the directory: each file is a device, by its name.
func (d *devices) look() (*devicepb.DeviceGroup, error) {
	dir, _ := d.config()
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	group := &devicepb.DeviceGroup{
		Vendor:     vendor,
		DeviceType: kind,
		DeviceName: model,
		Attributes: map[string]*structspb.Attribute{
			"memory": {Value: &structspb.Attribute_IntVal{IntVal: 4}, Unit: "GiB"},
			"clock":  {Value: &structspb.Attribute_FloatVal{FloatVal: 1.5}, Unit: "GHz"},
			"driver": {Value: &structspb.Attribute_StringVal{StringVal: "1.2.3"}},
		},
	}
	for _, f := range all {
		if f.IsDir() {
			continue
		}
		one := &devicepb.DetectedDevice{ID: f.Name(), Healthy: true}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		reason, isBroken := strings.CutPrefix(strings.TrimSpace(string(text)), broken)
		switch {
		case err != nil:
			one.Healthy, one.HealthDescription = false, err.Error()
		case isBroken:
			one.Healthy, one.HealthDescription = false, strings.TrimSpace(reason)
		}
		group.Devices = append(group.Devices, one)
	}
	return group, nil
}

// Reserve tells what a task needs to use devices. It may be asked again for the same ones, and is not told when they are
// given back.
func (d *devices) Reserve(_ context.Context, r *devicepb.ReserveRequest) (*devicepb.ReserveResponse, error) {
	dir, _ := d.config()
	if len(r.GetDeviceIds()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no devices are named")
	}
	group, err := d.look()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	out := &devicepb.ContainerReservation{
		Envs: map[string]string{"EXAMPLE_DEVICES": strings.Join(r.GetDeviceIds(), ",")},
		// A device that all Linux machines have stands for the one that a plugin would give.
		Devices: []*devicepb.DeviceSpec{{TaskPath: "/dev/example-zero", HostPath: "/dev/zero", Permissions: "rw"}},
	}
	for _, id := range r.GetDeviceIds() {
		i := slices.IndexFunc(group.GetDevices(), func(o *devicepb.DetectedDevice) bool { return o.GetID() == id })
		if i < 0 {
			return nil, status.Errorf(codes.NotFound, "there is no device %q", id)
		}
		if o := group.GetDevices()[i]; !o.GetHealthy() {
			return nil, status.Errorf(codes.FailedPrecondition, "device %q is broken: %s", id, o.GetHealthDescription())
		}
		out.Mounts = append(out.Mounts, &devicepb.Mount{
			TaskPath: "/example/" + id,
			HostPath: filepath.Join(dir, id),
			ReadOnly: true,
		})
	}
	return &devicepb.ReserveResponse{ContainerRes: out}, nil
}

// Stats sends figures of every device, as often as it is asked to.
func (d *devices) Stats(r *devicepb.StatsRequest, s devicepb.DevicePlugin_StatsServer) error {
	tick := time.NewTicker(max(r.GetCollectionInterval().AsDuration(), time.Second))
	defer tick.Stop()
	for {
		group, err := d.look()
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		out := &devicepb.DeviceGroupStats{
			Vendor:        vendor,
			Type:          kind,
			Name:          model,
			InstanceStats: map[string]*devicepb.DeviceStats{},
		}
		for _, one := range group.GetDevices() {
			out.InstanceStats[one.GetID()] = d.figures(one.GetID())
		}
		if err := s.Send(&devicepb.StatsResponse{Groups: []*devicepb.DeviceGroupStats{out}}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *devices) figures(id string) *devicepb.DeviceStats {
	dir, _ := d.config()
	size := int64(0)
	if st, err := os.Stat(filepath.Join(dir, id)); err == nil {
		size = st.Size()
	}
	used := &structspb.StatValue{
		IntNumeratorVal:   wrapperspb.Int64(size),
		IntDenominatorVal: wrapperspb.Int64(4096),
		Unit:              "B",
		Desc:              "size of the file",
	}
	return &devicepb.DeviceStats{
		Summary:   used,
		Stats:     &structspb.StatObject{Attributes: map[string]*structspb.StatValue{"Size": used}},
		Timestamp: timestamppb.Now(),
	}
}
