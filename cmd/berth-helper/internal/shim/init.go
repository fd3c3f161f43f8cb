package shim

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/internal/shimproto"
)

// initStage holds the namespaces of a process: those of an isolated one, and its alloc's network.
type initStage struct {
	child *spawn.Child
	users *os.File // the user namespace, which is nobody's; nil: the node's
	netns *os.File // nil: the node's
}

// close gives back what no child holds. It may be repeated.
func (s *initStage) close() {
	for _, f := range []*os.File{s.users, s.netns} {
		if f != nil {
			_ = f.Close() // nothing was written, and it may be closed already
		}
	}
}

// startInit starts the init stage, which builds the task's root in its own mount namespace and then holds the
// namespaces. It is their first process: it reaps orphans, and when it dies the kernel kills all others.
func (p *process) startInit() error {
	iso := *p.launch.Isolate
	if iso.NoNewPrivileges {
		iso.Cgroups = cgroupBinds(p.cgroup.Shown())
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	specR, specW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer specR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, specW.Close())
	}
	defer reportR.Close()
	files := []*os.File{null, null, null, specR, reportW}
	if iso.FirstID != 0 {
		if p.init.users, err = spawn.UserNamespace(iso.FirstID); err != nil {
			return errors.Join(err, reportW.Close(), specW.Close())
		}
		files = append(files, p.init.users)
	}
	p.init.child, err = spawn.Start(p.shim.group, spawn.Spec{
		Path:   "/proc/self/exe",
		Argv:   []string{"berth-init", "init", p.launch.Name},
		Env:    []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"},
		Files:  files,
		Cgroup: p.cgroup.HelperLeaf(),
		Netns:  p.init.netns,
		Clone:  uintptr(namespaces(&iso)),
	})
	err = errors.Join(err, reportW.Close())
	if err != nil {
		return errors.Join(err, specW.Close())
	}
	_, err = specW.Write(shimproto.Marshal(&iso))
	if err := errors.Join(err, specW.Close()); err != nil {
		return err
	}
	return readReport(reportR)
}

// cgroupBinds show a task its own groups where runtimes look for their limits.
func cgroupBinds(shown map[string]string) []shimproto.Bind {
	var out []shimproto.Bind
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		out = append(out,
			shimproto.Bind{Source: shown[name], Target: path.Join("/sys/fs/cgroup", name), ReadOnly: true})
	}
	return out
}

// readReport waits until the root is built: a done frame, or the reason why not.
func readReport(r io.Reader) error {
	t, payload, err := shimproto.Read(r)
	if err != nil {
		return errors.New("the init stage died while it built the task's root")
	}
	if t == shimproto.TypeDone {
		return nil
	}
	var f shimproto.Fault
	if err := shimproto.Unmarshal(payload, &f); err != nil {
		return err
	}
	return f.Err()
}
