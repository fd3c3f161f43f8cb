package taskhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/plugin"
	"berth/internal/port/driver"
	"berth/internal/port/hostfs"
	"berth/internal/port/users"
)

// CSIPluginSupervisor makes a task a CSI plugin: it gives it a socket directory and the base directory of stagings and
// publications, declares the instance and withdraws it. Probing belongs to csimanager/instance, which calls Health and
// Timeout. One supervisor serves all tasks of the node.
type CSIPluginSupervisor struct {
	DataDir  string
	Registry *dynamicplugins.Registry
	// Own reports whether the plugin of a task is Berth's own: what it says before it serves holds no secrets, so that
	// all may read it. What others say stays in their tasks' logs.
	Own func(*hook.Task) bool

	mu    sync.Mutex
	tasks map[ids.Alloc]supervised
}

type supervised struct {
	emit    func(*alloc.TaskEvent)
	control hook.Control
	served  bool // this process was ready, or maybe: an agent before has seen it start
}

var (
	_ hook.Prestarter = (*CSIPluginSupervisor)(nil)
	_ hook.Exiter     = (*CSIPluginSupervisor)(nil)
	_ hook.Stopper    = (*CSIPluginSupervisor)(nil)
)

// Name implements hook.Hook.
func (*CSIPluginSupervisor) Name() string { return "csi_plugin_supervisor" }

// Prestart prepares what the plugin needs and declares it. Drivers that mount show the plugin its directories where the
// job says; drivers that don't are given the node's own paths, so that the same job runs unchanged under both.
func (h *CSIPluginSupervisor) Prestart(_ context.Context, t *hook.Task) error {
	cfg := t.Task.CSIPluginConfig
	if cfg == nil {
		return nil
	}
	p := h.pathsOf(t, cfg)
	if err := p.prepare(t.DriverInfo.Capabilities.Mounts == driver.MountAll && cfg.NodeRole(), t.Restored); err != nil {
		return err
	}
	if !hook.ServesNode(t.Task, t.DriverInfo) {
		if err := give(p.socketDir, t.User); err != nil {
			return err
		}
	}
	if t.Out.Env == nil {
		t.Out.Env = map[string]string{}
	}
	t.Out.RestartWithoutLimit = true
	if t.DriverInfo.Capabilities.Mounts == driver.MountAll {
		t.Out.Mounts = append(t.Out.Mounts, driver.Mount{Source: p.socketDir, Target: cfg.MountDir})
		if cfg.NodeRole() {
			t.Out.Mounts = append(t.Out.Mounts,
				driver.Mount{Source: p.hostBase, Target: cfg.StagePublishBaseDir, Propagation: "bidirectional"})
			t.Out.CSIPluginNode = true
		}
	}
	t.Out.Env["CSI_ENDPOINT"] = "unix://" + p.taskSocket
	h.mu.Lock()
	if h.tasks == nil {
		h.tasks = map[ids.Alloc]supervised{}
	}
	h.tasks[t.Alloc.ID] = supervised{emit: t.Emit, control: t.Control, served: t.Restored}
	h.mu.Unlock()
	return h.declare(t, cfg, p)
}

func (h *CSIPluginSupervisor) declare(t *hook.Task, cfg *job.CSIPluginConfig, p pluginPaths) error {
	attempt := t.Attempt
	if t.Restored {
		attempt-- // that one runs already
	}
	for _, role := range rolesOf(cfg) {
		err := h.Registry.Register(dynamicplugins.Info{
			Plugin:        ids.Plugin(cfg.ID),
			Role:          role,
			Alloc:         t.Alloc.ID,
			Task:          t.Task.Name,
			Scope:         scopeOf(cfg),
			Socket:        p.hostSocket,
			HostBase:      p.hostBase,
			TaskBase:      p.taskBase,
			HealthTimeout: cfg.HealthTimeout,
			MaxParallel:   cfg.MaxParallel,
			Declared:      time.Now().UTC(),
			Attempt:       attempt,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Exited has the instance say why, when its process ended before it served.
func (h *CSIPluginSupervisor) Exited(ctx context.Context, t *hook.Task) error {
	if t.Task.CSIPluginConfig == nil {
		return nil
	}
	h.mu.Lock()
	served := h.tasks[t.Alloc.ID].served
	h.mu.Unlock()
	how, err := "", error(nil)
	if !served {
		how = "to see why: berth alloc logs -stderr " + ids.Short(t.Alloc.ID) + " " + t.Task.Name
		if h.Own != nil && h.Own(t) {
			how, err = h.lastWords(ctx, t, how)
		}
	}
	return errors.Join(err, h.Registry.Ended(t.Alloc.ID, t.Task.Name, how))
}

// maxWords bounds what is shown of a plugin's last line, in bytes.
const maxWords = 1024

// lastWords is the last line that a task has written to its standard error; otherwise, if there is none.
func (h *CSIPluginSupervisor) lastWords(ctx context.Context, t *hook.Task, otherwise string) (string, error) {
	dir := allocdir.New(filepath.Dir(t.Dir), t.Alloc.ID)
	line, err := dir.LastLine(ctx, t.Task.Name, "stderr", maxWords)
	if fault.Has(err, fault.NotFound) { // nothing was written
		err = nil
	}
	return cmp.Or(line, otherwise), err
}

// Stop withdraws the instance and removes what was made for it. Entries of its volumes stay with the node keeper.
func (h *CSIPluginSupervisor) Stop(_ context.Context, t *hook.Task) error {
	cfg := t.Task.CSIPluginConfig
	if cfg == nil {
		return nil
	}
	var errs []error
	for _, role := range rolesOf(cfg) {
		errs = append(errs, h.Registry.Deregister(role, ids.Plugin(cfg.ID), t.Alloc.ID))
	}
	h.mu.Lock()
	delete(h.tasks, t.Alloc.ID)
	h.mu.Unlock()
	p := h.pathsOf(t, cfg)
	errs = append(errs, removeIfThere(p.hostSocket), keepForeign(t, hostfs.RemoveEmpty(p.socketDir)),
		h.releaseBase(ids.Plugin(cfg.ID), p.hostBase))
	return errors.Join(errs...)
}

// keepForeign lets the plugin end although something lies beside its socket that is not ours: that is kept, and said.
func keepForeign(t *hook.Task, err error) error {
	if !fault.Has(err, fault.Conflict) {
		return err
	}
	t.Emit(&alloc.TaskEvent{
		Type:           alloc.EventPluginFailing,
		Time:           time.Now().UnixNano(),
		DisplayMessage: "plugin: what it left beside its socket is kept: " + err.Error(),
	})
	return nil
}

// releaseBase undoes the shared mount over the base directory when no instance of the plugin is left and nothing is
// mounted below it. Volumes that are still published keep it: the next instance of the plugin needs it.
func (h *CSIPluginSupervisor) releaseBase(id ids.Plugin, base string) error {
	for _, i := range h.Registry.List() {
		if i.Plugin == id {
			return nil
		}
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	if below := table.Beneath(base); len(below) != 1 || below[0].Path != base {
		return nil
	}
	if err := unix.Unmount(base, unix.UMOUNT_NOFOLLOW); err != nil {
		return fault.Wrap(err, fault.Internal, "unmount", base)
	}
	return nil
}

// Health tells the task that its plugin became healthy or stopped being so; csimanager/instance calls it.
func (h *CSIPluginSupervisor) Health(i dynamicplugins.Info, healthy bool, reason string) {
	h.mu.Lock()
	s, ok := h.tasks[i.Alloc]
	if ok && healthy {
		s.served = true
		h.tasks[i.Alloc] = s
	}
	h.mu.Unlock()
	if !ok {
		return
	}
	e := &alloc.TaskEvent{Type: alloc.EventPluginHealthy, Time: time.Now().UnixNano(),
		DisplayMessage: fmt.Sprintf("plugin: %s (%s role)", i.Plugin, i.Role),
		Details:        map[string]string{"plugin": string(i.Plugin), "role": string(i.Role)}}
	if !healthy {
		e.Type, e.DisplayMessage = alloc.EventPluginFailing,
			fmt.Sprintf("plugin: %s (%s role): %s", i.Plugin, i.Role, reason)
	}
	s.emit(e)
}

// Timeout restarts a plugin that was not well for its health timeout; csimanager/instance calls it once for all roles.
func (h *CSIPluginSupervisor) Timeout(ctx context.Context, i dynamicplugins.Info, reason string) {
	h.mu.Lock()
	s, ok := h.tasks[i.Alloc]
	h.mu.Unlock()
	if !ok {
		return
	}
	text := fmt.Sprintf("plugin %q was not healthy within %s: %s", i.Plugin, i.HealthTimeout, reason)
	if err := s.control.Restart(ctx, text); err != nil {
		s.emit(&alloc.TaskEvent{
			Type:           alloc.EventPluginFailing,
			Time:           time.Now().UnixNano(),
			DisplayMessage: text + "; it could not be restarted: " + err.Error(),
		})
	}
}

// pluginPaths are the directories of one plugin task.
type pluginPaths struct{ socketDir, hostSocket, taskSocket, hostBase, taskBase string }

func (h *CSIPluginSupervisor) pathsOf(t *hook.Task, cfg *job.CSIPluginConfig) pluginPaths {
	p := pluginPaths{hostBase: csimanager.HostBase(h.DataDir, ids.Plugin(cfg.ID))}
	p.socketDir = csimanager.SocketDir(h.DataDir, t.Alloc.ID, t.Task.Name)
	p.hostSocket = filepath.Join(p.socketDir, csimanager.SocketName)
	p.taskSocket, p.taskBase = p.hostSocket, p.hostBase
	if t.DriverInfo.Capabilities.Mounts == driver.MountAll {
		p.taskSocket, p.taskBase = filepath.Join(cfg.MountDir, csimanager.SocketName), cfg.StagePublishBaseDir
	}
	return p
}

// prepare makes the directories; a stale socket of an earlier start is removed, because nobody listens on it.
func (p pluginPaths) prepare(shared, restored bool) error {
	if len(p.hostSocket) > hostfs.MaxSocketPath {
		return fault.WithHint(
			fault.New(fault.Invalid, "create", "socket "+p.hostSocket,
				fmt.Sprintf("the path has %d bytes, the limit is %d", len(p.hostSocket), hostfs.MaxSocketPath)),
			fmt.Sprintf("choose a data_dir that is %d bytes shorter", len(p.hostSocket)-hostfs.MaxSocketPath))
	}
	for _, dir := range []string{p.socketDir, p.hostBase} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Wrap(err, fault.Internal, "create", dir)
		}
	}
	if !restored {
		if err := removeIfThere(p.hostSocket); err != nil {
			return err
		}
	}
	if !shared {
		return nil
	}
	return shareBase(p.hostBase)
}

// give lets a task's user make its socket; an empty one is the agent's own.
func give(dir, user string) error {
	if user == "" {
		return nil
	}
	u, err := users.Resolve(user)
	if err != nil {
		return err
	}
	return fault.Wrap(os.Lchown(dir, int(u.UID), int(u.GID)), fault.Internal, "give", dir)
}

// shareBase makes the base directory a shared mount of its own, so that what the plugin mounts below it in its own
// mount namespace appears on the node (CSI spec, "Supervised lifecycle management: mount propagation").
func shareBase(base string) error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	m, mounted := table.At(base)
	if mounted && m.Shared {
		return nil
	}
	if !mounted {
		if err := unix.Mount(base, base, "", unix.MS_BIND, ""); err != nil {
			return fault.Wrap(err, fault.Internal, "bind", base)
		}
	}
	return fault.Wrap(unix.Mount("", base, "", unix.MS_SHARED, ""), fault.Internal, "share", base)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fault.Wrap(err, fault.Internal, "remove", path)
	}
	return nil
}

func rolesOf(cfg *job.CSIPluginConfig) []plugin.Role {
	switch cfg.Type {
	case job.PluginController:
		return []plugin.Role{plugin.RoleController}
	case job.PluginNode:
		return []plugin.Role{plugin.RoleNode}
	}
	return []plugin.Role{plugin.RoleController, plugin.RoleNode}
}

func scopeOf(cfg *job.CSIPluginConfig) plugin.Scope {
	if cfg.ControllerScope == string(plugin.ScopeNode) {
		return plugin.ScopeNode
	}
	return plugin.ScopeCluster
}
