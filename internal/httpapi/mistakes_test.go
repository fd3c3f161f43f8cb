package httpapi_test

import (
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/testkit/samplejob"
)

// mistake is what an author gets wrong in everyBlock, where that is, and what is said of it.
type mistake struct {
	at   string // the value that it changes, or what it takes away
	says string
	make func(j *api.Job, g *api.TaskGroup, t *api.Task)
}

// excuse is why two mistakes cannot come together, by how what is said of them begins: one leaves the other without a
// meaning. Each has to be true of a pair.
type excuse struct{ one, other, why string }

var excuses = []excuse{
	{"system jobs", "reschedule ", "no job of that type is rescheduled"},
	{"system jobs", "do not fit into the interval", "no job of that type is rescheduled"},
	{"system jobs should not have a reschedule", "missing job task groups", "it is the groups that have it"},
	{"job type \"batch\"", "update ", "no job of that type is updated so"},
	{"job type \"batch\"", "less than progress_deadline", "no job of that type is updated so"},
	{"update max_parallel must not be", "update canary needs", "less than none is not none"},
	{"update canary needs", "update auto_promote requires", "one has canaries, the other has none"},
	{"need count = 1", "type must be csi or host", "volumes of no type have no ways to use them"},
	{"need count = 1", "must have an access mode", "it follows from the access mode"},
	{"constraint 1: unknown operator", "regular expression failed", "it follows from the operator"},
	{"constraint 1: unknown operator", "operator \"regexp\" requires", "it follows from the operator"},
	{"size of ephemeral_disk", "log storage (", "such a disk has room for the logs"},
	{"restart mode must be", "restart policy \"delay\"", "it is the mode that is ambiguous"},
	{"can't restart 1000 times", "restart attempts and delay must not be", "no time is shorter than that delay"},
	{"reschedule delay_function", "do not fit into the interval", "it follows from the function"},
	{"reschedule policy with unlimited", "reschedule interval", "without a limit no interval counts"},
	{"reschedule policy with unlimited", "do not fit into the interval", "without a limit no interval counts"},
	{"volume \"data\": missing source", "plugin \"nobody\"", "what has no name is not made"},
	{"volume \"data\": missing source", "capacity_max (5 B)", "what has no name is not made"},
	{"source \"../x\"", "plugin \"nobody\"", "what has no name is not made"},
	{"source \"../x\"", "capacity_max (5 B)", "what has no name is not made"},
	{"type must be csi or host", "source \"../x\"", "what it may be follows from the type"},
	{"type must be csi or host", "must have an access mode", "host volumes have none"},
	{"type must be csi or host", "volumes must be read_only", "host volumes have no access mode"},
	{"type must be csi or host", "must have an attachment mode", "host volumes have none"},
	{"type must be csi or host", "block devices cannot", "host volumes have no attachment mode"},
	{"type must be csi or host", "plugin \"nobody\"", "host volumes are made by no plugin"},
	{"type must be csi or host", "capacity_max (5 B)", "host volumes are made by no plugin"},
	{"missing task driver", "config.", "what it takes is the driver's to say"},
	{"missing task driver", "has no option", "what it takes is the driver's to say"},
	{"missing task driver", "there is no signal", "which there are is said by the nodes with the driver"},
	{"minimum MemoryMB", "memory_max (5)", "it is more than that memory"},
	{"max_files and max_file_size", "log storage (", "no files have no size"},
	{"change_mode must be restart", "environment templates", "it follows from the mode"},
	{"the namespace \"berth\"", "the plugin id \"local-csi\"", "there that id is nobody else's"},
}

// everyBlock is a job with one of every block that is built, and two of what rules compare.
func everyBlock() *api.Job {
	j := samplejob.New()
	j.Affinities = []*api.Affinity{{LTarget: "${node.class}", RTarget: "big", Operand: "="}}
	g := j.TaskGroups[0]
	g.Constraints = []*api.Constraint{{LTarget: "${attr.os.name}", RTarget: "deb.*", Operand: "regexp"}}
	g.RestartPolicy = &api.RestartPolicy{
		Attempts: new(2),
		Interval: new(time.Minute),
		Delay:    new(10 * time.Second),
		Mode:     new("delay"),
	}
	g.ReschedulePolicy = &api.ReschedulePolicy{
		Attempts:      new(2),
		Interval:      new(time.Hour),
		Delay:         new(10 * time.Second),
		DelayFunction: new("constant"),
		Unlimited:     new(false),
	}
	g.Update = &api.UpdateStrategy{HealthCheck: new("task_states")}
	g.EphemeralDisk = &api.EphemeralDisk{SizeMB: new(300)}
	g.Volumes["data"].Create = &api.VolumeCreate{PluginID: "disk", CapacityMin: 10, CapacityMax: 20}
	g.Volumes["certs"] = &api.VolumeRequest{Type: "host", Source: "certs"}
	t := g.Tasks[0]
	t.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", RTarget: "r1", Operand: "="}}
	t.VolumeMounts[0].PropagationMode = new("private")
	t.Templates[0].Perms = new("0644")
	t.CSIPluginConfig.MountDir = "/csi"
	g.Tasks = append(g.Tasks, &api.Task{
		Name:         "helper",
		Driver:       "exec",
		Config:       map[string]any{"command": "/bin/y"},
		Templates:    []*api.Template{{EmbeddedTmpl: new("y"), DestPath: new("local/y")}},
		VolumeMounts: []*api.VolumeMount{{Volume: new("certs"), Destination: new("/certs")}},
	})
	return j
}

// mistakes are those of each rule of the surface, of what is not built, of the bounds, and of what the servers find.
var mistakes = slices.Concat(ofTheJob, ofTheGroup, ofItsPolicies, ofItsVolumes, ofTheTask, ofItsFiles)

var ofTheJob = []*mistake{
	{"id", `job ID "a b"`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.ID = new("a b") }},
	{"name", "job name must not be empty", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Name = new("") }},
	{"type", `invalid job type: "cron"`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Type = new("cron") }},
	{"type", "system jobs may not have affinity", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Type = new("system")
	}},
	{"type", "system jobs should not have a reschedule", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Type = new("system")
	}},
	{"type", `job type "batch" does not support update`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Type = new("batch")
	}},
	{"region", "No path to region", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Region = new("mars") }},
	{"namespace", `the namespace "berth" holds`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Namespace = new("berth")
	}},
	{"namespace", `namespace "nowhere" does not exist`, func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Namespace = new("nowhere")
	}},
	{"namespace", "it names no namespace", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Namespace = new("*") }},
	{"priority", "between 1 and 100", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.Priority = new(500) }},
	{"all_at_once", "all_at_once", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.AllAtOnce = new(true) }},
	{"ui", "ui", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.UI = &api.JobUIConfig{} }},
	{"datacenters", "datacenter must be non-empty", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Datacenters = []string{"*", ""}
	}},
	{"datacenters", "number of datacenters 1001", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Datacenters = slices.Repeat([]string{"*"}, 1001)
	}},
	{"constraints", "number of constraints 100", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Constraints = slices.Repeat(j.Constraints, 1001)
	}},
	{"affinity/weight", "affinity 1 needs an attribute and a weight", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.Affinities[0].Weight = new(int8(0))
	}},
	{"groups", "missing job task groups", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) { j.TaskGroups = nil }},
	{"groups/null", "TaskGroups[0] is null", func(j *api.Job, _ *api.TaskGroup, _ *api.Task) {
		j.TaskGroups = slices.Insert(j.TaskGroups, 0, nil)
	}},
	{"groups/name/second", `group "g" is defined twice`, func(j *api.Job, g *api.TaskGroup, _ *api.Task) {
		j.TaskGroups = slices.Insert(j.TaskGroups, 1, &api.TaskGroup{Name: g.Name, Tasks: []*api.Task{{
			Name:   "t",
			Driver: "exec",
			Config: map[string]any{"command": "/bin/z"},
		}}})
	}},
}

var ofTheGroup = []*mistake{
	{"groups/name", `group "a/b": name`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Name = "a/b" }},
	{"groups/count", "count must not be negative",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Count = new(-1) }},
	{"groups/count", "need count = 1, the count is 2", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Count = new(2)
	}},
	{"groups/count", "count 2000000000 exceeds the bound", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Count = new(2_000_000_000)
	}},
	{"groups/constraint/operator", `constraint 1: unknown operator "~"`,
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Constraints[0].Operand = "~" }},
	{"groups/constraint/attribute", "constraint 1: no attribute", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Constraints[0].LTarget = ""
	}},
	{"groups/constraint/attribute", `attribute "$node" must be written`,
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Constraints[0].LTarget = "$node" }},
	{"groups/constraint/value", "regular expression failed", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Constraints[0].RTarget = "("
	}},
	{"groups/constraint/value", `operator "regexp" requires a value`,
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Constraints[0].RTarget = "" }},
	{"groups/spread/weight", "spread 1 needs an attribute", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Spreads[0].Weight = new(int8(0))
	}},
	{"groups/spread/percent", "sum to 120, more than 100", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Spreads[0].SpreadTarget[0].Percent = 120
	}},
	{"groups/spread/target", `target "dc1" is there twice`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Spreads[0].SpreadTarget = append(g.Spreads[0].SpreadTarget, &api.SpreadTarget{Value: "dc1"})
	}},
	{"groups/spread/null", "Spreads[1] is null", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Spreads = append(g.Spreads, nil)
	}},
	{"groups/disk/size", "ephemeral_disk size must be at least", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.EphemeralDisk.SizeMB = new(1)
	}},
	{"groups/disk/size", "size of ephemeral_disk 2147483648 exceeds", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.EphemeralDisk.SizeMB = new(1 << 31)
	}},
	{"groups/disk/sticky", "ephemeral_disk sticky", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.EphemeralDisk.Sticky = new(true)
	}},
	{"groups/networks", "only one network block", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks = append(g.Networks, &api.NetworkResource{})
	}},
	{"groups/network/mode", "network mode", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].Mode = "brigde"
	}},
	{"groups/network/to", "to must be a port", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].ReservedPorts[0].To = 70000
	}},
	{"groups/network/hostname", "network hostname", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].Hostname = "-web"
	}},
	{"groups/network/dns", "is no IP address", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].DNS = &api.DNSConfig{Servers: []string{"ns.example"}}
	}},
	{"groups/network/port", "70000 is not between", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].ReservedPorts[0].Value = 70000
	}},
	{"groups/network/label", `port label "db" is empty or used twice`,
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].DynamicPorts[0].Label = "db" }},
	{"groups/network/collision", "is for a port that is chosen by the job",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Networks[0].DynamicPorts[0].IgnoreCollision = true }},
	{"groups/network/ports", "static port 9 is asked for by", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, api.Port{Label: "x", Value: 9},
			api.Port{Label: "y", Value: 9})
	}},
	{"groups/service", "service", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Services = []*api.Service{{Connect: &api.ConsulConnect{}}}
	}},
}

var ofItsPolicies = []*mistake{
	{"groups/restart/mode", "restart mode must be delay or fail", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.RestartPolicy.Mode = new("never")
	}},
	{"groups/restart/attempts", "restart attempts and delay must not be",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.RestartPolicy.Attempts = new(-1)
		}},
	{"groups/restart/attempts", "can't restart 1000 times", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.RestartPolicy.Attempts = new(1000)
	}},
	{"groups/restart/attempts", `restart policy "delay" with 0 attempts`,
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.RestartPolicy.Attempts = new(0) }},
	{"groups/restart/interval", "restart interval can not be less", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.RestartPolicy.Interval = new(time.Second)
	}},
	{"groups/restart/delay", "restart attempts and delay must not be", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.RestartPolicy.Delay = new(-time.Second)
	}},
	{"groups/reschedule/function", "reschedule delay_function", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.ReschedulePolicy.DelayFunction = new("linear")
	}},
	{"groups/reschedule/delay", "reschedule delay cannot be less", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.ReschedulePolicy.Delay = new(time.Second)
	}},
	{"groups/reschedule/unlimited", "reschedule policy with unlimited attempts",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.ReschedulePolicy.Unlimited = new(true) }},
	{"groups/reschedule/interval", "reschedule interval cannot be less",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.ReschedulePolicy.Interval = new(time.Second) }},
	{"groups/reschedule/attempts", "do not fit into the interval", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.ReschedulePolicy.Attempts = new(10_000)
	}},
	{"groups/update/max", "update max_parallel must not be", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.MaxParallel = new(-1)
	}},
	{"groups/update/check", "update health_check must be", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.HealthCheck = new("looks")
	}},
	{"groups/update/min", "update min_healthy_time must not be negative",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.MinHealthyTime = new(-time.Second) }},
	{"groups/update/min", "update min_healthy_time (1h0m0s) must be less",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.MinHealthyTime = new(time.Hour) }},
	{"groups/update/progress", "less than progress_deadline", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.ProgressDeadline = new(time.Minute)
	}},
	{"groups/update/canary", "update canary must not be negative", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.Canary = new(-1)
	}},
	{"groups/update/canary", "update canary needs max_parallel", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Update.Canary, g.Update.MaxParallel = new(1), new(0)
	}},
	{"groups/update/auto_promote", "update auto_promote requires canary",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Update.AutoPromote = new(true) }},
}

var ofItsVolumes = []*mistake{
	{"groups/volume/source", `volume "data": missing source`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].Source = ""
	}},
	{"groups/volume/source", `source "../x"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].Source = "../x"
	}},
	{"groups/volume/type", `type must be csi or host, is "nfs"`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].Type = "nfs"
	}},
	{"groups/volume/access", "must have an access mode", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AccessMode = "rw"
	}},
	{"groups/volume/access", "volumes must be read_only", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AccessMode = "single-node-reader-only"
	}},
	{"groups/volume/attachment", "must have an attachment mode", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].AttachmentMode = "tape"
	}},
	{"groups/volume/attachment", "block devices cannot have mount options",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].AttachmentMode = "block-device" }},
	{"groups/volume/sticky", `: sticky is not built`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].Sticky = true
	}},
	{"groups/volume/create/plugin", `plugin "nobody" is not known`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Volumes["data"].Create.PluginID = "nobody"
	}},
	{"groups/volume/create/capacity", "capacity_max (5 B) must be at least",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Volumes["data"].Create.CapacityMax = 5 }},
	{"groups/host volume/options", "host volumes cannot have mount_options",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Volumes["certs"].MountOptions = &api.CSIMountOptions{}
		}},
	{"groups/host volume/create", "host volumes cannot have a create block",
		func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
			g.Volumes["certs"].Create = &api.VolumeCreate{PluginID: "disk"}
		}},
}

var ofTheTask = []*mistake{
	{"groups/tasks", "missing tasks", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) { g.Tasks = nil }},
	{"groups/tasks/name", `task "../t": name`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = "../t" }},
	{"groups/tasks/name", "is taken by the", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Name = "alloc" }},
	{"groups/tasks/driver", "missing task driver", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Driver = "" }},
	{"groups/tasks/kill_timeout", "kill_timeout and shutdown_delay", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.KillTimeout = new(-time.Second)
	}},
	{"groups/tasks/lifecycle", "lifecycle hook must be", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Lifecycle.Hook = "mid"
	}},
	{"groups/tasks/leader", "only one task may be marked as leader", func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Tasks[1].Leader = true
	}},
	{"groups/tasks/cpu", "minimum CPU value",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.CPU = new(0) }},
	{"groups/tasks/cpu", "cpu 2147483648 exceeds", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.CPU = new(1 << 31)
	}},
	{"groups/tasks/cpu", "cpu and cores cannot both",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.Cores = new(1) }},
	{"groups/tasks/cpu", "cores (-1) must be between", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.CPU, t.Resources.Cores = nil, new(-1)
	}},
	{"groups/tasks/cpu", "affinity must be none, prefer or require",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Resources.NUMA = &api.NUMAResource{Affinity: "near"}
		}},
	{"groups/tasks/cpu", "set cores, or leave it out",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.Resources.NUMA = &api.NUMAResource{Affinity: "require"}
		}},
	{"groups/tasks/memory", "minimum MemoryMB", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.MemoryMB = new(1)
	}},
	{"groups/tasks/memory", "memory 4611686018427387904 exceeds", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.MemoryMB = new(1 << 62)
	}},
	{"groups/tasks/memory_max", "memory_max (5) must be at least", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Resources.MemoryMaxMB = new(5)
	}},
	{"groups/tasks/pids", "pids (-1)", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Resources.PIDs = -1 }},
	{"groups/tasks/logs/files", "max_files and max_file_size must be", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.LogConfig.MaxFiles = new(0)
	}},
	{"groups/tasks/logs/files", "max_files of logs 4294967296 exceeds",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
			t.LogConfig.MaxFiles = new(1 << 32)
		}},
	{"groups/tasks/logs/size", "log storage (", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.LogConfig.MaxFileSizeMB = new(5000)
	}},
	{"groups/tasks/constraint/operator", "distinct_property is not allowed at task level",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Constraints[0].Operand = "distinct_property" }},
	{"groups/tasks/constraint/attribute", `attribute "$meta" must be`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Constraints[0].LTarget = "$meta"
	}},
	{"groups/tasks/user", "user contains NUL",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.User = "no\x00body" }},
	{"groups/tasks/user", `user "../x": character '/' is not allowed`,
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.User = "../x" }},
	{"groups/tasks/meta", `meta "a" contains NUL`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Meta = map[string]string{"a": "\x00"}
	}},
	{"groups/tasks/other user", `user "games": no ready node`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Tasks[1].User = "games"
	}},
	{"groups/tasks/env/A", `env "A" contains NUL`,
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Env["A"] = "\x00" }},
	{"groups/tasks/env/B", `variable "B"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Env["B"] = strings.Repeat("x", 140_000)
	}},
	{"groups/tasks/env/C", `variable "C"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Env["C"] = strings.Repeat("x", 140_000)
	}},
	{"groups/tasks/config/command", "config.command: the driver", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		delete(t.Config, "command")
	}},
	{"groups/tasks/config/args", "config.args: the driver", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Config["args"] = "-a"
	}},
	{"groups/tasks/config/commnd", `has no option "commnd"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Config["commnd"] = "x"
	}},
	{"groups/tasks/kill_signal", `there is no signal "SIGBAR"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.KillSignal = "SIGBAR"
	}},
	{"groups/tasks/artifact", "artifact", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Artifacts = []*api.TaskArtifact{{}}
	}},
	{"groups/tasks/plugin/id", `csi_plugin id "a/b"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.CSIPluginConfig.ID = "a/b"
	}},
	{"groups/tasks/plugin/id", `the plugin id "local-csi" is`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.CSIPluginConfig.ID = "local-csi"
	}},
	{"groups/tasks/plugin/type", "csi_plugin type must be", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.CSIPluginConfig.Type = "both"
	}},
	{"groups/tasks/plugin/dir", `csi_plugin mount_dir "csi" is not absolute`,
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.MountDir = "csi" }},
	{"groups/tasks/plugin/base", `csi_plugin stage_publish_base_dir "local" is not absolute`,
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.StagePublishBaseDir = "local" }},
	{"groups/tasks/plugin/more calls than anybody makes", "csi_plugin max_parallel must be between 1 and 256, is 257",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.CSIPluginConfig.MaxParallel = 257 }},
	{"groups/tasks/plugin/scope", "csi_plugin controller_scope", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.CSIPluginConfig.ControllerScope = "rack"
	}},
	{"groups/tasks/plugin/timeout", "csi_plugin health_timeout", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.CSIPluginConfig.HealthTimeout = time.Millisecond
	}},
}

var ofItsFiles = []*mistake{
	{"groups/tasks/mount/volume", `names volume "other"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.VolumeMounts[0].Volume = new("other")
	}},
	{"groups/tasks/mount/volume", "volume_mount 0 needs volume", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.VolumeMounts[0].Volume = nil
	}},
	{"groups/tasks/mount/propagation", "propagation_mode must be", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.VolumeMounts[0].PropagationMode = new("all")
	}},
	{"groups/tasks/mount/destination", `nothing can be mounted at "/proc/x"`,
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.VolumeMounts[0].Destination = new("/proc/x") }},
	{"groups/tasks/mounts", `destination "/certs" is used twice`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Tasks[1].VolumeMounts = append(g.Tasks[1].VolumeMounts, g.Tasks[1].VolumeMounts[0])
	}},
	{"groups/tasks/template/data", "write the text as data", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].EmbeddedTmpl = new("")
	}},
	{"groups/tasks/template/data", `function "nosuch"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].EmbeddedTmpl = new("{{ nosuch }}")
	}},
	{"groups/tasks/template/destination", "template 1: missing destination",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Templates[0].DestPath = new("") }},
	{"groups/tasks/template/destination", "leaves the task's directory",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Templates[0].DestPath = new("../x") }},
	{"groups/tasks/template/destination", "is no file in the task's directories",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Templates[0].DestPath = new("/etc/x") }},
	{"groups/tasks/template/mode", "change_mode must be restart", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].ChangeMode = new("shout")
	}},
	{"groups/tasks/template/signal", `there is no signal "SIGFOO"`, func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].ChangeSignal = new("SIGFOO")
	}},
	{"groups/tasks/template/env", "environment templates can't be updated",
		func(_ *api.Job, _ *api.TaskGroup, t *api.Task) { t.Templates[0].Envvars = new(true) }},
	{"groups/tasks/template/perms", "perms must be octal", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].Perms = new("rwx")
	}},
	{"groups/tasks/template/data", "it has both source and data", func(_ *api.Job, _ *api.TaskGroup, t *api.Task) {
		t.Templates[0].SourcePath = new("local/z")
	}},
	{"groups/tasks/templates", `destination "local/y" is used twice`, func(_ *api.Job, g *api.TaskGroup, _ *api.Task) {
		g.Tasks[1].Templates = append(g.Tasks[1].Templates, g.Tasks[1].Templates[0])
	}},
}
