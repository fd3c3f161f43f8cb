package jobrules

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/base/pattern"
	"berth/internal/httpapi/jobrules/devicerules"
	"berth/internal/httpapi/jobrules/identities"
	"berth/internal/httpapi/jobrules/mesh"
	"berth/internal/httpapi/jobrules/secrets"
	"berth/internal/model/cores"
	"berth/internal/model/job"
)

// within is an amount that is none of those that are refused for themselves.
func within(n int, b job.Bound) int { return min(max(n, 0), b.Max) }

var types = []string{job.TypeService, job.TypeBatch, job.TypeSystem, job.TypeSysBatch}

// Validate checks a canonical job against the rules of the jobspec and lists every finding, each naming its place: no
// rule stands behind another one, unless what that one refuses leaves it without a meaning.
func Validate(j *api.Job) []error {
	c := &checker{errs: nulls(j)}
	if err := ids.ValidJob(*j.ID); err != nil {
		c.addf("job ID %q: %s", shorten(*j.ID), err)
	}
	if *j.Name == "" || strings.ContainsRune(*j.Name, 0) {
		c.addf("job name must not be empty or contain NUL")
	}
	if !slices.Contains(types, *j.Type) {
		c.addf("invalid job type: %q; use service, batch, system or sysbatch", *j.Type)
	}
	if *j.Priority < 1 || *j.Priority > 100 {
		c.addf("job priority must be between 1 and 100, is %d", *j.Priority)
	}
	if slices.Contains(j.Datacenters, "") {
		c.addf("job datacenter must be non-empty string")
	}
	c.pairs("job", "meta", j.Meta)
	c.launches(j)
	c.constraints("job", j.Constraints, false)
	c.affinities("job", *j.Type, j.Affinities, j.Spreads)
	if len(j.TaskGroups) == 0 {
		c.addf("missing job task groups: write at least one group block")
	}
	if job.RunsToEnd(*j.Type) && j.Update != nil {
		c.addf("job type %q does not support update block", *j.Type)
	}
	seen := map[string]bool{}
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		if seen[g.Name] {
			c.addf("group %q is defined twice", g.Name)
		}
		seen[g.Name] = true
		c.group(j, g)
	}
	return c.errs
}

type checker struct {
	errs     []error
	patterns int // regular expressions so far
}

func (c *checker) addf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) group(j *api.Job, g *api.TaskGroup) {
	at := fmt.Sprintf("group %q", shorten(g.Name))
	if err := ids.ValidTask(g.Name); err != nil {
		c.addf("%s: name: %s", at, err)
	}
	if *g.Count < 0 {
		c.addf("%s: count must not be negative, is %d", at, *g.Count)
	}
	if job.OnEveryNode(*j.Type) {
		c.onEveryNode(at, *j.Type, g)
	} else { // of such a job's nothing is filled in
		c.reschedule(at, g.ReschedulePolicy)
	}
	c.pairs(at, "meta", g.Meta)
	c.constraints(at, g.Constraints, false)
	c.affinities(at, *j.Type, g.Affinities, g.Spreads)
	c.restart(at, g.RestartPolicy)
	c.update(at, *j.Type, g.Update)
	c.scaling(j, g, at)
	c.disconnect(at, *j.Type, g)
	if d := g.MaxRunDuration; d != nil && !job.RunsToEnd(*j.Type) {
		c.addf("%s: max_run_duration is for batch and sysbatch jobs; a %s job is meant to run on", at, *j.Type)
	} else if d != nil && *d <= 0 {
		c.addf("%s: max_run_duration must be greater than zero, is %s", at, *d)
	}
	if *g.EphemeralDisk.SizeMB < 10 {
		c.addf("%s: ephemeral_disk size must be at least 10 MB, is %d", at, *g.EphemeralDisk.SizeMB)
	}
	c.networks(at, g)
	c.volumes(at, *j.Type, g)
	c.services(at, g)
	for _, why := range mesh.Problems(j, g) {
		c.addf("%s: %s", at, why)
	}
	c.tasks(at, j, g)
}

func (c *checker) onEveryNode(at, jobType string, g *api.TaskGroup) {
	if *g.Count > 1 {
		c.addf("%s: job type %q runs one instance per node; count must be 0 or 1, is %d", at, jobType, *g.Count)
	}
	if g.ReschedulePolicy != nil {
		c.addf("%s: %s jobs should not have a reschedule policy", at, jobType)
	}
}

func (c *checker) tasks(at string, j *api.Job, g *api.TaskGroup) {
	if len(g.Tasks) == 0 {
		c.addf("%s: missing tasks: write at least one task block", at)
	}
	seen := map[string]bool{}
	leaders := 0
	var logs logSizes
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		if seen[t.Name] {
			c.addf("%s: task %q is defined twice", at, t.Name)
		}
		seen[t.Name] = true
		if t.Leader {
			leaders++
		}
		logs.add(t)
		c.task(fmt.Sprintf("%s: task %q", at, shorten(t.Name)), j, g, t)
	}
	if leaders > 1 {
		c.addf("%s: only one task may be marked as leader", at)
	}
	if logs.sum >= *g.EphemeralDisk.SizeMB {
		c.addf("%s: log storage (%d MB) must be less than requested disk capacity (%d MB): %s; raise the size of "+
			"ephemeral_disk above %d, or lower max_files or max_file_size in logs of a task", at, logs.sum,
			*g.EphemeralDisk.SizeMB, &logs, logs.sum)
	}
}

// logSizes is how much is kept of what the tasks of a group write, in MB.
type logSizes struct {
	sum   int
	tasks []string
	more  int // tasks beyond those that are named
}

// maxLogsNamed bounds a sentence.
const maxLogsNamed = 8

// add counts a task. What is beyond a bound is said of it, and must not make a sum overflow.
func (l *logSizes) add(t *api.Task) {
	mb := within(*t.LogConfig.MaxFiles, job.MaxLogFiles) * within(*t.LogConfig.MaxFileSizeMB, job.MaxMiB)
	l.sum = min(math.MaxInt/2, l.sum+mb)
	switch {
	case len(l.tasks) == maxLogsNamed:
		l.more++
	case len(l.tasks) == 0:
		l.tasks = append(l.tasks, fmt.Sprintf("task %q keeps %d MB", shorten(t.Name), mb))
	default:
		l.tasks = append(l.tasks, fmt.Sprintf("task %q %d MB", shorten(t.Name), mb))
	}
}

func (l *logSizes) String() string {
	said := strings.Join(l.tasks, ", ")
	if l.more > 0 {
		said += fmt.Sprintf(" and %d more", l.more)
	}
	return cmp.Or(said, "no task keeps any")
}

func (c *checker) task(at string, j *api.Job, g *api.TaskGroup, t *api.Task) {
	if err := ids.ValidTask(t.Name); err != nil {
		c.addf("%s: name: %s", at, err)
	}
	if t.Driver == "" {
		c.addf("%s: missing task driver", at)
	}
	if *t.KillTimeout < 0 || t.ShutdownDelay < 0 {
		c.addf("%s: kill_timeout and shutdown_delay must not be negative", at)
	}
	if l := t.Lifecycle; l != nil && !slices.Contains([]string{"prestart", "poststart", "poststop"}, l.Hook) {
		c.addf("%s: lifecycle hook must be prestart, poststart or poststop, is %q", at, l.Hook)
	}
	c.resources(at, t.Resources)
	c.devices(at, *j.Type, t.Resources.Devices)
	if *t.LogConfig.MaxFiles < 1 || *t.LogConfig.MaxFileSizeMB < 1 {
		c.addf("%s: logs: max_files and max_file_size must be at least 1", at)
	}
	c.constraints(at, t.Constraints, true)
	c.affinities(at, *j.Type, t.Affinities, nil)
	c.restart(at, t.RestartPolicy)
	c.mounts(at, g, t)
	c.templates(at, t)
	c.artifacts(at, t)
	identities.Checker(c.addf).Task(at, g, t)
	secrets.Checker(c.addf).Task(at, j, g, t)
	c.texts(at, t)
	c.plugin(at, j, t.CSIPluginConfig)
}

func (c *checker) resources(at string, r *api.Resources) {
	c.processors(at, r)
	if *r.MemoryMB < 10 {
		c.addf("%s: minimum MemoryMB value is 10; got %d", at, *r.MemoryMB)
	}
	if *r.MemoryMaxMB != 0 && *r.MemoryMaxMB != -1 && *r.MemoryMaxMB < *r.MemoryMB {
		c.addf("%s: memory_max (%d) must be at least memory (%d), or -1", at, *r.MemoryMaxMB, *r.MemoryMB)
	}
	if r.PIDs < 0 || r.PIDs > job.MaxPIDs {
		c.addf("%s: pids (%d) must be between 1 and %d", at, r.PIDs, job.MaxPIDs)
	}
}

func (c *checker) processors(at string, r *api.Resources) {
	switch asked := *r.Cores; {
	case asked < 0 || asked > cores.Max:
		c.addf("%s: cores (%d) must be between 1 and %d", at, asked, cores.Max)
	case asked > 0 && *r.CPU > 0:
		c.addf("%s: cpu and cores cannot both be asked for: whole cores stand for their MHz; leave one of them out", at)
	case asked == 0 && *r.CPU < 1:
		c.addf("%s: minimum CPU value is 1; got %d", at, *r.CPU)
	}
	if r.NUMA == nil {
		return
	}
	if !slices.Contains(cores.Affinities, r.NUMA.Affinity) {
		c.addf("%s: numa: affinity must be none, prefer or require, is %q", at, r.NUMA.Affinity)
	}
	if *r.Cores == 0 && r.NUMA.Affinity != cores.AffinityNone {
		c.addf("%s: numa: it says how near to each other whole cores are; set cores, or leave it out", at)
	}
}

// devices judges what a task asks for of its node's devices.
func (c *checker) devices(at, jobType string, list []*api.RequestedDevice) {
	if len(list) > devicerules.MaxDevices {
		c.addf("%s: it has %d device blocks, and %d is the most", at, len(list), devicerules.MaxDevices)
		return
	}
	for _, d := range list {
		if d == nil {
			continue
		}
		here := fmt.Sprintf("%s: device %q", at, d.Name)
		problems, many := devicerules.Problems(d)
		for _, text := range problems {
			c.addf("%s: %s", here, text)
		}
		if !many {
			c.constraints(here, d.Constraints, true)
			c.affinities(here, jobType, d.Affinities, nil)
		}
	}
}

func (c *checker) mounts(at string, g *api.TaskGroup, t *api.Task) {
	dests := map[string]bool{}
	for i, vm := range t.VolumeMounts {
		if vm == nil {
			continue
		}
		if vm.Volume == nil || vm.Destination == nil || *vm.Destination == "" {
			c.addf("%s: volume_mount %d needs volume and destination", at, i)
		}
		volume := fmt.Sprint(i)
		if vm.Volume != nil {
			if volume = strconv.Quote(*vm.Volume); g.Volumes[*vm.Volume] == nil {
				c.addf("%s: volume_mount names volume %s, which the group does not have", at, volume)
			}
		}
		if !slices.Contains([]string{"", "private", "host-to-task", "bidirectional"}, *vm.PropagationMode) {
			c.addf("%s: volume_mount %s: propagation_mode must be private, host-to-task or bidirectional, is %q", at,
				volume, *vm.PropagationMode)
		}
		if vm.Destination == nil || *vm.Destination == "" {
			continue
		}
		dest := path.Join("/", *vm.Destination)
		if !strings.Contains(*vm.Destination, "${") && job.Unmountable(*vm.Destination) {
			c.addf("%s: volume_mount %s: nothing can be mounted at %q in a task; choose another path than /, /proc "+
				"and /sys, such as \"/data\"", at, volume, *vm.Destination)
		} else if dests[dest] {
			c.addf("%s: volume_mount %s: destination %q is used twice; each needs a path of its own", at, volume,
				*vm.Destination)
		}
		dests[dest] = true
	}
}

var perms = pattern.Of(`^0?[0-7]{3,4}$`)

func (c *checker) templates(at string, t *api.Task) {
	dests := map[string]bool{}
	for i, tm := range t.Templates {
		if tm == nil {
			continue
		}
		here := fmt.Sprintf("%s: template %d", at, i+1)
		c.templateFiles(here, tm)
		if dest := *tm.DestPath; dest == "" {
			c.addf("%s: missing destination", here)
		} else {
			if dests[dest] {
				c.addf("%s: destination %q is used twice", here, dest)
			}
			dests[dest] = true
			c.destination(here, dest)
		}
		if !slices.Contains([]string{"restart", "signal", "script", "noop"}, *tm.ChangeMode) {
			c.addf("%s: change_mode must be restart, signal, script or noop, is %q", here, *tm.ChangeMode)
		}
		if *tm.ChangeMode == "signal" && *tm.Envvars {
			c.addf("%s: environment templates can't be updated by a signal; use restart or noop", here)
		}
		if !perms().MatchString(*tm.Perms) {
			c.addf("%s: perms must be octal, are %q", here, *tm.Perms)
		}
	}
}

// destination refuses a file that is not the task's own.
func (c *checker) destination(at, dest string) {
	if slices.Contains(strings.Split(dest, "/"), "..") {
		c.addf("%s: destination %q leaves the task's directory", at, dest)
	} else if (&job.Template{DestPath: dest}).Astray() {
		c.addf("%s: destination %q is no file in the task's directories; begin it with local/, secrets/ or alloc/", at,
			dest)
	}
}

func (c *checker) plugin(at string, j *api.Job, p *api.TaskCSIPluginConfig) {
	if p == nil {
		return
	}
	if err := ids.ValidName(p.ID); err != nil {
		c.addf("%s: csi_plugin id %q: %s", at, shorten(p.ID), err)
	}
	if !slices.Contains([]string{"node", "controller", "monolith"}, p.Type) {
		c.addf("%s: csi_plugin type must be one of 'node', 'controller', or 'monolith', got %q", at, p.Type)
	}
	for _, dir := range [][3]string{
		{"mount_dir", p.MountDir, "/csi"},
		{"stage_publish_base_dir", p.StagePublishBaseDir, "/local/csi"},
	} {
		if wrong := badMountDir(dir[1]); wrong != "" {
			c.addf("job %q, %s: csi_plugin %s %q %s; write an absolute path of the plugin's own, such as %q",
				shorten(*j.ID), at, dir[0], shorten(dir[1]), wrong, dir[2])
		}
	}
	// What is mounted second at or over a path hides the first, and with mount_dir the plugin's socket.
	if beneath(p.MountDir, p.StagePublishBaseDir) {
		c.addf("%s: csi_plugin mount_dir %q must not contain stage_publish_base_dir %q", at, p.MountDir,
			p.StagePublishBaseDir)
	} else if beneath(p.StagePublishBaseDir, p.MountDir) {
		c.addf("%s: csi_plugin stage_publish_base_dir %q must not contain mount_dir %q", at, p.StagePublishBaseDir,
			p.MountDir)
	}
	if p.ControllerScope != "cluster" && p.ControllerScope != "node" {
		c.addf("%s: csi_plugin controller_scope must be cluster or node, is %q", at, p.ControllerScope)
	}
	if p.MaxParallel < 0 || p.MaxParallel > job.MaxCallsAtOnce {
		c.addf("%s: csi_plugin max_parallel must be between 1 and %d, is %d", at, job.MaxCallsAtOnce, p.MaxParallel)
	}
	if p.HealthTimeout < time.Second {
		c.addf("%s: csi_plugin health_timeout must be at least 1s", at)
	}
}

// beneath reports whether a path is a directory, or lies in it.
func beneath(dir, path string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(dir, "/")+"/")
}

// badMountDir says what keeps a directory of the plugin's from being mounted at a path in the task.
func badMountDir(dir string) string {
	switch {
	case strings.ContainsRune(dir, 0):
		return "contains NUL"
	case !path.IsAbs(dir):
		return "is not absolute"
	case slices.Contains(strings.Split(dir, "/"), ".."):
		return `contains ".."`
	case path.Clean(dir) == "/":
		return "is the root of the task"
	case path.Clean(dir) != dir:
		return fmt.Sprintf("is not clean: it means %q", shorten(path.Clean(dir)))
	case job.Unmountable(dir):
		return "is where nothing can be mounted"
	}
	return ""
}

func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
