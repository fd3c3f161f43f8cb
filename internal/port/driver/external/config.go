package external

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/pluginproto/driverpb"
)

const mib = 1 << 20

// taskConfig is what a plugin gets to know of a task.
func (s *connection) taskConfig(cfg *driver.TaskConfig) (*driverpb.TaskConfig, error) {
	if cfg.CSIPluginNode {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "", "",
			"storage plugins that mount on the node run with drivers that Berth knows"), "use driver exec or raw_exec")
	}
	if len(cfg.Mounts) > 0 && s.info.Capabilities.Mounts == driver.MountNone {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "", "mount "+cfg.Mounts[0].Target,
			"the driver cannot mount"), "use a driver that can, such as exec")
	}
	if cfg.User == "" && s.caps.GetDynamicWorkloadUsers() {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "", "user",
			"the driver wants a user for each task, and Berth gives none: the task would be the plugin's, which is root"),
			`name one in the task, such as user = "nobody"`)
	}
	for k, v := range cfg.Env {
		if strings.ContainsRune(k+v, 0) {
			return nil, fault.New(fault.Invalid, "", "", "the environment holds a NUL byte in "+strconv.Quote(k))
		}
	}
	values, err := s.info.Schema.Read(s.info.Name, cfg.Config)
	if err != nil {
		return nil, err
	}
	encoded, err := s.spec.Encode(values)
	if err != nil {
		return nil, err
	}
	id := taskID(cfg.Alloc, cfg.Task, cfg.Attempt)
	stdout, stderr := s.d.cfg.fifos(cfg.Alloc, cfg.Task, cfg.Attempt)
	out := &driverpb.TaskConfig{
		Id:                  id,
		Name:                cfg.Task,
		MsgpackDriverConfig: encoded,
		Env:                 cfg.Env,
		DeviceEnv:           map[string]string{},
		Resources:           resources(cfg),
		User:                cfg.User,
		AllocDir:            filepath.Dir(cfg.AllocDir),
		StdoutPath:          stdout,
		StderrPath:          stderr,
		TaskGroupName:       cfg.Group,
		JobName:             cfg.Env["NOMAD_JOB_NAME"],
		JobId:               cfg.Job,
		AllocId:             string(cfg.Alloc),
		Namespace:           cfg.Env["NOMAD_NAMESPACE"],
		ParentJobId:         cfg.Env["NOMAD_JOB_PARENT_ID"],
	}
	if s.d.cfg.Node != nil {
		n := s.d.cfg.Node()
		out.NodeId, out.NodeName = n.ID, n.Name
		if n.MHz > 0 { // drivers of containers make a quota of it
			out.Resources.LinuxResources.PercentTicks = float64(cfg.Resources.CPUShares) / float64(n.MHz)
		}
	}
	for _, m := range cfg.Mounts {
		out.Mounts = append(out.Mounts, &driverpb.Mount{
			TaskPath:        m.Target,
			HostPath:        m.Source,
			Readonly:        m.ReadOnly,
			PropagationMode: m.Propagation,
			RequestName:     m.Volume,
		})
	}
	for _, d := range cfg.Devices {
		out.Devices = append(out.Devices, &driverpb.Device{
			TaskPath:          d.TaskPath,
			HostPath:          d.HostPath,
			CgroupPermissions: d.Permissions,
		})
	}
	if n := cfg.Network; n != nil {
		out.Dns = resolver(n.Resolver)
		out.Mounts = append(out.Mounts, s.hosts(n)...)
	}
	out.NetworkIsolationSpec, err = s.network(cfg)
	return out, err
}

func resources(cfg *driver.TaskConfig) *driverpb.Resources {
	r := cfg.Resources
	most := r.MemoryMB
	if r.MemoryMaxMB != 0 {
		most = max(most, r.MemoryMaxMB)
	}
	limit := most * mib
	if r.MemoryMaxMB == -1 {
		limit = 0 // none
	}
	out := &driverpb.Resources{
		AllocatedResources: &driverpb.AllocatedTaskResources{
			Cpu:    &driverpb.AllocatedCpuResources{CpuShares: r.CPUShares},
			Memory: &driverpb.AllocatedMemoryResources{MemoryMb: r.MemoryMB, MemoryMaxMb: max(0, r.MemoryMaxMB)},
		},
		LinuxResources: &driverpb.LinuxResources{
			CpuShares:        r.CPUShares,
			MemoryLimitBytes: limit,
			CpusetCpus:       r.CpusetCores,
		},
	}
	byIP := map[string]*driverpb.NetworkResource{}
	var ips []string
	for _, p := range cfg.Ports {
		out.Ports = append(out.Ports, &driverpb.PortMapping{
			Label:  p.Label,
			Value:  int32(p.Value),
			To:     int32(p.To),
			HostIp: p.HostIP,
		})
		if byIP[p.HostIP] == nil {
			byIP[p.HostIP] = &driverpb.NetworkResource{Ip: p.HostIP}
			ips = append(ips, p.HostIP)
		}
		byIP[p.HostIP].DynamicPorts = append(byIP[p.HostIP].DynamicPorts,
			&driverpb.NetworkPort{Label: p.Label, Value: int32(p.Value)})
	}
	slices.SortFunc(ips, strings.Compare)
	for _, ip := range ips { // the form that plugins of older versions read
		out.AllocatedResources.Networks = append(out.AllocatedResources.Networks, byIP[ip])
	}
	return out
}
