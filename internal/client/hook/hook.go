// Package hook is the contract between the runners and the hooks of allocs and tasks: short, blocking, goroutine-free
// steps at the start and the end. A hook declares a want, waits for it and hands the result on; what outlives the alloc
// belongs to a keeper.
package hook

import (
	"context"
	"strings"

	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Hook has a name, for events and logs.
type Hook interface{ Name() string }

// Prerunner runs before the first task of an alloc starts, in order, and again after an agent restart: hooks are
// idempotent and return at once when their work is verified. An error of kind NotReady (or the end of ctx) is waiting
// and never a failure; Invalid, Unsupported and Denied fail the alloc; anything else is retried with a growing pause.
type Prerunner interface {
	Hook
	Prerun(ctx context.Context, a *Alloc) error
}

// Waiter is a hook that waits for something else than storage.
type Waiter interface {
	// WaitingEvent is the type of the events that say so.
	WaitingEvent() string
}

// Postrunner runs when every task's processes are proven gone, in reverse order, also for hooks whose Prerun failed.
// The runner repeats it with a growing pause until it succeeds; the alloc is not reported complete or failed before.
type Postrunner interface {
	Hook
	Postrun(ctx context.Context, a *Alloc) error
}

// Alloc is what an alloc hook sees.
type Alloc struct {
	Alloc  *alloc.Alloc // frozen
	Job    *job.Job     // frozen
	Group  *job.TaskGroup
	Dir    string // the alloc's directory on the node
	Mounts *Mounts
	// Network is the alloc's network, once it is made.
	Network *Network
	// Interpolate replaces ${…} by what is the same for all tasks of the alloc, up to job.MaxExpanded.
	Interpolate func(string) (string, error)
	// Driver describes a task's driver as it is on this node.
	Driver func(name string) (driver.Info, error)
	// Emit adds an event to every task of the alloc.
	Emit func(*alloc.TaskEvent)
	// Restored: the alloc's tasks may be running already (the agent restarted).
	Restored bool
}

// Prestarter runs before each start of a task (restarts too), in order, and after an agent restart with Restored set.
type Prestarter interface {
	Hook
	Prestart(ctx context.Context, t *Task) error
}

// Poststarter runs when the task's process runs.
type Poststarter interface {
	Hook
	Poststart(ctx context.Context, t *Task) error
}

// Leaver runs before a task that runs is sent its first signal, and before its shutdown_delay: whoever sends requests
// there hears that it ends. It does not keep the task from ending.
type Leaver interface {
	Hook
	Leave(ctx context.Context, t *Task)
}

// Exiter runs after each exit of the task's process, before a restart is considered.
type Exiter interface {
	Hook
	Exited(ctx context.Context, t *Task) error
}

// Stopper runs once, when the task will not start again.
type Stopper interface {
	Hook
	Stop(ctx context.Context, t *Task) error
}

// Updater runs when the servers changed the alloc in place while the task runs.
type Updater interface {
	Hook
	Updated(ctx context.Context, t *Task) error
}

// Task is what a task hook sees. Output members are collected anew at each Prestart round.
type Task struct {
	Alloc      *alloc.Alloc
	Job        *job.Job
	Group      *job.TaskGroup
	Task       *job.Task
	User       string // OwnerOf
	DriverInfo driver.Info
	Dir        string // the alloc's directory on the node
	AllocDir   string // shared directory ("<Dir>/alloc")
	TaskDir    string // "<Dir>/<task>": local, secrets, tmp
	Mounts     *Mounts
	Attempt    int
	Restored   bool
	// Interpolate replaces ${…} by the task's environment and the node's attributes, up to job.MaxExpanded.
	Interpolate func(string) (string, error)
	// Variables are the names that Interpolate replaces, with their values.
	Variables func() map[string]string
	// Emit adds an event to this task.
	Emit func(*alloc.TaskEvent)
	// Signal, Restart and Kill act on this task from outside the hook's call (a template that changed, a plugin that
	// never became healthy).
	Control Control

	Out Output
}

// UserOf is the user that a task runs as on this node; empty: the agent's own. A storage plugin that serves the node
// and names none is not given the driver's default.
func UserOf(t *job.Task, info driver.Info) string {
	if t.User != "" || ServesNode(t, info) {
		return t.User
	}
	return info.Users.Default
}

// OwnerOf is to whom a task's files on this node are given, by a name or number of the node; empty: they stay the
// agent's. Names of users of a task whose driver has its files from an image are the image's: only the driver finds out
// which numbers those are.
func OwnerOf(t *job.Task, info driver.Info) string {
	user := UserOf(t, info)
	if info.Capabilities.FSIsolation == driver.IsolationImage && strings.Trim(user, "0123456789:") != "" {
		return ""
	}
	return user
}

// ServesNode tells whether a task is a storage plugin that the rules for users of tasks are not for: it acts on the
// node, which the agent's configuration allows or not, or its driver gives it the node's own paths. One that is
// nothing but a controller speaks to its provider: it is a task like others.
func ServesNode(t *job.Task, info driver.Info) bool {
	return t.CSIPluginConfig != nil &&
		(t.CSIPluginConfig.NodeRole() || info.Capabilities.Mounts != driver.MountAll)
}

// Control lets a keeper that works for a hook act on a running task.
type Control interface {
	Signal(ctx context.Context, signal, reason string) error
	Restart(ctx context.Context, reason string) error
	Kill(ctx context.Context, reason string) error
	// Run runs a program beside the task's process, as a command of alloc exec is, and returns its exit code.
	Run(ctx context.Context, command []string) (code int, err error)
}

// Output is what Prestart hooks contribute to the start.
type Output struct {
	Env map[string]string
	// Secrets are values that ${…} may name in the task's texts, by their names, as far as they are known; nil: none.
	Secrets       func() redact.Map
	Mounts        []driver.Mount
	Devices       []driver.Device
	CSIPluginNode bool
	// RestartWithoutLimit overrides the restart policy: CSI plugins restart for ever, 0.5 s to 30 s.
	RestartWithoutLimit bool
}
