package watchdog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/watchdog"
	"berth/internal/testkit/await"
	"berth/internal/testkit/mountns"
)

// freezerEnv names for how long, and a directory whose file system this program is to freeze.
const freezerEnv = "WATCHDOG_TEST_FREEZE"

func TestMain(m *testing.M) {
	if os.Args[0] == watchdog.Role {
		os.Exit(watchdog.Main())
	}
	if order := os.Getenv(freezerEnv); order != "" {
		fmt.Fprintln(os.Stderr, freeze(order))
		os.Exit(1)
	}
	mountns.Main(m.Run)
}

// freeze freezes a file system, says so, and keeps it so until its context ends.
func freeze(order string) error {
	limit, dir, _ := strings.Cut(order, " ")
	d, err := time.ParseDuration(limit)
	if err != nil {
		return err
	}
	return image.WhileFrozen(context.Background(), dir, d, func(ctx context.Context) error {
		fmt.Println("frozen")
		<-ctx.Done()
		return nil
	})
}

// freezer is this program as one that freezes, when it has.
func freezer(t *testing.T, limit time.Duration, dir string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), freezerEnv+"="+limit.String()+" "+dir)
	said := &strings.Builder{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "frozen\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return cmd, said
}

// mounted is a file system of its own.
func mounted(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	file, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, argv := range [][]string{{"truncate", "-s", "16M", file}, {"mkfs.ext4", "-q", file},
		{"mount", "-o", "loop", file, dir}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(image.Thaw(dir), unix.Unmount(dir, 0)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// writer writes to a file system, which takes as long as it is frozen.
func writer(dir string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(filepath.Join(dir, "written"), []byte("x"), 0o600) }()
	return done
}

// goesOn waits until a writer has written. It thaws before it fails, so that the test ends.
func goesOn(t *testing.T, dir string, written <-chan error) {
	t.Helper()
	t.Cleanup(func() { _ = image.Thaw(dir) }) // for the writer, if it hangs
	var err error
	await.Eventually(t, "the writer goes on", func() bool {
		select {
		case err = <-written:
			return true
		default:
			return false
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// still asserts that a writer hangs.
func still(t *testing.T, written <-chan error) {
	t.Helper()
	select {
	case err := <-written:
		t.Fatalf("the file system was not frozen: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
}

// Given a file system that is frozen for an hour, when the process is killed that froze it, then its writers go on.
func TestAFileSystemIsThawedWhenItsFreezerIsKilled(t *testing.T) {
	dir := mounted(t)
	cmd, _ := freezer(t, time.Hour, dir)
	written := writer(dir)
	still(t, written)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	goesOn(t, dir, written)
	_ = cmd.Wait() // killed
}

// Given a process that hangs while a file system is frozen by it, when its limit has passed, then the writers go on;
// when it goes on, too, it learns that its work does not count.
func TestAFileSystemIsThawedWhenItsFreezerHangs(t *testing.T) {
	dir := mounted(t)
	cmd, said := freezer(t, time.Second, dir)
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn(t, dir, writer(dir))
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), image.ErrTooLong.Error()) {
		t.Errorf("it ended with %v and said %q", err, said)
	}
}

// Given a freezer that is done, then nothing of its child is left: it keeps no file system busy.
func TestNothingIsLeftOfAWatchThatIsOver(t *testing.T) {
	dir := mounted(t)
	if err := image.WhileFrozen(t.Context(), dir, time.Hour, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mount", "-t", "tmpfs", "tmpfs", dir).Run(); err != nil { // for the cleanup
		t.Fatal(err)
	}
}
