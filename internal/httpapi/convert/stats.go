package convert

import (
	"berth/api"
	"berth/internal/httpapi/convert/devices"
	"berth/internal/wire"
)

// Usage makes the public form of a reading of resources.
func Usage(u wire.Usage) *api.ResourceUsage {
	return &api.ResourceUsage{
		MemoryStats: &api.MemoryStats{
			RSS:      u.MemoryRSS,
			Cache:    u.MemoryCache,
			Swap:     u.MemorySwap,
			Usage:    u.MemoryUsage,
			MaxUsage: u.MemoryMax,
			Measured: []string{"RSS", "Cache", "Usage", "Max Usage"},
		},
		CpuStats: &api.CpuStats{
			Percent:       u.CPUPercent,
			UserMode:      u.UserPercent,
			SystemMode:    u.SystemPercent,
			TotalTicks:    u.CPUTicks,
			ThrottledTime: u.ThrottledNanos,
			Measured:      []string{"Percent", "User Mode", "System Mode", "Throttled Time"},
		},
		DeviceStats: []*api.DeviceGroupStats{},
	}
}

// AllocUsage makes the public form of what an alloc uses, and of each task's part.
func AllocUsage(in *wire.AllocStatsReply) *api.AllocResourceUsage {
	out := &api.AllocResourceUsage{
		ResourceUsage: Usage(in.Total),
		Tasks:         map[string]*api.TaskResourceUsage{},
		Timestamp:     in.Total.Time,
	}
	if in.Disk != nil {
		out.Disk = &api.AllocDiskUsage{Used: in.Disk.Used, Limit: in.Disk.Limit, Timestamp: in.Disk.At}
	}
	for name, u := range in.Tasks {
		pids := map[string]*api.ResourceUsage{}
		out.Tasks[name] = &api.TaskResourceUsage{ResourceUsage: Usage(u), Timestamp: u.Time, Pids: pids}
	}
	return out
}

// Disk makes the public form of a file system's use.
func Disk(d wire.DiskStat) *api.HostDiskStats {
	return &api.HostDiskStats{
		Device:            d.Device,
		Mountpoint:        d.Mountpoint,
		Size:              d.Size,
		Used:              d.Used,
		Available:         d.Available,
		UsedPercent:       d.UsedPercent,
		InodesUsedPercent: d.InodesUsedPercent,
	}
}

// FileInfo makes the public form of a file's description.
func FileInfo(f wire.FileInfo) *api.AllocFileInfo {
	return &api.AllocFileInfo{
		Name:        f.Name,
		IsDir:       f.IsDir,
		Size:        f.Size,
		FileMode:    f.FileMode,
		ModTime:     f.ModTime,
		ContentType: f.ContentType,
	}
}

// HostStats shows the usage of a node.
func HostStats(out *wire.HostStatsReply) *api.HostStats {
	reply := &api.HostStats{
		Memory: &api.HostMemoryStats{
			Total:     out.MemTotal,
			Available: out.MemAvailable,
			Used:      out.MemUsed,
			Free:      out.MemFree,
		},
		AllocDirStats:    Disk(out.AllocDir),
		DeviceStats:      devices.Stats(out.Devices),
		Uptime:           out.Uptime,
		CPUTicksConsumed: out.CPUTicks,
		Timestamp:        out.Time,
	}
	for _, c := range out.CPU {
		reply.CPU = append(reply.CPU, &api.HostCPUStats{
			CPU:          c.CPU,
			User:         c.User,
			System:       c.System,
			Idle:         c.Idle,
			TotalPercent: c.Total,
		})
	}
	for _, d := range out.Disks {
		reply.DiskStats = append(reply.DiskStats, Disk(d))
	}
	return reply
}
