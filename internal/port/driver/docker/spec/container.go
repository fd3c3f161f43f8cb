package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
)

const (
	host = "host"
	mib  = 1 << 20
	// cpuPeriod is the kernel's default, in microseconds.
	cpuPeriod = 100_000
)

// Labels of containers: of which alloc they are, as tools of the field look for it, and whose.
const (
	LabelAlloc   = "com.hashicorp.nomad.alloc_id"
	labelPrefix  = "com.hashicorp.nomad."
	LabelNode    = "berth.node_id"
	LabelTask    = "berth.task"
	LabelAttempt = "berth.attempt"
	ownPrefix    = "berth."
)

// Create is the container that a task's configuration asks for, as far as the agent allows it.
func (p *Policy) Create(cfg *driver.TaskConfig, o Options) (*dockerapi.Create, error) {
	for k, v := range cfg.Env {
		if strings.ContainsRune(k+v, 0) {
			return nil, fault.New(fault.Invalid, "", "", "the environment holds a NUL byte in "+strconv.Quote(k))
		}
	}
	h := &dockerapi.Host{
		Runtime:     o.Text("runtime"),
		ReadOnly:    o.Yes("readonly_rootfs"),
		GroupAdd:    o.Texts("group_add"),
		ExtraHosts:  o.Texts("extra_hosts"),
		StorageOpt:  o.Pairs("storage_opt"),
		Sysctls:     o.Pairs("sysctl"),
		ShmSize:     o.Number("shm_size"),
		OomScoreAdj: int(o.Number("oom_score_adj")),

		VolumeDriver: o.Text("volume_driver"),
		CgroupnsMode: o.Text("cgroupns"),
	}
	c := &dockerapi.Create{
		Hostname:   o.Text("hostname"),
		User:       cfg.User,
		Tty:        o.Yes("tty"),
		OpenStdin:  o.Yes("interactive"),
		Env:        environment(cfg.Env),
		Entrypoint: o.Texts("entrypoint"),
		WorkingDir: o.Text("work_dir"),
		MacAddress: o.Text("mac_address"),
		Labels:     p.labels(cfg, o),
		HostConfig: h,
	}
	if command := o.Text("command"); command != "" {
		c.Cmd = append([]string{command}, o.Texts("args")...)
	} else {
		c.Cmd = o.Texts("args")
	}
	if init := o.Yes("init"); init {
		h.Init = &init
	}
	if o.One("healthchecks").Yes("disable") {
		c.Healthcheck = &dockerapi.Healthcheck{Test: []string{"NONE"}}
	}
	if err := p.logging(o, h); err != nil {
		return nil, err
	}
	if err := p.resources(cfg, o, h); err != nil {
		return nil, err
	}
	if err := p.privileges(cfg, o, h); err != nil {
		return nil, err
	}
	var err error
	if h.Mounts, err = p.mounts(cfg, o); err != nil {
		return nil, err
	}
	return c, p.network(cfg, o, c)
}

func environment(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// labels say whose a container is. What the job writes cannot take the place of that.
func (p *Policy) labels(cfg *driver.TaskConfig, o Options) map[string]string {
	out := map[string]string{}
	for name, value := range o.Pairs("labels") {
		if !strings.HasPrefix(name, labelPrefix) && !strings.HasPrefix(name, ownPrefix) {
			out[name] = value
		}
	}
	var n Node
	if p.Node != nil {
		n = p.Node()
	}
	for name, value := range map[string]string{
		"job_name":        cfg.Env["NOMAD_JOB_NAME"],
		"job_id":          cfg.Job,
		"task_group_name": cfg.Group,
		"task_name":       cfg.Task,
		"namespace":       cfg.Env["NOMAD_NAMESPACE"],
		"node_name":       n.Name,
		"node_id":         n.ID,
	} {
		if slices.ContainsFunc(p.ExtraLabels, func(l string) bool { return covers(l, name) }) {
			out[labelPrefix+name] = value
		}
	}
	out[LabelAlloc], out[LabelNode] = string(cfg.Alloc), n.ID
	out[LabelTask], out[LabelAttempt] = cfg.Task, strconv.Itoa(cfg.Attempt)
	return out
}

// covers reports whether a name of extra_labels, in which * stands for anything, names a label.
func covers(pattern, name string) bool {
	before, after, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == name
	}
	return strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// resources bounds the container as other tasks are bounded.
func (p *Policy) resources(cfg *driver.TaskConfig, o Options, h *dockerapi.Host) error {
	r := cfg.Resources
	h.CPUShares, h.CpusetCpus = max(2, r.CPUShares), r.CpusetCores
	if period := o.Number("cpu_cfs_period"); period != 0 {
		if period < 1000 || period > 1_000_000 {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.cpu_cfs_period",
				"the kernel takes no such period"), "write 1000 to 1000000 (microseconds)")
		}
		h.CPUPeriod = period
	}
	if o.Yes("cpu_hard_limit") {
		if h.CPUPeriod == 0 {
			h.CPUPeriod = cpuPeriod
		}
		mhz := int64(0)
		if p.MHz != nil {
			mhz = p.MHz()
		}
		if mhz <= 0 {
			return fault.New(fault.NotReady, "", "config.cpu_hard_limit", "what the node's cores do is not known yet")
		}
		h.CPUQuota = max(1000, h.CPUPeriod*r.CPUShares/mhz)
	}
	if err := memory(r, o, h); err != nil {
		return err
	}
	if err := p.pids(r, o, h); err != nil {
		return err
	}
	if _, set := o.Pairs("ulimit")["core"]; !set { // a task's memory is not laid down where it ends
		h.Ulimits = append(h.Ulimits, dockerapi.Ulimit{Name: "core"})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Pairs("ulimit"))) {
		u, err := ulimit(name, o.Pairs("ulimit")[name])
		if err != nil {
			return err
		}
		h.Ulimits = append(h.Ulimits, u)
	}
	return nil
}

// memory bounds what the container has of it.
func memory(r driver.Resources, o Options, h *dockerapi.Host) error {
	limit, reserved := r.MemoryMB, int64(0)
	switch {
	case r.MemoryMaxMB == -1:
		limit, reserved = 0, r.MemoryMB
	case r.MemoryMaxMB > r.MemoryMB:
		limit, reserved = r.MemoryMaxMB, r.MemoryMB
	}
	if hard := o.Number("memory_hard_limit"); hard != 0 {
		if hard < r.MemoryMB {
			return fault.WithHint(fault.New(fault.Invalid, "", "config.memory_hard_limit",
				fmt.Sprintf("it is %d, and less than the task's memory, which is %d", hard, r.MemoryMB)),
				"write memory_max in the task's resources instead")
		}
		if r.MemoryMaxMB != 0 && (r.MemoryMaxMB == -1 || hard < r.MemoryMaxMB) || r.MemoryMaxMB == 0 {
			limit, reserved = hard, r.MemoryMB
		}
	}
	h.Memory, h.MemorySwap = limit*mib, limit*mib
	h.MemoryLow = reserved * mib
	return nil
}

// pids bounds its processes and threads.
func (p *Policy) pids(r driver.Resources, o Options, h *dockerapi.Host) error {
	h.PidsLimit = r.PIDs
	if h.PidsLimit <= 0 {
		h.PidsLimit = p.PIDsLimit
	}
	if h.PidsLimit <= 0 {
		h.PidsLimit = driver.DefaultPIDs
	}
	if asked := o.Number("pids_limit"); asked > 0 {
		if p.PIDsLimit > 0 && asked > p.PIDsLimit {
			return fault.WithHint(fault.New(fault.Denied, "", "config.pids_limit",
				fmt.Sprintf("it is %d, and the agent gives a container at most %d", asked, p.PIDsLimit)),
				"ask for fewer, or raise pids_limit in the agent's plugin \"docker\" block")
		}
		h.PidsLimit = asked
	}
	return nil
}

// ulimit reads "1024" or "1024:2048", the soft and the hard limit.
func ulimit(name, text string) (dockerapi.Ulimit, error) {
	soft, hard, two := strings.Cut(text, ":")
	if !two {
		hard = soft
	}
	s, sErr := strconv.ParseInt(strings.TrimSpace(soft), 10, 64)
	h, hErr := strconv.ParseInt(strings.TrimSpace(hard), 10, 64)
	if sErr != nil || hErr != nil {
		return dockerapi.Ulimit{}, fault.WithHint(fault.New(fault.Invalid, "", "config.ulimit."+name,
			strconv.Quote(text)+" is no limit"), `write a number, or two as in "1024:2048"`)
	}
	return dockerapi.Ulimit{Name: name, Soft: s, Hard: h}, nil
}
