package shim

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/devices"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/shim/names"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// Launch implements driver.Launcher. An attempt that runs already, because an agent died between its start and the
// record of it, is taken up; an earlier one that still lives is ended first.
func (l *Launcher) Launch(ctx context.Context, spec *driver.LaunchSpec) (driver.Process, error) {
	m, err := encode(spec)
	if err != nil {
		return nil, fault.Note(err, "launch", "process "+strconv.Quote(driver.ProcessName(spec.Task, spec.Attempt)))
	}
	if m.Isolate != nil && m.Isolate.Root == "" {
		m.Isolate.Root = filepath.Join(l.cfg.Dir, rootDir)
	}
	m.Bundle = l.bundle(spec.AllocID)
	defer l.Place(spec.AllocID, m.Name, &m.Limits.Cpuset)()
	for try := 1; ; try++ {
		p, retry, err := l.launch(ctx, spec, m)
		if err == nil {
			return p, nil
		}
		if retry && ctx.Err() == nil && try < maxTries {
			continue
		}
		if retry && ctx.Err() == nil {
			err = fault.Wrap(err, fault.Unavailable, "launch", "process "+strconv.Quote(m.Name)+
				": the shim of alloc "+ids.Short(spec.AllocID)+" ends again and again")
		}
		// A shim that holds nothing else must not stay for a start that failed; one that still undoes it remembers the
		// good-bye. One that does not answer is not waited for: the keeper finds it.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), byeLimit)
		defer cancel()
		return nil, errors.Join(err, l.bye(limited, spec.AllocID))
	}
}

// maxTries is how many shims in a row may end under a launch.
const maxTries = 5

// bundle is what the alloc's shim keeps of it, or nothing.
func (l *Launcher) bundle(alloc string) []byte {
	if l.cfg.Bundle == nil {
		return nil
	}
	b := l.cfg.Bundle(ids.Alloc(alloc))
	if len(b) > shimproto.MaxBundle {
		l.cfg.Log.Warn("the description of an allocation is too large for its shim to keep: "+
			"only this node's store can name its tasks", logkey.Alloc, alloc, "bytes", len(b), "limit",
			shimproto.MaxBundle)
		return nil
	}
	return b
}

// launch tries once. It may be retried when the shim was about to end, because its last process had just been
// forgotten.
func (l *Launcher) launch(
	ctx context.Context, spec *driver.LaunchSpec, m *shimproto.Launch,
) (p *process, retry bool, err error) {
	c, fresh, err := l.ensure(ctx, spec.AllocID)
	if err != nil {
		return nil, errors.Is(err, errGone), err
	}
	defer c.close()
	if !fresh && c.legacy() {
		err = l.endEarlier(ctx, spec)
	}
	var launched shimproto.Launched
	if err == nil && spec.Isolate != nil && spec.Isolate.IDs != nil {
		m.Isolate.FirstID, err = l.users.Take(spec.AllocID, stem(spec.AllocID), *spec.Isolate.IDs)
	}
	if err == nil {
		err = c.ask(ctx, shimproto.TypeLaunch, m, &launched)
	}
	p = &process{l: l, alloc: spec.AllocID, handle: driver.ProcessHandle{
		Socket:    l.socket(spec.AllocID),
		ShimPID:   c.hello.PID,
		ShimStart: c.hello.Start,
		Name:      m.Name,
		Task:      m.Task,
		Attempt:   m.Attempt,
		PID:       launched.PID,
		Cgroup:    launched.Cgroup,
		Boot:      bootID(),
	}}
	var over *endedError
	switch {
	case err == nil:
		l.checkUsers(spec, m, launched.PID)
		return p, false, nil
	case !errors.As(err, &over):
		return nil, errors.Is(err, errGone) || fault.Has(err, fault.Unavailable), err
	case over.Exit.Cancelled || over.Exit.Unknown:
		return nil, false, &driver.AttemptOver{Task: m.Task, Attempt: m.Attempt, Newest: max(over.Newest, m.Attempt)}
	}
	p.handle.Cgroup = l.tree.Group(l.cfg.Slice, spec.AllocID, m.Name).Dir()
	p.learn(exitResult(&over.Exit))
	return p, false, nil
}

const mib = 1 << 20

// byeLimit bounds the good-bye after a failed start.
const byeLimit = 2 * time.Second

// encode turns a specification into the shim's terms: names of users and capabilities become numbers.
func encode(spec *driver.LaunchSpec) (*shimproto.Launch, error) {
	if spec.AllocID == "" || spec.Task == "" || spec.Attempt <= 0 || len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, fault.New(fault.Invalid, "", "", "alloc, task, attempt and command must be given")
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
	m := &shimproto.Launch{
		Named:  named(spec.Task, spec.Attempt),
		Argv:   spec.Argv,
		Env:    withHome(spec.Env, entry),
		Dir:    spec.Dir,
		Search: spec.Search,
		User:   numbers,
		Logs: shimproto.Logs{
			Dir:      spec.Logs.Dir,
			MaxFiles: spec.Logs.MaxFiles,
			MaxBytes: spec.Logs.MaxBytes,
			Disabled: spec.Logs.Disabled,
		},
		Limits: limits(spec.Resources),
		Netns:  spec.Netns,
	}
	m.Limits.Required, m.OOMScore = spec.Isolate != nil, spec.OOMScore
	m.Limits.IO = spec.IO
	if spec.Isolate != nil {
		if spec.Isolate.IDs != nil {
			if err := fits(numbers); err != nil {
				return nil, err
			}
		}
		m.Isolate, err = encodeIsolate(spec.Isolate)
	} else if r := spec.Reach; r != nil && numbers != nil && int(numbers.UID) != os.Geteuid() {
		m.Reach = &shimproto.Reach{Dir: r.Dir, Own: r.Own}
	}
	return m, err
}

// named names an attempt to a shim.
func named(task string, attempt int) shimproto.Named {
	return shimproto.Named{Name: driver.ProcessName(task, attempt), Task: task, Attempt: attempt}
}

// withHome adds what programs of a user with an entry in the passwd file look for, where the environment does not say
// it.
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
	l := shimproto.Limits{CPUShares: r.CPUShares, Cpuset: r.CpusetCores, PIDs: r.PIDs}
	if l.PIDs <= 0 {
		l.PIDs = driver.DefaultPIDs
	}
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
	caps, err := names.Capabilities(iso.Capabilities)
	if err != nil {
		return nil, err
	}
	ambient, err := names.Capabilities(iso.Ambient)
	if err != nil {
		return nil, err
	}
	out := &shimproto.Isolate{
		Root:            iso.Root,
		System:          iso.System,
		Hostname:        iso.Hostname,
		Capabilities:    caps,
		Ambient:         ambient,
		HostDevices:     iso.HostDevices,
		NoNewPrivileges: iso.NoNewPrivileges,
		Filter:          iso.Filter,
		Etc:             iso.Etc,
	}
	if out.HostPID, err = isHost("pid_mode", iso.PIDMode); err != nil {
		return nil, err
	}
	if out.HostIPC, err = isHost("ipc_mode", iso.IPCMode); err != nil {
		return nil, err
	}
	for _, b := range iso.Binds {
		propagation, ok := map[string]string{"": "", "private": "", "host-to-task": "slave",
			"bidirectional": "shared"}[b.Propagation]
		if !ok {
			return nil, fault.WithHint(
				fault.New(fault.Invalid, "", "mount "+strconv.Quote(b.Target),
					"propagation "+strconv.Quote(b.Propagation)+" is not known"),
				"use private, host-to-task or bidirectional")
		}
		out.Binds = append(out.Binds, shimproto.Bind{
			Source:      b.Source,
			Target:      b.Target,
			ReadOnly:    b.ReadOnly,
			Propagation: propagation,
			Volume:      b.Volume,
		})
	}
	for _, d := range iso.Devices {
		if _, err := devices.Of(d.Permissions); err != nil {
			return nil, fault.Note(err, "give", "device "+strconv.Quote(d.HostPath))
		}
		out.Devices = append(out.Devices, shimproto.Device(d))
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
	return false,
		fault.WithHint(fault.New(fault.Invalid, "", option, strconv.Quote(mode)+" is not known"), "use private or host")
}
