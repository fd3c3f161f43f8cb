package shim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/procs"
	"berth/internal/client/shim"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// talk is one conversation with a shim by hand, so that a test can repeat, delay and cut off what an agent says.
type talk struct {
	net.Conn
	t testing.TB
}

// speak opens a conversation in a version of the protocol.
func speak(t testing.TB, socket string, version int) *talk {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	k := &talk{Conn: c, t: t}
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	k.say(shimproto.TypeHello, &shimproto.Hello{Min: version, Max: version})
	var hello shimproto.HelloReply
	if typ := k.hear(&hello); typ != shimproto.TypeHelloReply || hello.Version != version {
		t.Fatalf("greeted with type %d, %+v", typ, hello)
	}
	return k
}

func (k *talk) say(typ shimproto.Type, m shimproto.Message) {
	k.t.Helper()
	if err := shimproto.Write(k, typ, m); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hear(m shimproto.Message) shimproto.Type {
	k.t.Helper()
	typ, payload, err := shimproto.Read(k)
	if err != nil {
		k.t.Fatal(err)
	}
	switch typ {
	case shimproto.TypeFault:
		m = &shimproto.Fault{}
	case shimproto.TypeEnded:
		if _, ok := m.(*shimproto.Ended); !ok {
			m = &shimproto.Ended{}
		}
	}
	if err := shimproto.Unmarshal(payload, m); err != nil {
		k.t.Fatal(err)
	}
	if f, ok := m.(*shimproto.Fault); ok {
		k.t.Logf("refused: %s", f.Text)
	}
	return typ
}

// hangUp ends the conversation without waiting for an answer.
func (k *talk) hangUp() {
	k.t.Helper()
	if err := k.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// unread is how many bytes have come that were not heard yet.
func (k *talk) unread() (n int) {
	k.t.Helper()
	raw, err := k.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		k.t.Fatal(err)
	}
	var ioctlErr error
	if err := raw.Control(func(fd uintptr) { n, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		k.t.Fatal(err)
	}
	if ioctlErr != nil {
		k.t.Fatal(ioctlErr)
	}
	return n
}

// ask says one thing and returns the type of the answer.
func ask(t testing.TB, socket string, typ shimproto.Type, m, reply shimproto.Message) shimproto.Type {
	t.Helper()
	k := speak(t, socket, shimproto.Version)
	defer k.hangUp()
	k.say(typ, m)
	return k.hear(reply)
}

func web(attempt int) shimproto.Named {
	return shimproto.Named{Name: fmt.Sprintf("web.%d", attempt), Task: "web", Attempt: attempt}
}

func launchOf(n shimproto.Named, script string) *shimproto.Launch {
	return &shimproto.Launch{
		Named: n,
		Argv:  []string{"/bin/sh", "-c", script},
		Env:   []string{"PATH=/usr/bin:/bin"},
		Dir:   "/",
		Logs:  shimproto.Logs{Disabled: true},
	}
}

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

// ignoresTerm prints a line for each TERM that it hears and goes on.
func ignoresTerm(heard string) string {
	return "trap 'echo term >> " + heard + "' TERM; touch " + heard + "; while :; do sleep 0.02; done"
}

// TestAStopHasOneDeadlineAndOneEnd: given a task that does not listen, when its stop is asked for again and again, with
// agents that hang up, then it gets one signal, the nearest deadline holds, and all learn the same end, for ever.
func TestAStopHasOneDeadlineAndOneEnd(t *testing.T) {
	l := newLauncher(t)
	heard := filepath.Join(tempDir(t), "heard")
	p := start(t, l, ids.New(), ignoresTerm(heard), nil)
	socket := p.Handle().Socket
	until(t, "the task listens", func() bool { _, err := os.Stat(heard); return err == nil })

	kill := func(grace time.Duration) *talk {
		k := speak(t, socket, shimproto.Version)
		k.say(shimproto.TypeKill, &shimproto.Kill{Named: web(1), Number: int(unix.SIGTERM), Grace: int64(grace)})
		return k
	}
	kill(time.Hour).hangUp()
	until(t, "the task got its signal", func() bool { b, err := os.ReadFile(heard); return err == nil && len(b) > 0 })
	patient := kill(time.Hour)
	kill(300 * time.Millisecond).hangUp()
	late := kill(time.Hour)
	var first, second shimproto.Exit
	if typ := patient.hear(&first); typ != shimproto.TypeDone || first.Signal != int(unix.SIGKILL) {
		t.Fatalf("the end: type %d, %+v", typ, first)
	}
	late.hear(&second)
	again := shimproto.Exit{}
	ask(t, socket, shimproto.TypeKill, &shimproto.Kill{Named: web(1), Number: int(unix.SIGTERM), Grace: 1}, &again)
	waited := shimproto.Exit{}
	n := web(1)
	ask(t, socket, shimproto.TypeWait, &n, &waited)
	for _, other := range []shimproto.Exit{second, again, waited} {
		if diff := cmp.Diff(first, other); diff != "" {
			t.Errorf("another end: %s", diff)
		}
	}
	if b, err := os.ReadFile(heard); err != nil || string(b) != "term\n" {
		t.Errorf("the task got %q, %v", b, err)
	}
	for name, m := range map[shimproto.Type]shimproto.Message{
		shimproto.TypeSignal: &shimproto.Signal{Named: web(1), Number: 1},
		shimproto.TypeStats:  &n,
		shimproto.TypeExec:   &shimproto.Exec{Named: web(1), Argv: []string{"true"}},
		shimproto.TypeLaunch: launchOf(web(1), "exec sleep 1000"),
	} {
		var ended shimproto.Ended
		typ := ask(t, socket, name, m, &ended)
		if typ != shimproto.TypeEnded || !cmp.Equal(first, ended.Exit) || ended.Newest != 1 {
			t.Errorf("request %d is answered with type %d, %+v", name, typ, ended)
		}
	}
	for range 2 {
		if typ := ask(t, socket, shimproto.TypeForget, &n, &shimproto.Forgotten{}); typ != shimproto.TypeDone {
			t.Errorf("forget is answered with type %d", typ)
		}
	}
	ask(t, socket, shimproto.TypeWait, &n, &waited)
	if !cmp.Equal(first, waited) {
		t.Errorf("after it was forgotten the end is %+v", waited)
	}
}

// TestAKillTimeoutNeedsNoAgent: given a stop whose agent hung up, then it ends in time all the same.
func TestAKillTimeoutNeedsNoAgent(t *testing.T) {
	l := newLauncher(t)
	heard := filepath.Join(tempDir(t), "heard")
	p := start(t, l, ids.New(), ignoresTerm(heard), nil)
	until(t, "the task listens", func() bool { _, err := os.Stat(heard); return err == nil })
	ctx, giveUp := context.WithCancel(short(t))
	stopped := make(chan error, 1)
	go func() { stopped <- p.Kill(ctx, "TERM", time.Hour) }()
	until(t, "the task has got the signal", func() bool {
		b, err := os.ReadFile(heard)
		return err == nil && len(b) > 0
	})
	giveUp()
	if err := <-stopped; !fault.Has(err, fault.Canceled) {
		t.Errorf("the stop that is given up: %v", err)
	}
	k := speak(t, p.Handle().Socket, shimproto.Version)
	k.say(shimproto.TypeKill,
		&shimproto.Kill{Named: web(1), Number: int(unix.SIGTERM), Grace: int64(200 * time.Millisecond)})
	k.hangUp()
	until(t, "the task is ended", func() bool { return !alive(p.Handle().PID) })
	if err := p.Kill(short(t), "TERM", time.Hour); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(short(t)); err != nil || exit.Signal != int(unix.SIGKILL) {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// TestARequestTouchesNoNewerAttempt: given a task in its second attempt, when requests about the first arrive late or
// doubled, then they are answered with its end, and the second does not notice.
func TestARequestTouchesNoNewerAttempt(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	socket, one := p.Handle().Socket, web(1)
	var same, second shimproto.Launched
	typ := ask(t, socket, shimproto.TypeLaunch, launchOf(one, "exec sleep 2000"), &same)
	if typ != shimproto.TypeDone || same.PID != p.Handle().PID || same.Cgroup != p.Handle().Cgroup {
		t.Fatalf("the launch, doubled, is answered with type %d, %+v", typ, same)
	}
	waits := speak(t, socket, shimproto.Version)
	waits.say(shimproto.TypeWait, &one)
	typ = ask(t, socket, shimproto.TypeLaunch, launchOf(web(2), "exec sleep 3000"), &second)
	if typ != shimproto.TypeDone || !alive(second.PID) {
		t.Fatalf("the second attempt: type %d, %+v", typ, second)
	}
	if alive(same.PID) {
		t.Error("two attempts of a task live")
	}
	var end shimproto.Exit
	if typ := waits.hear(&end); typ != shimproto.TypeDone || end.Signal != int(unix.SIGKILL) {
		t.Errorf("who waited for the first hears type %d, %+v", typ, end)
	}
	var exit shimproto.Exit
	var ended shimproto.Ended
	ask(t, socket, shimproto.TypeKill, &shimproto.Kill{Named: one}, &exit)
	ask(t, socket, shimproto.TypeSignal, &shimproto.Signal{Named: one, Number: int(unix.SIGKILL)}, &ended)
	ask(t, socket, shimproto.TypeForget, &one, &shimproto.Forgotten{})
	if !cmp.Equal(end, exit) || !cmp.Equal(end, ended.Exit) {
		t.Errorf("the ends of the first attempt: %+v, %+v, %+v", end, exit, ended.Exit)
	}
	typ = ask(t, socket, shimproto.TypeLaunch, launchOf(one, "exec sleep 1000"), &ended)
	if typ != shimproto.TypeEnded || ended.Newest != 2 {
		t.Errorf("a late launch of the first: type %d, %+v", typ, ended)
	}
	if !alive(second.PID) {
		t.Error("the second attempt suffered")
	}
	three := web(3)
	if typ := ask(t, socket, shimproto.TypeKill, &shimproto.Kill{Named: three}, &exit); typ != shimproto.TypeFault {
		t.Errorf("a kill of what was never launched: type %d", typ)
	}
}

// stuck describes an attempt whose start never ends by itself: a part of its root lies on a file system that answers
// nobody.
func stuck(t *testing.T, n shimproto.Named) *shimproto.Launch {
	t.Helper()
	m := launchOf(n, "exec sleep 1000")
	m.Isolate = &shimproto.Isolate{
		Root:   tempDir(t),
		System: []string{"/bin", "/usr", "/lib", "/lib64"},
		Binds:  []shimproto.Bind{{Source: filepath.Join(mute(t), "any"), Target: "/mnt", ReadOnly: true}},
	}
	return m
}

// mute mounts a file system in user space that nobody serves: who looks for a name in it waits until it is killed.
func mute(t *testing.T) string {
	t.Helper()
	served, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("a start that hangs needs a kernel with file systems in user space, and this one has no /dev/fuse")
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", served.Fd())
	if err := unix.Mount("mute", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(served.Close(), unix.Unmount(dir, 0)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestAShimRemembersTheGoodByeOfACancelledLaunch: given a launch that is given up while it is under way, when the agent
// says good-bye once, then the shim undoes the launch, and ends.
func TestAShimRemembersTheGoodByeOfACancelledLaunch(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	socket, one := p.Handle().Socket, web(1)
	launch := speak(t, socket, shimproto.Version)
	launch.say(shimproto.TypeLaunch, stuck(t, web(2)))
	until(t, "the second attempt starts", func() bool {
		var list shimproto.List
		ask(t, socket, shimproto.TypeList, nil, &list)
		return len(list.Entries) == 1 && list.Entries[0].Attempt == 2
	})
	if alive(p.Handle().PID) {
		t.Error("an attempt is started while the one before lives")
	}
	launch.hangUp()
	two := web(2)
	kill := speak(t, socket, shimproto.Version)
	kill.say(shimproto.TypeKill, &shimproto.Kill{Named: two})
	ask(t, socket, shimproto.TypeForget, &one, &shimproto.Forgotten{})
	var bye shimproto.Forgotten
	ask(t, socket, shimproto.TypeBye, nil, &bye)
	until(t, "the shim has ended", func() bool { return !alive(p.Handle().ShimPID) || zombie(p.Handle().ShimPID) })
	if err := l.EndAll(short(t)); err != nil {
		t.Error(err)
	}
	if left := cgroups(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func zombie(pid int) bool {
	_, err := procs.StartTime(pid)
	return fault.Has(err, fault.NotFound)
}

// TestALaterLaunchWithdrawsTheGoodBye: given a shim that was asked to end when it holds nothing, when a task is
// launched in it after that, then it stays when it holds nothing again.
func TestALaterLaunchWithdrawsTheGoodBye(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	socket := p.Handle().Socket
	var bye shimproto.Forgotten
	if ask(t, socket, shimproto.TypeBye, nil, &bye); bye.Last {
		t.Error("a shim ends while it holds a task")
	}
	ask(t, socket, shimproto.TypeLaunch, launchOf(web(2), "exec sleep 1000"), &shimproto.Launched{})
	two := web(2)
	ask(t, socket, shimproto.TypeKill, &shimproto.Kill{Named: two}, &shimproto.Exit{})
	if ask(t, socket, shimproto.TypeForget, &two, &bye); bye.Last {
		t.Error("the good-bye from before the launch still counts")
	}
	if ask(t, socket, shimproto.TypeBye, nil, &bye); !bye.Last {
		t.Error("it holds nothing and stays")
	}
}

// TestALaunchThatWasGivenUpIsOver: given a launch that was aborted, when an agent tries the same attempt, then it
// learns that a new one is needed, and that one runs.
func TestALaunchThatWasGivenUpIsOver(t *testing.T) {
	l := newLauncher(t)
	alloc := ids.New()
	p := start(t, l, alloc, "exec sleep 1000", nil)
	socket := p.Handle().Socket
	launch := speak(t, socket, shimproto.Version)
	launch.say(shimproto.TypeLaunch, stuck(t, web(2)))
	until(t, "the second attempt starts", func() bool {
		var list shimproto.List
		ask(t, socket, shimproto.TypeList, nil, &list)
		return len(list.Entries) == 1 && list.Entries[0].Starting
	})
	doubled := speak(t, socket, shimproto.Version)
	doubled.say(shimproto.TypeLaunch, stuck(t, web(2)))
	two := web(2)
	waits := speak(t, socket, shimproto.Version)
	waits.say(shimproto.TypeWait, &two)
	launch.hangUp()
	doubled.hangUp()
	if err := l.Abort(short(t), ids.Alloc(alloc), "web", 2); err != nil {
		t.Error(err)
	}
	var end shimproto.Exit
	if typ := waits.hear(&end); typ != shimproto.TypeDone || !end.Cancelled {
		t.Fatalf("who waited for it hears type %d, %+v", typ, end)
	}
	spec := &driver.LaunchSpec{
		AllocID: alloc,
		Task:    "web",
		Attempt: 2,
		Argv:    []string{"/bin/sleep", "1000"},
		Logs:    driver.LogConfig{Disabled: true},
	}
	_, err := l.Launch(short(t), spec)
	var over *driver.AttemptOver
	if !errors.As(err, &over) || over.Newest != 2 {
		t.Fatalf("the same attempt: %v", err)
	}
	spec.Attempt = 3
	if _, err := l.Launch(short(t), spec); err != nil {
		t.Error(err)
	}
}

// TestALeaseThatEndsKillsWithoutAnAgent: given a task with a lease, when no renewal comes before its deadline, then the
// shim kills it, and starts none until a later deadline is set.
func TestALeaseThatEndsKillsWithoutAnAgent(t *testing.T) {
	l := newLauncher(t)
	alloc := ids.New()
	if err := l.Lease(short(t), ids.Alloc(alloc), shim.Boottime()+time.Hour); !fault.Has(err, fault.NotFound) {
		t.Errorf("a lease for an alloc without a shim: %v", err)
	}
	heard := filepath.Join(tempDir(t), "heard")
	p := start(t, l, alloc, ignoresTerm(heard), nil)
	give := func(until time.Duration) {
		t.Helper()
		if err := l.Lease(short(t), ids.Alloc(alloc), until); err != nil {
			t.Fatal(err)
		}
	}
	give(shim.Boottime() + time.Hour)
	give(0) // the lease ends, the tasks do not
	give(shim.Boottime() + 100*time.Millisecond)
	if exit, err := p.Wait(short(t)); err != nil || exit.Signal != int(unix.SIGKILL) {
		t.Errorf("exit %+v, %v", exit, err)
	}
	until(t, "nothing is left", func() bool { _, err := os.Stat(p.Handle().Cgroup); return os.IsNotExist(err) })
	spec := &driver.LaunchSpec{
		AllocID: alloc,
		Task:    "web",
		Attempt: 2,
		Argv:    []string{"/bin/sleep", "1000"},
		Logs:    driver.LogConfig{Disabled: true},
	}
	if _, err := l.Launch(short(t), spec); !fault.Has(err, fault.NotReady) {
		t.Errorf("a launch without a lease: %v", err)
	}
	give(shim.Boottime() + time.Hour)
	if _, err := l.Launch(short(t), spec); err != nil {
		t.Errorf("a launch under a new lease: %v", err)
	}
}

// TestAShimKeepsWhatTheAgentSaysOfItsAlloc: given shims that were launched with a description, then whoever finds them
// learns it, with what they hold; the newest counts.
func TestAShimKeepsWhatTheAgentSaysOfItsAlloc(t *testing.T) {
	dir := tempDir(t)
	bundle := []byte("first")
	l, err := shim.New(shim.Config{Dir: dir, Program: program, Slice: slice,
		Bundle: func(ids.Alloc) []byte { return bundle }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.EndAll(short(t)); err != nil {
			t.Error(err)
		}
	})
	alloc := ids.New()
	p := start(t, l, alloc, "exec sleep 1000", nil)
	bundle = []byte("second")
	start(t, l, alloc, "exit 3", func(s *driver.LaunchSpec) { s.Task = "db" })
	bundle = bytes.Repeat([]byte("x"), shimproto.MaxBundle+1) // too large to keep: the older one stays
	start(t, l, alloc, "exec sleep 1000", func(s *driver.LaunchSpec) { s.Task, s.Attempt = "db", 2 })
	until(t, "the shim reports all", func() bool {
		all, err := launcherAt(t, dir).Held(short(t))
		if err != nil || len(all) != 1 {
			t.Fatalf("held: %+v, %v", all, err)
		}
		h := all[0]
		return h.Err == nil && string(h.Alloc) == alloc && string(h.Bundle) == "second" &&
			h.PID == p.Handle().ShimPID && !h.Cancelled && !h.Dead && len(h.Tasks) == 2 &&
			h.Tasks[0].Task == "db" && h.Tasks[0].Attempt == 2 && !h.Tasks[0].Ended &&
			strings.Contains(h.Tasks[1].Cgroup, "web.1")
	})
	if err := unix.Kill(p.Handle().ShimPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "its end is observed", func() bool {
		all, err := l.Held(short(t))
		return err == nil && len(all) == 1 && all[0].Dead && string(all[0].Alloc) == alloc
	})
}
