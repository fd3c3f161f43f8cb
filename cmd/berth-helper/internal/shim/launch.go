package shim

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/cmd/berth-helper/internal/spawn"
	"berth/cmd/berth-helper/internal/tasklog"
	"berth/internal/base/fault"
	"berth/internal/cgroup"
	"berth/internal/shimproto"
)

// run starts the process once those of earlier attempts are gone. If that fails, or the launch is given up, nothing
// of it is left in the end.
func (p *process) run(before []*process) error {
	err := p.replace(before)
	if err == nil {
		err = p.abortable()
	}
	p.mu.Lock()
	p.state.err, p.state.running = err, err == nil
	over := err != nil || p.state.cancelled
	p.mu.Unlock()
	if err == nil {
		p.shim.goAsync("watch", p.watch)
	}
	close(p.started)
	if over {
		p.teardown()
	}
	return nil
}

// replace ends what an agent left that died between a start and the record of it.
func (p *process) replace(before []*process) error {
	for _, b := range before {
		b.end()
	}
	for _, b := range before {
		if err := b.awaitGone(p.abandoned); err != nil {
			return fault.Note(err, "end", "an earlier attempt")
		}
	}
	return nil
}

// abortable starts the process; when the launch is given up meanwhile, what was begun is killed, again and again, so
// that a root whose building hangs ends.
func (p *process) abortable() error {
	over := make(chan struct{})
	defer close(over)
	p.shim.goAsync("abort", func() error {
		select {
		case <-over:
			return nil
		case <-p.abandoned:
		}
		for {
			select {
			case <-over:
				return nil
			case <-time.After(minPause):
			}
			if err := p.cgroup.Kill(); err != nil {
				return err
			}
		}
	})
	if isClosed(p.abandoned) {
		return fault.New(fault.Canceled, "launch", p.subject(), "it was given up")
	}
	return p.start()
}

func (p *process) start() error {
	if err := p.cgroup.Create(cgroup.Limits(p.launch.Limits)); err != nil {
		return err
	}
	if err := keepFromDevices(p.cgroup.TaskLeaf(), p.launch.Isolate); err != nil {
		return err
	}
	report, err := p.enclose()
	if err != nil {
		return err
	}
	if report != nil {
		defer report.Close()
	}
	logs, ends, err := tasklog.Open(p.launch.Task, p.launch.Logs) // while the root is built
	if err != nil {
		return err
	}
	defer tasklog.CloseAll(nil, ends)
	for _, l := range logs {
		done := make(chan struct{})
		p.logs, p.logged = append(p.logs, l), append(p.logged, done)
		p.shim.goAsync("log", func() error {
			defer close(done)
			return l.Run()
		})
	}
	if report != nil {
		if err := readReport(report); err != nil {
			return err
		}
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	defer null.Close()
	spec := p.spec(p.launch.Argv)
	spec.Files = []*os.File{null, ends[0], ends[len(ends)-1]}
	p.main, err = spawn.Start(p.shim.group, spec)
	return err
}

// enclose makes the namespaces that the process will live in. Where one of them shows a root of its own, the root is
// being built when it returns, and the report tells how that went.
func (p *process) enclose() (report *os.File, err error) {
	if p.launch.Netns != "" {
		if p.init.netns, err = os.Open(p.launch.Netns); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "open", "the allocation's network namespace")
		}
	}
	if p.launch.Isolate == nil {
		return nil, nil
	}
	return p.startInit()
}

// spec describes a child that lives where the main process does.
func (p *process) spec(argv []string) spawn.Spec {
	s := spawn.Spec{
		Argv:   argv,
		Env:    p.launch.Env,
		Dir:    p.launch.Dir,
		Search: p.launch.Search,
		User:   p.launch.User,
		Cgroup: p.cgroup.TaskLeaf(),
		Netns:  p.init.netns,
		Reach:  p.launch.Reach,
		OOM:    p.launch.OOMScore,
	}
	s.Visit.Join, s.Visit.Back = p.cgroup.Joins()
	if iso := p.launch.Isolate; iso != nil {
		s.Enter = &spawn.Enter{
			PidFD:   int(p.init.child.PidFD.Fd()),
			Flags:   namespaces(iso),
			Users:   p.init.users,
			FirstID: iso.FirstID,
		}
		s.Bound = &spawn.Bound{
			Keep:            iso.Capabilities,
			Ambient:         iso.Ambient,
			NoNewPrivileges: iso.NoNewPrivileges,
			Filter:          iso.Filter,
			Writable:        writable(iso),
		}
	}
	return s
}

// namespaces are those of an isolated process.
func namespaces(iso *shimproto.Isolate) int {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	if !iso.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	if !iso.HostIPC {
		flags |= unix.CLONE_NEWIPC
	}
	return flags
}

// answer tells a conversation how the launch went. One that ends before changes nothing: an agent that dies in the
// midst of a launch comes back and asks for the same attempt, which may have done its work by then and must not run
// twice. Whoever does not want it any more kills it.
func (p *process) answer(hangup <-chan struct{}) (shimproto.Message, error) {
	select {
	case <-p.started:
	case <-hangup:
		return nil, fault.New(fault.Canceled, "launch", p.subject(), "the agent hung up")
	}
	p.mu.Lock()
	err, cancelled := p.state.err, p.state.cancelled
	first, exit := !p.state.answered, p.exit
	p.state.answered = true
	p.mu.Unlock()
	switch {
	case err != nil || cancelled:
		return p.answerOver(err, cancelled, hangup)
	case !first && isClosed(p.ended):
		return &shimproto.Ended{Exit: exit, Newest: p.launch.Attempt}, nil
	}
	return &shimproto.Launched{PID: p.main.PID, Cgroup: p.cgroup.Dir()}, nil
}

// answerOver tells why there is no process, once nothing of it is left.
func (p *process) answerOver(err error, cancelled bool, hangup <-chan struct{}) (shimproto.Message, error) {
	goneErr := p.awaitGone(hangup)
	if !cancelled || goneErr != nil {
		return nil, errors.Join(err, goneErr)
	}
	_, ended, err := p.shim.find(p.launch.Named)
	if ended == nil {
		return nil, err
	}
	return ended, nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// cancel gives the launch up. The caller holds the lock.
func (p *process) cancel() {
	if p.state.cancelled {
		return
	}
	p.state.cancelled = true
	close(p.abandoned)
}
