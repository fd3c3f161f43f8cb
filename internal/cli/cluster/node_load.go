package cluster

import (
	"fmt"
	"strconv"

	"berth/api"
	"berth/internal/cli/kit"
)

// available is what a node has for allocations: all but what it keeps back.
func available(n *api.Node) (cpu, memoryMB, diskMB int64) {
	if n.NodeResources == nil {
		return 0, 0, 0
	}
	cpu = n.NodeResources.Cpu.CpuShares
	memoryMB = n.NodeResources.Memory.MemoryMB
	diskMB = n.NodeResources.Disk.DiskMB
	if r := n.ReservedResources; r != nil {
		cpu = cpu - int64(r.Cpu.CpuShares)
		memoryMB = memoryMB - r.Memory.MemoryMB
		diskMB = diskMB - r.Disk.DiskMB
	}
	return cpu, memoryMB, diskMB
}

// resources tells how much of the node is given away.
func (s *nodeStatus) resources(n *api.Node, allocs []*api.Allocation) {
	var cpu, memory, disk int64
	count := 0
	for _, a := range allocs {
		if a.ClientStatus != api.AllocClientStatusRunning && a.ClientStatus != api.AllocClientStatusPending ||
			a.AllocatedResources == nil {
			continue
		}
		count++
		disk += a.AllocatedResources.Shared.DiskMB
		for _, t := range a.AllocatedResources.Tasks {
			if t != nil {
				cpu += t.Cpu.CpuShares
				memory += t.Memory.MemoryMB
			}
		}
	}
	allCPU, allMemory, allDisk := available(n)
	s.env.Out.Section("Allocated Resources")
	s.env.Out.Table([]string{"CPU", "Memory", "Disk", "Alloc Count"}, [][]string{{mhz(float64(cpu), allCPU),
		kit.Size(memory<<20) + "/" + kit.Size(allMemory<<20), kit.Size(disk<<20) + "/" +
			kit.Size(allDisk<<20), strconv.Itoa(count)}})
}

// load tells what the machine does now.
func (s *nodeStatus) load(n *api.Node, stats *api.HostStats) {
	if stats == nil {
		return
	}
	allCPU := int64(0)
	if n.NodeResources != nil {
		allCPU = n.NodeResources.Cpu.CpuShares
	}
	row := []string{mhz(stats.CPUTicksConsumed, allCPU), "", ""}
	if m := stats.Memory; m != nil {
		row[1] = kit.Size(m.Used) + "/" + kit.Size(m.Total)
	}
	if d := stats.AllocDirStats; d != nil {
		row[2] = kit.Size(d.Used) + "/" + kit.Size(d.Size)
	}
	s.env.Out.Section("Host Resource Utilization")
	s.env.Out.Table([]string{"CPU", "Memory", "Disk"}, [][]string{row})
	if !s.stats {
		return
	}
	kit.Part(s.env.Out, "CPU Stats", stats.CPU, []string{"CPU", "User", "System", "Idle"},
		func(c *api.HostCPUStats) []string {
			return []string{c.CPU, percent(c.User), percent(c.System), percent(c.Idle)}
		})
	header := []string{"Device", "Mount Point", "Size", "Used", "Used Percent", "Inodes Percent"}
	kit.Part(s.env.Out, "Disk Stats", stats.DiskStats, header, func(d *api.HostDiskStats) []string {
		return []string{d.Device, d.Mountpoint, kit.Size(d.Size), kit.Size(d.Used), percent(d.UsedPercent),
			percent(d.InodesUsedPercent)}
	})
}

func percent(f float64) string { return fmt.Sprintf("%.1f%%", f) }

func (s *nodeStatus) allocations(list []*api.Allocation) {
	s.env.Out.Section("Allocations")
	kit.List(s.env.Out, list, "allocations",
		[]string{"ID", "Job ID", "Task Group", "Version", "Desired", "Status", "Created", "Modified"},
		func(a *api.Allocation) []string {
			version := uint64(0)
			if a.Job != nil {
				version = kit.Value(a.Job.Version)
			}
			return []string{kit.ID(a.ID, s.verbose), a.JobID, a.TaskGroup, strconv.FormatUint(version, 10),
				a.DesiredStatus,
				a.Phase(),
				kit.When(a.CreateTime, s.verbose), kit.When(a.ModifyTime, s.verbose)}
		})
}
