package convert

import (
	"berth/api"
	"berth/internal/wire"
)

// Usage makes the public form of a reading of resources.
func Usage(u wire.Usage) *api.ResourceUsage {
	return &api.ResourceUsage{
		MemoryStats: &api.MemoryStats{RSS: u.MemoryRSS, Cache: u.MemoryCache, Swap: u.MemorySwap, Usage: u.MemoryUsage, MaxUsage: u.MemoryMax,
			Measured: []string{"RSS", "Cache", "Usage", "Max Usage"}},
		CpuStats: &api.CpuStats{Percent: u.CPUPercent, UserMode: u.UserPercent, SystemMode: u.SystemPercent, TotalTicks: u.CPUTicks,
			ThrottledTime: u.ThrottledNanos, Measured: []string{"Percent", "User Mode", "System Mode", "Throttled Time"}},
		DeviceStats: []*api.DeviceGroupStats{},
	}
}

// Disk makes the public form of a file system's use.
func Disk(d wire.DiskStat) *api.HostDiskStats {
	return &api.HostDiskStats{Device: d.Device, Mountpoint: d.Mountpoint, Size: d.Size, Used: d.Used, Available: d.Available,
		UsedPercent: d.UsedPercent, InodesUsedPercent: d.InodesUsedPercent}
}

// FileInfo makes the public form of a file's description.
func FileInfo(f wire.FileInfo) *api.AllocFileInfo {
	return &api.AllocFileInfo{Name: f.Name, IsDir: f.IsDir, Size: f.Size, FileMode: f.FileMode, ModTime: f.ModTime, ContentType: f.ContentType}
}
