package shim

import (
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/internal/base/fault"
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
// namespaces. It is their first process: it reaps orphans, and when it dies the kernel kills all others. What it
// reports is for readReport.
func (p *process) startInit() (report *os.File, err error) {
	iso := *p.launch.Isolate
	if iso.NoNewPrivileges {
		iso.Cgroups = cgroupBinds(p.cgroup.Shown())
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	spec, err := inMemory("root", shimproto.Marshal(&iso))
	if err != nil {
		return nil, err
	}
	defer spec.Close()
	report, reportW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	files := []*os.File{null, null, null, spec, reportW}
	if iso.FirstID != 0 {
		if p.init.users, err = spawn.UserNamespace(iso.FirstID); err != nil {
			return nil, errors.Join(err, reportW.Close(), report.Close())
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
	if err = errors.Join(err, reportW.Close()); err != nil {
		return nil, errors.Join(err, report.Close())
	}
	return report, nil
}

// inMemory makes a file without a name of a text, which a reader has whole from the beginning on: nobody waits for who
// writes.
func inMemory(name string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "a file in memory")
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(text, 0); err != nil { // which leaves the reader's place at the beginning
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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
