package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The most that an attempt takes before it is held to have no end.
const (
	mostProcesses   = 5_000
	mostDescriptors = 2_000_000
	mostTerminals   = 200
	mostBytes       = 512 << 20
)

// excesses are attempts to take more than a task's share that its task survives.
func excesses() []Attempt {
	return []Attempt{
		{"excess: descriptors", []string{"EMFILE"}, descriptors},
		{"excess: terminals", []string{"ENOSPC"}, terminals},
		{"excess: fill the task's root", []string{"ENOSPC", "EACCES", "EROFS"}, fill("/hostile")},
		{"excess: fill /run", []string{"ENOSPC", "EACCES", "EROFS"}, fill("/run/hostile")},
		{"excess: fill /dev", []string{"ENOSPC", "EACCES", "EROFS"}, fill("/dev/hostile")},
		{"excess: fill shared memory", []string{"ENOSPC"}, fill("/dev/shm/hostile")},
		{"excess: fill the secrets", []string{"ENOSPC"}, fill("/secrets/hostile")},
		{"excess: a core file", []string{"none"}, core},
		{"excess: processes", []string{"EAGAIN"}, fork},
	}
}

// terminals opens more than a task's share of those that the node has.
func terminals() string {
	var held []*os.File
	defer func() {
		for _, f := range held {
			_ = f.Close() // nothing was written
		}
	}()
	for range mostTerminals {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return answer(err)
		}
		held = append(held, f)
	}
	return Allowed
}

// acts are what the program does when it is started for one thing alone.
var acts = map[string]func() error{
	"chroot":  chroot,
	"setuid":  func() error { return say(fmt.Sprint(os.Geteuid())) },
	"abort":   abort,
	"tcp":     tcpBuffers,
	"udp":     udpBuffers,
	"memory":  func() error { return take(0) },
	"unnamed": unnamed,
	"lay":     lay,
	"flood":   flood,
	"disk":    disk,
	"inodes":  inodes,
	"names":   names,
	"gone":    gone,
	"open":    open,
	"killall": killAll,
	"swap":    swap,
	"peek":    peek,
	"ptmx":    ptmx,
}

func say(text string) error {
	_, err := fmt.Println(text)
	return err
}

// act starts this program for one thing, and answers what it says.
func act(what string) func() string {
	return func() string {
		path := "/proc/self/exe"
		if what == "setuid" {
			path = "/rig/setuid"
		}
		out, err := exec.Command(path, what).CombinedOutput()
		got := strings.TrimSpace(string(out))
		switch {
		case err != nil:
			return fmt.Sprint(err, ": ", got)
		case what == "setuid" && got == fmt.Sprint(os.Geteuid()):
			return "the same user"
		}
		return got
	}
}

// chroot leaves a root by the old way: go below a new one with the working directory outside, up, and make that root.
func chroot() error {
	before, err := os.Stat("/")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "root")
	if err != nil {
		return err
	}
	if err := unix.Chroot(dir); err != nil {
		return say(answer(err))
	}
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if after, err := os.Stat("/"); err != nil || !os.SameFile(before, after) {
		return errors.Join(err, say("another root"))
	}
	return say("the same root")
}

func descriptors() string {
	opened := []*os.File{}
	defer func() {
		for _, f := range opened {
			_ = f.Close() // opened for reading
		}
	}()
	for range mostDescriptors {
		f, err := os.Open("/dev/null")
		if err != nil {
			return answer(err)
		}
		opened = append(opened, f)
	}
	return Allowed
}

// fill writes to a new file until that is refused, and removes it.
func fill(path string) func() string {
	return func() string {
		f, err := os.Create(path)
		if err != nil {
			return answer(err)
		}
		err = write(f)
		return answer(errors.Join(err, f.Close(), os.Remove(path)))
	}
}

func write(f *os.File) error {
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range mostBytes / len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// abort ends this process by a signal, which comes when it comes.
func abort() error {
	if err := unix.Kill(os.Getpid(), unix.SIGABRT); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return errors.New("the signal did not come")
}

// core has a process of its own ended by a signal that leaves a core file.
func core() string {
	cmd := exec.Command("/proc/self/exe", "abort")
	cmd.Env = append(os.Environ(), "GOTRACEBACK=crash")
	cmd.Dir = "/tmp"
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return answer(err)
	}
	status, ok := exit.Sys().(interface{ CoreDump() bool })
	if !ok || status.CoreDump() {
		return "dumped"
	}
	return "none"
}

// fork starts processes until that is refused, and ends them.
func fork() string {
	var started []*exec.Cmd
	defer func() {
		for _, c := range started {
			_ = c.Process.Kill() // it may have ended by itself
			_ = c.Wait()         // it was killed
		}
	}()
	for range mostProcesses {
		c := exec.Command("/bin/sleep", "1000")
		if err := c.Start(); err != nil {
			return answer(err)
		}
		started = append(started, c)
	}
	return Allowed
}

// take takes memory and writes to it: with a descriptor in a file of that, else of its own.
func take(fd int) error {
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if fd > 0 {
		flags = unix.MAP_SHARED
	} else {
		fd = -1
	}
	mem, err := unix.Mmap(fd, 0, mostBytes, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return err
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	return say(Allowed)
}

func unnamed() error {
	fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, mostBytes); err != nil {
		return err
	}
	return take(fd)
}

// wait goes on until it is killed.
func wait() error {
	for {
		if err := unix.Pause(); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lay lays links and a pipe where whoever reads the task's files comes by, then waits.
func lay() error {
	err := errors.Join(
		os.Symlink("/etc/shadow", "/local/shadow"),
		os.Symlink("../secrets/own", "/local/secret"),
		os.Symlink("../../../../../../../../../../", "/local/root"),
		unix.Mkfifo("/local/pipe", 0o666),
		os.WriteFile("/secrets/own", []byte("of the task"), 0o600),
		os.Mkdir(noText, 0o755),
		say(End),
	)
	if err != nil {
		return err
	}
	return wait()
}

// flood writes more to its output than a job's logs hold, then waits.
func flood() error {
	if err := write(os.Stdout); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stderr, End); err != nil {
		return err
	}
	return wait()
}

// disk writes more to the alloc's directory than the job asks for, then waits. What a slow disk has not taken yet
// counts as the task's memory, of which it has less: so each piece is waited for.
func disk() error {
	f, err := os.Create("/local/hostile")
	if err != nil {
		return err
	}
	return grow(f)
}

func grow(f *os.File) error {
	for range 64 {
		_, err := f.Write(make([]byte, 1<<20))
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(wait(), f.Close())
}

// inodes makes files without content, then waits.
func inodes() error {
	for i := range 20_000 {
		f, err := os.Create(fmt.Sprint("/local/", i))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return wait()
}

// noText is the name of a file that is no text in any encoding that people use.
const noText = "/alloc/\xff\xfe"

// names writes too much of the disk where whoever tells of it has no word for the place.
func names() error {
	if err := os.Mkdir(noText, 0o755); err != nil {
		return err
	}
	f, err := os.Create(noText + "/\xff")
	if err != nil {
		return err
	}
	return grow(f)
}

// gone writes too much of the disk while another process makes and removes directories.
func gone() error {
	churn := exec.Command("/bin/sh", "-c", "while :; do mkdir $(seq 500); rmdir $(seq 500); done")
	if err := os.Mkdir("/local/churn", 0o755); err != nil {
		return err
	}
	churn.Dir = "/local/churn"
	if err := churn.Start(); err != nil {
		return err
	}
	return disk()
}

// open writes too much of the disk where no directory shows it: into a file that is removed, and stays open.
func open() error {
	f, err := os.Create("/local/hostile")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	return grow(f)
}

// killAll kills every process that it can, and tells that it lives.
func killAll() error {
	err := unix.Kill(-1, unix.SIGKILL)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	if err := say(End); err != nil {
		return err
	}
	return wait()
}
