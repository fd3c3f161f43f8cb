package api

import "time"

// HostStats is the load of a node.
type HostStats struct {
	Memory           *HostMemoryStats
	CPU              []*HostCPUStats
	DiskStats        []*HostDiskStats
	AllocDirStats    *HostDiskStats
	DeviceStats      []*DeviceGroupStats
	Uptime           uint64 // seconds
	CPUTicksConsumed float64
	Timestamp        int64 // Unix nanoseconds
}

// HostMemoryStats is the memory of a node, in bytes.
type HostMemoryStats struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
}

// HostCPUStats is the load of one core, in percent.
type HostCPUStats struct {
	CPU          string
	User         float64
	System       float64
	Idle         float64
	TotalPercent float64
	TotalTicks   float64
}

// HostDiskStats is the use of one file system, in bytes and percent.
type HostDiskStats struct {
	Device            string
	Mountpoint        string
	Size              uint64
	Used              uint64
	Available         uint64
	UsedPercent       float64
	InodesUsedPercent float64
}

// DeviceGroupStats are the statistics of devices of one kind, by instance.
type DeviceGroupStats struct {
	Vendor        string
	Type          string
	Name          string
	InstanceStats map[string]*DeviceStats
}

// DeviceStats are the statistics of one device, as its plugin reports them.
type DeviceStats struct {
	Summary   *StatValue // what says most of it
	Stats     *StatObject
	Timestamp time.Time
}

// StatObject holds figures by name, and further objects.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is one figure. One with a denominator is a part of that.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

// AllocResourceUsage is what an allocation and its tasks use.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage
	Tasks         map[string]*TaskResourceUsage
	Timestamp     int64 // Unix nanoseconds
	// Disk is nil where the node does not limit what allocations take, or has not measured it yet.
	Disk *AllocDiskUsage `json:",omitempty"`
}

// AllocDiskUsage is what an allocation's directory took of its node's disk when it was measured last, in bytes.
type AllocDiskUsage struct {
	Used, Limit int64
	Timestamp   int64 // Unix nanoseconds
}

// TaskResourceUsage is what one task and its processes use.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage
	Timestamp     int64 // Unix nanoseconds
	Pids          map[string]*ResourceUsage
}

// ResourceUsage is processor and memory use; both members are never null in replies.
type ResourceUsage struct {
	MemoryStats *MemoryStats
	CpuStats    *CpuStats
	DeviceStats []*DeviceGroupStats
}

// MemoryStats is memory in bytes; Measured names the members that the driver knows.
type MemoryStats struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	MappedFile     uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// CpuStats is processor time in percent and MHz; Measured names the members that the driver knows.
type CpuStats struct {
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Percent          float64
	Measured         []string
}
