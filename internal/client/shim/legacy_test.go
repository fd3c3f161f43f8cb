package shim_test

import (
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/procs"
	"berth/internal/cgroup"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// oldShim speaks version 1, with its defect: what has ended cannot be killed, and is held for ever.
type oldShim struct {
	t       *testing.T
	socket  string
	alloc   string
	process *osexec.Cmd // stands for the shim's own

	mu       sync.Mutex
	launched []string
}

func newOldShim(t *testing.T, dir string) *oldShim {
	o := &oldShim{t: t, alloc: ids.New(), process: osexec.Command("/bin/sleep", "1000")}
	o.socket = filepath.Join(dir, o.alloc+".sock")
	if err := o.process.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", o.socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = o.process.Wait() // it is killed
		_ = l.Close()        // a dead shim answers nobody
	}()
	t.Cleanup(func() { _ = o.process.Process.Kill() }) // it may be dead
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go o.serve(c)
		}
	}()
	return o
}

// serve answers one request. What goes wrong here is seen by who asked.
func (o *oldShim) serve(c net.Conn) {
	defer c.Close()
	if typ, _, err := shimproto.Read(c); err != nil || typ != shimproto.TypeHello {
		return
	}
	start, err := procs.StartTime(o.process.Process.Pid)
	if err != nil {
		return
	}
	hello := &shimproto.HelloReply{Version: 1, PID: o.process.Process.Pid, Start: start, Alloc: o.alloc}
	if shimproto.Write(c, shimproto.TypeHelloReply, hello) != nil {
		return
	}
	typ, payload, err := shimproto.Read(c)
	if err != nil {
		return
	}
	answer, reply := shimproto.TypeDone, shimproto.Message(&shimproto.Forgotten{})
	switch typ {
	case shimproto.TypeList:
		held := shimproto.Entry{Named: shimproto.Named{Name: "web.1", Task: "web"}, PID: 1, Ended: true}
		reply = &shimproto.List{Entries: []shimproto.Entry{held}}
	case shimproto.TypeKill:
		err := fault.New(fault.Invalid, "signal", "process web.1", "bad file descriptor")
		answer, reply = shimproto.TypeFault, shimproto.FaultOf(err)
	case shimproto.TypeWait:
		reply = &shimproto.Exit{Code: 7, Ended: time.Now().UnixNano()}
	case shimproto.TypeLaunch:
		var m shimproto.Launch
		if shimproto.Unmarshal(payload, &m) != nil {
			return
		}
		o.mu.Lock()
		o.launched = append(o.launched, m.Name)
		o.mu.Unlock()
		reply = &shimproto.Launched{PID: 2}
	}
	_ = shimproto.Write(c, answer, reply) // who asked hung up
}

func (o *oldShim) attach(l *shim.Launcher) driver.Process {
	o.t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		o.t.Fatal(err)
	}
	start, err := procs.StartTime(o.process.Process.Pid)
	if err != nil {
		o.t.Fatal(err)
	}
	p, err := l.Attach(short(o.t), driver.ProcessHandle{
		Socket:    o.socket,
		ShimPID:   o.process.Process.Pid,
		ShimStart: start,
		Name:      "web.1",
		PID:       1,
		Boot:      strings.TrimSpace(string(boot)),
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return p
}

// TestAnOldShimThatCannotKillWhatIsGoneIsDoneWith: given a shim of an agent before the upgrade that answers errors
// about a task whose cgroup is empty, then the task counts as ended, as it ended, and the end of the alloc ends the
// shim.
func TestAnOldShimThatCannotKillWhatIsGoneIsDoneWith(t *testing.T) {
	dir := tempDir(t)
	l := launcherAt(t, dir)
	o := newOldShim(t, dir)
	p := o.attach(l)
	if err := p.Kill(short(t), "TERM", time.Second); err != nil {
		t.Errorf("kill: %v", err)
	}
	if exit, err := p.Wait(short(t)); err != nil || exit.ExitCode != 7 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if err := l.Lease(short(t), ids.Alloc(o.alloc), time.Hour); !fault.Has(err, fault.Unsupported) {
		t.Errorf("a lease: %v", err)
	}
	next := &driver.LaunchSpec{
		AllocID: o.alloc,
		Task:    "web",
		Attempt: 2,
		Argv:    []string{"/bin/true"},
		Logs:    driver.LogConfig{Disabled: true},
	}
	if _, err := l.Launch(short(t), next); err != nil || !slices.Equal(o.launched, []string{"web.2"}) {
		t.Errorf("the next attempt: %v, launched %v", err, o.launched)
	}
	if err := l.End(short(t), ids.Alloc(o.alloc)); err != nil {
		t.Fatal(err)
	}
	if _, err := procs.StartTime(o.process.Process.Pid); !fault.Has(err, fault.NotFound) {
		t.Errorf("the shim lives: %v", err)
	}
	if left := sockets(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAnOldShimsErrorStandsWhileAProcessLives: given the same answer with a process in the task's cgroup, then it is an
// error.
func TestAnOldShimsErrorStandsWhileAProcessLives(t *testing.T) {
	dir := tempDir(t)
	l := launcherAt(t, dir)
	o := newOldShim(t, dir)
	tree, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	g := tree.Group(slice, o.alloc, "web.1")
	if err := g.Create(cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	leaf, err := os.Open(g.TaskLeaf())
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	task := osexec.Command("/bin/sleep", "1000")
	task.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(leaf.Fd())}
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- task.Wait() }()
	p := o.attach(l)
	if err := p.Kill(short(t), "TERM", time.Second); !fault.Has(err, fault.Invalid) {
		t.Errorf("kill: %v", err)
	}
	if err := l.End(short(t), ids.Alloc(o.alloc)); err != nil { // it kills the cgroup itself
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the task ended by itself")
	}
}

// TestAShimServesAnAgentOfVersion1: given an agent that was taken back to an earlier version, then a shim of this one
// does all that it asks, in its words.
func TestAShimServesAnAgentOfVersion1(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", func(s *driver.LaunchSpec) { s.Task = "other" })
	socket := p.Handle().Socket
	old := func(typ shimproto.Type, m, reply shimproto.Message) shimproto.Type {
		t.Helper()
		k := speak(t, socket, 1)
		defer k.hangUp()
		k.say(typ, m)
		return k.hear(reply)
	}
	one := shimproto.Named{Name: "web.1"}
	m := launchOf(shimproto.Named{Name: "web.1", Task: "web"}, "sleep 1000; exit 4")
	var launched shimproto.Launched
	if typ := old(shimproto.TypeLaunch, m, &launched); typ != shimproto.TypeDone || !alive(launched.PID) {
		t.Fatalf("launch: type %d, %+v", typ, launched)
	}
	if typ := old(shimproto.TypeStats, &one, &shimproto.Stats{}); typ != shimproto.TypeDone {
		t.Errorf("stats: type %d", typ)
	}
	var exit, waited shimproto.Exit
	kill := &shimproto.Kill{Named: one, Number: 15, Grace: int64(time.Hour)}
	if typ := old(shimproto.TypeKill, kill, &exit); typ != shimproto.TypeDone || exit.Signal != 15 {
		t.Errorf("kill: type %d, %+v", typ, exit)
	}
	if typ := old(shimproto.TypeWait, &one, &waited); typ != shimproto.TypeDone || waited.Signal != 15 {
		t.Errorf("wait: type %d, %+v", typ, waited)
	}
	if typ := old(shimproto.TypeSignal, &shimproto.Signal{Named: one, Number: 1}, &exit); typ != shimproto.TypeFault {
		t.Errorf("a signal to what has ended: type %d", typ)
	}
	if typ := old(shimproto.TypeForget, &one, &shimproto.Forgotten{}); typ != shimproto.TypeDone {
		t.Errorf("forget: type %d", typ)
	}
	var list shimproto.List
	if old(shimproto.TypeList, nil, &list); len(list.Entries) != 1 || list.Entries[0].Name != "other.1" {
		t.Errorf("list: %+v", list)
	}
	if typ := old(shimproto.TypeLaunch, m, &launched); typ != shimproto.TypeFault {
		t.Errorf("the same launch again: type %d", typ)
	}
}
