package shim_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/shim"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/rawexec"
	"berth/internal/shimproto"
	"berth/internal/testkit/await"
)

// TestHelperAgent is no test: it is the agent that TestTasksOutliveAKilledAgent starts and kills.
func TestHelperAgent(t *testing.T) {
	if os.Getenv("BERTH_TEST_AGENT") == "" {
		t.Skip("only run as a child of TestTasksOutliveAKilledAgent")
	}
	dir, work := os.Getenv("BERTH_TEST_DIR"), os.Getenv("BERTH_TEST_WORK")
	l, err := shim.New(shim.Config{Dir: dir, Program: func() (*os.File, error) {
		return os.Open(os.Getenv("BERTH_TEST_HELPER"))
	}, Slice: os.Getenv("BERTH_TEST_SLICE")})
	if err != nil {
		t.Fatal(err)
	}
	alloc := ids.Alloc(ids.New())
	script := `echo ready; while ! test -e local/go; do sleep 0.02; done; echo after; exit 42`
	for name, d := range map[string]driver.Driver{"plain": rawexec.New(rawexec.Config{Enabled: true}, l),
		"caged": exec.New(exec.Config{}, l)} {
		task, err := d.Start(short(t), drivertest.Config(t, work, alloc, name, script))
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(task.Handle())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\nHANDLE %s\n", line)
	}
	select {} // until it is killed
}

func TestTasksOutliveAKilledAgent(t *testing.T) {
	dir, work := tempDir(t), tempDir(t)
	agent := osexec.Command(os.Args[0], "-test.run=^TestHelperAgent$", "-test.v")
	agent.Env = append(os.Environ(), "BERTH_TEST_AGENT=1", "BERTH_TEST_DIR="+dir, "BERTH_TEST_WORK="+work,
		"BERTH_TEST_HELPER="+helper, "BERTH_TEST_SLICE="+slice)
	agent.Stderr = os.Stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var handles []driver.TaskHandle
	for lines := bufio.NewScanner(out); len(handles) < 2 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "HANDLE "); ok {
			var h driver.TaskHandle
			if err := json.Unmarshal([]byte(text), &h); err != nil {
				t.Fatal(err)
			}
			handles = append(handles, h)
		}
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait() // it was killed
	if len(handles) != 2 {
		t.Fatalf("the agent started %d tasks of 2", len(handles))
	}
	l := launcherAt(t, dir)
	t.Cleanup(func() {
		if err := l.EndAll(short(t)); err != nil {
			t.Error(err)
		}
	})
	for _, h := range handles {
		var d driver.Driver = rawexec.New(rawexec.Config{Enabled: true}, l)
		if h.Driver == exec.Name {
			d = exec.New(exec.Config{}, l)
		}
		task, err := d.Recover(short(t), h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, h.Task, "local/go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		exit, err := task.Wait(short(t))
		if err != nil || exit.ExitCode != 42 {
			t.Errorf("%s: exit %+v, %v", h.Task, exit, err)
		}
		log, err := os.ReadFile(filepath.Join(work, "alloc/logs", h.Task+".stdout.0"))
		if err != nil || string(log) != "ready\nafter\n" {
			t.Errorf("%s: output %q, %v", h.Task, log, err)
		}
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
	}
	if left := append(cgroups(t), sockets(t, dir)...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// start starts a plain process.
func start(t *testing.T, l *shim.Launcher, alloc, script string, change func(*driver.LaunchSpec)) driver.Process {
	t.Helper()
	spec := &driver.LaunchSpec{
		AllocID:   alloc,
		Task:      "web",
		Attempt:   1,
		Argv:      []string{"/bin/sh", "-c", script},
		Env:       []string{"PATH=/usr/bin:/bin"},
		Logs:      driver.LogConfig{Dir: tempDir(t)},
		Resources: driver.Resources{CPUShares: 100, MemoryMB: 50},
	}
	if change != nil {
		change(spec)
	}
	p, err := l.Launch(short(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAHandleOfAnotherBootIsNotFound(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	h := p.Handle()
	h.Boot = "another"
	if _, err := l.Attach(short(t), h); !fault.Has(err, fault.NotFound) {
		t.Errorf("attach: %v", err)
	}
	if _, err := p.Stats(short(t)); err != nil {
		t.Errorf("the running process suffered: %v", err)
	}
}

func TestAShimIsDeafToSignalsForTheAgent(t *testing.T) {
	l, logs := newLauncher(t), tempDir(t)
	p := start(t, l, ids.New(), `trap 'exit 3' TERM; echo; while :; do sleep 0.02; done`,
		func(s *driver.LaunchSpec) { s.Logs.Dir = logs })
	await.Eventually(t, "the task to listen", func() bool {
		out, err := os.ReadFile(filepath.Join(logs, "web.stdout.0"))
		return err == nil && len(out) > 0
	})
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if err := unix.Kill(p.Handle().ShimPID, sig); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	if err := p.Kill(short(t), "TERM", time.Minute); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(short(t)); err != nil || exit.ExitCode != 3 {
		t.Errorf("exit %+v, %v: the task must hear what its shim does not", exit, err)
	}
}

func TestATaskInheritsNothingOfItsShim(t *testing.T) {
	l, logs := newLauncher(t), tempDir(t)
	p := start(t, l, ids.New(), `ls -l /proc/self/fd | tail -n +2 | awk '{print $9, $10, $11}'`,
		func(s *driver.LaunchSpec) { s.Logs.Dir = logs })
	if _, err := p.Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(logs, "web.stdout.0"))
	if err != nil || strings.Contains(string(out), "socket") || strings.Count(string(out), "pipe") > 3 ||
		!strings.Contains(string(out), "0 -> /dev/null") {
		t.Errorf("descriptors of a task:\n%s%v", out, err)
	}
	info, err := os.Stat(filepath.Dir(p.Handle().Socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory: %v, %v", info.Mode(), err)
	}
	if err := p.Kill(short(t), "", 0); err != nil {
		t.Error(err)
	}
}

func TestAShimRefusesAnotherProtocolAndBrokenFrames(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	talk := func(send func(net.Conn)) (shimproto.Type, []byte) {
		t.Helper()
		c, err := net.Dial("unix", p.Handle().Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		send(c)
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		typ, payload, err := shimproto.Read(c)
		if err != nil {
			t.Fatal(err)
		}
		return typ, payload
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		kind fault.Kind
		send func(net.Conn)
	}{
		"later agent that dropped this version": {fault.Unsupported, func(c net.Conn) {
			must(shimproto.Write(c, shimproto.TypeHello,
				&shimproto.Hello{Min: shimproto.Version + 1, Max: shimproto.Version + 5}))
		}},
		"no hello": {fault.Invalid, func(c net.Conn) { must(shimproto.WriteRaw(c, shimproto.TypeList, nil)) }},
		"huge frame": {fault.Invalid, func(c net.Conn) {
			_, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff, 1})
			must(err)
		}},
	} {
		typ, payload := talk(c.send)
		var f shimproto.Fault
		must(shimproto.Unmarshal(payload, &f))
		if typ != shimproto.TypeFault || f.Kind != c.kind {
			t.Errorf("%s: type %d, %+v", name, typ, f)
		}
	}
	typ, _ := talk(func(c net.Conn) {
		must(shimproto.Write(c, shimproto.TypeHello, &shimproto.Hello{Min: 1, Max: shimproto.Version + 9}))
	})
	if typ != shimproto.TypeHelloReply {
		t.Errorf("a later agent that still speaks this version is refused")
	}
	// Rubbish after a request that waits ends that conversation alone.
	talk(func(c net.Conn) {
		must(shimproto.Write(c, shimproto.TypeHello, &shimproto.Hello{Min: 1, Max: 1}))
		must(shimproto.Write(c, shimproto.TypeWait, &shimproto.Named{Name: "web.1"}))
		_, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		must(err)
	})
	time.Sleep(20 * time.Millisecond)
	if _, err := p.Stats(short(t)); err != nil {
		t.Errorf("the shim suffered: %v", err)
	}
}

func TestALaunchThatIsGivenUpLeavesNothing(t *testing.T) {
	l := newLauncher(t)
	alloc := ids.New()
	other := start(t, l, alloc, "exec sleep 1000", nil)
	if err := unix.Kill(other.Handle().ShimPID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := withTimeout(100 * time.Millisecond) // runs out before the shim answers
	defer cancel()
	_, err := l.Launch(ctx, &driver.LaunchSpec{
		AllocID: alloc,
		Task:    "db",
		Attempt: 1,
		Argv:    []string{"/bin/sleep", "1000"},
		Logs:    driver.LogConfig{Disabled: true},
	})
	if !fault.Has(err, fault.Timeout) {
		t.Errorf("launch: %v", err)
	}
	if err := unix.Kill(other.Handle().ShimPID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Stats(short(t)); err != nil {
		t.Fatal(err)
	}
	if err := l.Abort(short(t), ids.Alloc(alloc), "db", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "the process that nobody waited for is not there", func() bool {
		entries, err := os.ReadDir(filepath.Dir(other.Handle().Cgroup))
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), "db") })
	})
}

// TestALaunchGoesOnWithoutItsAgent: given an agent that hangs up before it has read the answer to a launch, at any
// moment, then what was launched has run once, and the next agent that asks for the same attempt learns of it.
func TestALaunchGoesOnWithoutItsAgent(t *testing.T) {
	for name, waits := range map[string]bool{"at once": false, "with the answer unread": true} {
		t.Run(name, func(t *testing.T) {
			l := newLauncher(t)
			alloc := ids.New()
			socket := start(t, l, alloc, "exec sleep 1000", nil).Handle().Socket
			ran := filepath.Join(tempDir(t), "ran")
			for task, script := range map[string]string{
				"ends": "echo $$ >> " + ran,
				"runs": "echo $$ >> " + ran + "; exec sleep 1000",
			} {
				n := shimproto.Named{Name: task + ".1", Task: task, Attempt: 1}
				k := speak(t, socket, shimproto.Version)
				k.say(shimproto.TypeLaunch, launchOf(n, script))
				if waits {
					until(t, "the answer is there", func() bool { return k.unread() > 0 })
				}
				k.hangUp()
				spec := &driver.LaunchSpec{
					AllocID: alloc,
					Task:    task,
					Attempt: 1,
					Argv:    []string{"/bin/sh", "-c", script},
					Logs:    driver.LogConfig{Disabled: true},
				}
				until(t, "it has run", func() bool { b, err := os.ReadFile(ran); return err == nil && len(b) > 0 })
				p, err := l.Launch(short(t), spec)
				if err != nil {
					t.Fatalf("%s: the same attempt: %v", task, err)
				}
				if task == "ends" {
					if exit, err := p.Wait(short(t)); err != nil || !exit.Successful() {
						t.Errorf("its end: %+v, %v", exit, err)
					}
				} else if err := l.Abort(short(t), ids.Alloc(alloc), task, 1); err != nil {
					t.Error(err)
				} else if alive(p.Handle().PID) {
					t.Error("it lives on after it was aborted")
				}
				b, err := os.ReadFile(ran)
				if err != nil || strings.Count(string(b), "\n") != 1 {
					t.Errorf("%s has run as %q, %v", task, b, err)
				}
				if err := os.Remove(ran); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Abort(short(t), ids.Alloc(alloc), "never", 1); err != nil {
				t.Errorf("an attempt that never was: %v", err)
			}
			if err := l.Abort(short(t), ids.Alloc(ids.New()), "never", 1); err != nil {
				t.Errorf("an alloc that has no shim: %v", err)
			}
		})
	}
}

func TestAShimTalksToNoOtherUser(t *testing.T) {
	l := newLauncher(t)
	p := start(t, l, ids.New(), "exec sleep 1000", nil)
	socket := p.Handle().Socket
	// Even where file modes would let somebody in.
	for path, mode := range map[string]os.FileMode{filepath.Dir(socket): 0o755, socket: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	answer := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread becomes another user and ends
		answer <- func() error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
				return errno
			}
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
				return err
			}
			var hello bytes.Buffer
			if err := shimproto.Write(&hello, shimproto.TypeHello, &shimproto.Hello{Min: 1, Max: 1}); err != nil {
				return err
			}
			_, _ = unix.Write(fd, hello.Bytes()) // it may be hung up already
			n, err := unix.Read(fd, make([]byte, 100))
			if n > 0 {
				return fmt.Errorf("it answered with %d bytes", n)
			}
			if errors.Is(err, unix.ECONNRESET) {
				return nil
			}
			return err
		}()
	}()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := l.End(short(t), ids.Alloc(strings.TrimSuffix(filepath.Base(socket), ".sock"))); err != nil {
		t.Error(err)
	}
}
