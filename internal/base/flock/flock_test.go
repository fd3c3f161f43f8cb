package flock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// open opens a lock file that names a process, anew: locks are those of an open file.
func open(t *testing.T, path, names string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := os.WriteFile(path, []byte(names), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// Given a lock that a process has which lives, or nobody knows which, then it is refused at once.
func TestALockOfALivingProcessIsRefused(t *testing.T) {
	for _, names := range []string{fmt.Sprintln(os.Getpid()), "", "somebody"} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := Try(open(t, path, names), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if err := Try(open(t, path, names), unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("a lock of %q: %v", names, err)
		}
	}
}

// Given a process that was killed while it started a program, when its child still has the lock file open, then the
// lock is waited for until the child is at its program; also while nobody has waited for the process.
func TestTheLockOfAProcessThatHasEndedIsWaitedFor(t *testing.T) {
	for _, reaped := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "lock")
		held := open(t, path, "")
		// It ends, and leaves a child that has the file open until this test closes the pipe.
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		holder := exec.Command("/bin/sh", "-c", `echo $$ >&3; (read x <&4) & exit 0`)
		holder.ExtraFiles = []*os.File{held, r}
		if err := Try(held, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(held.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
		stat := fmt.Sprintf("/proc/%d/stat", holder.Process.Pid)
		if reaped {
			if err := holder.Wait(); err != nil {
				t.Fatal(err)
			}
		} else {
			for text := ""; !ended(text); { // the child of a test, which ends by itself
				b, err := os.ReadFile(stat)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
		}
		next, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(next.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Fatalf("the child does not have the lock: %v", err)
		}
		got := make(chan error)
		go func() { got <- Try(next, unix.LOCK_EX) }()
		if err := w.Close(); err != nil { // the child goes on
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("reaped %t: %v", reaped, err)
		}
		if !reaped {
			if err := holder.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		_ = next.Close()
	}
}

func ended(stat string) bool {
	var pid int
	var name, state string
	_, err := fmt.Sscan(stat, &pid, &name, &state)
	return err == nil && state == "Z"
}

// Given a lock whose file a child has open, too, when it is given back, then another can take it at once.
func TestALockThatIsGivenBackIsFreeAlthoughAChildHasItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := open(t, path, "")
	if err := errors.Join(Try(held, unix.LOCK_EX), Name(held)); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/cat")
	child.Stdin, child.ExtraFiles = r, []*os.File{held}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Try(again, unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("while it is held: %v", err)
	}
	if err := Release(held); err != nil {
		t.Fatal(err)
	}
	if err := Try(again, unix.LOCK_EX); err != nil {
		t.Errorf("when it was given back: %v", err)
	}
	if err := errors.Join(again.Close(), w.Close(), child.Wait(), r.Close()); err != nil {
		t.Fatal(err)
	}
}
