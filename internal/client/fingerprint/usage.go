package fingerprint

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// HostUsage is one reading of what the node uses; two of them give rates.
type HostUsage struct {
	reply wire.HostStatsReply
	cpus  []cpuTimes
}

// cpuTimes are ticks since boot.
type cpuTimes struct {
	name                string
	user, system, total uint64
	idle                uint64
}

// ReadUsage looks at memory, processors and the file system of the data directory.
func ReadUsage(dataDir string) (*HostUsage, error) {
	u := &HostUsage{reply: wire.HostStatsReply{Time: time.Now().UnixNano()}}
	if err := u.readMemory(); err != nil {
		return nil, err
	}
	if err := u.readProcessors(); err != nil {
		return nil, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "uptime")
	}
	u.reply.Uptime = uint64(info.Uptime)
	var st unix.Statfs_t
	if err := unix.Statfs(dataDir, &st); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read the capacity of", dataDir)
	}
	u.reply.AllocDir = diskStat(&st, dataDir)
	u.reply.Disks = []wire.DiskStat{u.reply.AllocDir}
	return u, nil
}

func diskStat(st *unix.Statfs_t, at string) wire.DiskStat {
	size := uint64(st.Bsize)
	d := wire.DiskStat{
		Mountpoint: at,
		Size:       st.Blocks * size,
		Available:  st.Bavail * size,
		Used:       (st.Blocks - st.Bfree) * size,
	}
	if reachable := d.Used + d.Available; reachable > 0 {
		d.UsedPercent = 100 * float64(d.Used) / float64(reachable)
	}
	if st.Files > 0 {
		d.InodesUsedPercent = 100 * float64(st.Files-st.Ffree) / float64(st.Files)
	}
	return d
}

func (u *HostUsage) readMemory() error {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "memory")
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue // a line in a form that this kernel added
		}
		switch f[0] {
		case "MemTotal:":
			u.reply.MemTotal = kib << 10
		case "MemFree:":
			u.reply.MemFree = kib << 10
		case "MemAvailable:":
			u.reply.MemAvailable = kib << 10
		}
	}
	u.reply.MemUsed = u.reply.MemTotal - u.reply.MemAvailable
	return nil
}

func (u *HostUsage) readProcessors() error {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return fault.Wrap(err, fault.Internal, "read", "processors")
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 8 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		var v [7]uint64 // user nice system idle iowait irq softirq
		for i := range v {
			if v[i], err = strconv.ParseUint(f[i+1], 10, 64); err != nil {
				return fault.Wrap(err, fault.Internal, "read", "processors")
			}
		}
		c := cpuTimes{name: f[0], user: v[0] + v[1], system: v[2] + v[5] + v[6], idle: v[3] + v[4]}
		c.total = c.user + c.system + c.idle
		u.cpus = append(u.cpus, c)
	}
	return nil
}

// Reply describes the usage with the rates since an older reading.
func (u *HostUsage) Reply(old *HostUsage) *wire.HostStatsReply {
	r := u.reply
	for i, c := range u.cpus {
		stat := wire.CPUStat{CPU: c.name, Idle: 100}
		if i < len(old.cpus) && c.total > old.cpus[i].total {
			o := old.cpus[i]
			span := float64(c.total - o.total)
			stat.User = 100 * float64(c.user-o.user) / span
			stat.System = 100 * float64(c.system-o.system) / span
			stat.Idle = 100 * float64(c.idle-min(o.idle, c.idle)) / span
			stat.Total = stat.User + stat.System
		}
		r.CPU = append(r.CPU, stat)
	}
	return &r
}
