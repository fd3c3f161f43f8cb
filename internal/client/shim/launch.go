package shim

import (
	"context"
	"errors"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// Launch implements driver.Launcher. An earlier attempt of the same task that still lives is ended first: an agent that
// died between a start and the record of it leaves one.
func (l *Launcher) Launch(ctx context.Context, spec *driver.LaunchSpec) (driver.Process, error) {
	m, err := encode(spec)
	if err != nil {
		return nil, fault.Note(err, "launch", "process "+strconv.Quote(spec.Name))
	}
	if m.Isolate != nil && m.Isolate.Root == "" {
		m.Isolate.Root = filepath.Join(l.cfg.Dir, rootDir)
	}
	for range 5 {
		p, retry, err := l.launch(ctx, spec, m)
		if err == nil {
			return p, nil
		}
		if !retry || ctx.Err() != nil {
			// A shim that holds nothing else must not stay for a start that failed. One that does not answer is not
			// waited for: Prune finds it.
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), byeLimit)
			defer cancel()
			return nil, errors.Join(err, l.bye(limited, spec.AllocID))
		}
	}
	return nil, fault.New(fault.Unavailable, "launch", "process "+strconv.Quote(spec.Name), "the shim of alloc "+ids.Short(spec.AllocID)+" ends again and again")
}

// launch tries once. It may be retried when the shim was about to end, because its last process had just been forgotten.
func (l *Launcher) launch(ctx context.Context, spec *driver.LaunchSpec, m *shimproto.Launch) (p *process, retry bool, err error) {
	c, fresh, err := l.ensure(ctx, spec.AllocID)
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	if !fresh {
		err = l.endEarlier(ctx, spec)
	}
	var launched shimproto.Launched
	if err == nil {
		err = c.ask(ctx, shimproto.TypeLaunch, m, &launched)
	}
	if err != nil {
		return nil, errors.Is(err, errGone) || fault.Has(err, fault.Unavailable), err
	}
	return &process{l: l, alloc: spec.AllocID, handle: driver.ProcessHandle{
		Socket: l.socket(spec.AllocID), ShimPID: c.hello.PID, ShimStart: c.hello.Start, Name: spec.Name,
		PID: launched.PID, Cgroup: launched.Cgroup, Boot: bootID(),
	}}, false, nil
}

func (l *Launcher) endEarlier(ctx context.Context, spec *driver.LaunchSpec) error {
	var held shimproto.List
	if err := ask(ctx, l.socket(spec.AllocID), shimproto.TypeList, nil, &held); err != nil {
		return err
	}
	for _, e := range held.Entries {
		if e.Task != spec.Task {
			continue
		}
		l.cfg.Log.Warn("ending an earlier attempt of a task that nobody knew of", "alloc", spec.AllocID, "task", spec.Task, "process", e.Name)
		if err := l.killHeld(ctx, spec.AllocID, e.Name); err != nil {
			return err
		}
	}
	return nil
}

const mib = 1 << 20

// byeLimit bounds the good-bye after a failed start.
const byeLimit = 2 * time.Second

// encode turns a specification into the shim's terms: names of users and capabilities become numbers.
func encode(spec *driver.LaunchSpec) (*shimproto.Launch, error) {
	if spec.AllocID == "" || spec.Name == "" || len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, fault.New(fault.Invalid, "", "", "alloc, name and command must be given")
	}
	for _, s := range append(append([]string{spec.Dir}, spec.Argv...), spec.Env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, fault.New(fault.Invalid, "", "", "command, arguments, environment or directory hold a NUL byte")
		}
	}
	numbers, entry, err := resolveUser(spec.User, spec.Isolate != nil)
	if err != nil {
		return nil, err
	}
	m := &shimproto.Launch{Name: spec.Name, Task: spec.Task, Argv: spec.Argv, Env: withHome(spec.Env, entry), Dir: spec.Dir, Search: spec.Search, User: numbers,
		Logs:   shimproto.Logs{Dir: spec.Logs.Dir, MaxFiles: spec.Logs.MaxFiles, MaxBytes: spec.Logs.MaxBytes, Disabled: spec.Logs.Disabled},
		Limits: limits(spec.Resources)}
	m.Limits.Required = spec.Isolate != nil
	if spec.Isolate != nil {
		m.Isolate, err = encodeIsolate(spec.Isolate)
	}
	return m, err
}

// withHome adds what programs of a user with an entry in the passwd file look for, where the environment does not say it.
func withHome(env []string, entry *user.User) []string {
	if entry == nil {
		return env
	}
	env = slices.Clone(env)
	for _, v := range [][2]string{{"HOME", entry.HomeDir}, {"LOGNAME", entry.Username}, {"USER", entry.Username}} {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, v[0]+"=") }) {
			env = append(env, v[0]+"="+v[1])
		}
	}
	slices.Sort(env)
	return env
}

func limits(r driver.Resources) shimproto.Limits {
	l := shimproto.Limits{CPUShares: r.CPUShares, Cpuset: r.CpusetCores}
	switch {
	case r.MemoryMaxMB == -1:
		l.MemoryLow = r.MemoryMB * mib
	case r.MemoryMaxMB > r.MemoryMB:
		l.MemoryMax, l.MemoryLow = r.MemoryMaxMB*mib, r.MemoryMB*mib
	default:
		l.MemoryMax = r.MemoryMB * mib
	}
	return l
}

func encodeIsolate(iso *driver.IsolateSpec) (*shimproto.Isolate, error) {
	caps, err := capabilityNumbers(iso.Capabilities)
	if err != nil {
		return nil, err
	}
	ambient, err := capabilityNumbers(iso.Ambient)
	if err != nil {
		return nil, err
	}
	out := &shimproto.Isolate{Root: iso.Root, System: iso.System, Hostname: iso.Hostname, Capabilities: caps, Ambient: ambient,
		HostDevices: iso.HostDevices, NoNewPrivileges: iso.NoNewPrivileges}
	if out.HostPID, err = isHost("pid_mode", iso.PIDMode); err != nil {
		return nil, err
	}
	if out.HostIPC, err = isHost("ipc_mode", iso.IPCMode); err != nil {
		return nil, err
	}
	for _, b := range iso.Binds {
		propagation, ok := map[string]string{"": "", "private": "", "host-to-task": "slave", "bidirectional": "shared"}[b.Propagation]
		if !ok {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", "mount "+strconv.Quote(b.Target), "propagation "+strconv.Quote(b.Propagation)+" is not known"),
				"use private, host-to-task or bidirectional")
		}
		out.Binds = append(out.Binds, shimproto.Bind{Source: b.Source, Target: b.Target, ReadOnly: b.ReadOnly, Propagation: propagation})
	}
	for _, d := range iso.Devices {
		switch d.Permissions {
		case "", "rw", "rwm":
		default:
			return nil, fault.WithHint(fault.New(fault.Unsupported, "", "device "+strconv.Quote(d.HostPath), "permissions "+strconv.Quote(d.Permissions)+" cannot be enforced"),
				"use rw or rwm")
		}
		out.Devices = append(out.Devices, shimproto.Device{HostPath: d.HostPath, TaskPath: d.TaskPath})
	}
	return out, nil
}

func isHost(option, mode string) (bool, error) {
	switch mode {
	case "", "private":
		return false, nil
	case "host":
		return true, nil
	}
	return false, fault.WithHint(fault.New(fault.Invalid, "", option, strconv.Quote(mode)+" is not known"), "use private or host")
}
