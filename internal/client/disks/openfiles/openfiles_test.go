package openfiles_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/client/disks/openfiles"
	"berth/internal/testkit/mountns"
)

// actor makes the test's program act as the process of a task.
const actor = "BERTH_TEST_HOLD"

func TestMain(m *testing.M) {
	if how := os.Getenv(actor); how != "" {
		if err := hold(how, os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has looked
		return
	}
	mountns.Main(m.Run)
}

const size = 1 << 20

// hold holds a file of the directory in one way, after it was removed.
func hold(how, dir string) error {
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	switch how {
	case "named":
		return nil
	case "second name":
		if err := os.Link(f.Name(), f.Name()+"2"); err != nil {
			return err
		}
	case "twice":
		if _, err := unix.Dup(int(f.Fd())); err != nil {
			return err
		}
	case "mapped":
		if err := mapped(f); err != nil {
			return err
		}
	case "thread":
		return alone(f)
	case "many":
		if err := copies(0, 5000); err != nil {
			return err
		}
	case "hundred":
		if err := copies(int(f.Fd()), 100); err != nil {
			return err
		}
	case "full": // as many as fit below usual limits
		if err := copies(0, 1<<14); err != nil {
			return err
		}
	case "full of removed":
		if err := copies(int(f.Fd()), 1<<14); err != nil {
			return err
		}
	case "chroot":
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
		return unix.Chroot("/proc")
	}
	return os.Remove(f.Name())
}

// copies opens a descriptor so many times more.
func copies(fd, count int) error {
	for range count {
		if _, err := unix.Dup(fd); err != nil {
			return err
		}
	}
	return nil
}

// mapped leaves the file open by a mapping alone.
func mapped(f *os.File) error {
	if _, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	return f.Close()
}

// alone leaves the file open in one thread's own table of descriptors.
func alone(f *os.File) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: nothing else may run with this table
		err := unix.Unshare(unix.CLONE_FILES)
		done <- err
		select {}
	}()
	if err := <-done; err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	return f.Close()
}

// holder starts a process that holds a file of the directory, and returns its number.
func holder(t testing.TB, how, dir string) int {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), actor+"="+how)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends by that
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "held" {
		t.Fatalf("the holder: %q, %v", line, err)
	}
	return cmd.Process.Pid
}

func look(t testing.TB, dir string, most int, pids ...int) openfiles.Found {
	t.Helper()
	found, err := openfiles.Look(t.Context(), dir, map[string][]int{"web": pids}, most)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Given a process that holds a file of an alloc's directory, then it counts if it has no name left, once, in whichever
// way it is held; what lay elsewhere on the same file system does not.
func TestWhatIsHeldWithoutAName(t *testing.T) {
	for how, want := range map[string]int64{"removed": size, "twice": size, "mapped": size, "thread": size,
		"chroot": size, "many": size, "named": 0, "second name": 0} {
		t.Run(how, func(t *testing.T) {
			base := t.TempDir()
			dir, other := filepath.Join(base, "alloc"), filepath.Join(base, "alloc2")
			for _, d := range []string{dir, other} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			pid := holder(t, how, dir)
			if got := look(t, dir, openfiles.Most, pid).Bytes["web"]; got != want {
				t.Errorf("%d bytes, want %d", got, want)
			}
			if got := look(t, other, openfiles.Most, pid).Bytes; len(got) > 0 {
				t.Errorf("elsewhere: %v", got)
			}
		})
	}
}

// Given a volume of the same file system, mounted in the alloc's directory, then a file that was removed from the
// volume does not count, and one that was removed from a mount of the directory does, seen from a process's own mounts.
func TestARemovedFileOfAVolumeIsTheVolumes(t *testing.T) {
	base := t.TempDir()
	volume, dir := filepath.Join(base, "volume"), filepath.Join(base, "alloc")
	seen := filepath.Join(base, "seen")
	for _, d := range []string{volume, filepath.Join(dir, "data"), filepath.Join(dir, "local"), seen} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{volume: filepath.Join(dir, "data"), filepath.Join(dir, "local"): seen} {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	for _, how := range []string{"removed", "mapped"} {
		if got := look(t, dir, openfiles.Most, holder(t, how, filepath.Join(dir, "data"))).Bytes["web"]; got != 0 {
			t.Errorf("%s, of the volume: %d bytes", how, got)
		}
		if got := look(t, dir, openfiles.Most, holder(t, how, seen)).Bytes["web"]; got != size {
			t.Errorf("%s, of the directory: %d bytes", how, got)
		}
	}
}

// Given a process with more descriptors than one look takes up, then the look ends there, and looks go on elsewhere
// until one finds the file.
func TestALookIsBounded(t *testing.T) {
	dir := t.TempDir()
	pid := holder(t, "many", dir)
	const most = 1000
	for range 1000 {
		found := look(t, dir, most, pid)
		if found.Looked > most+64 {
			t.Fatalf("looked at %d", found.Looked)
		}
		if found.Bytes["web"] == size {
			return
		}
	}
	t.Error("no look found the file")
}

// Given a process that has ended, then it holds nothing.
func TestNobodyHoldsNothing(t *testing.T) {
	if got := look(t, t.TempDir(), openfiles.Most, 1<<22+1); len(got.Bytes) > 0 {
		t.Errorf("held: %v", got.Bytes)
	}
}

// Given a process that has a removed file open by a hundred descriptors, then each costs a look as much as eight of
// files that have names: so much longer it takes.
func TestRemovedFilesCountForMore(t *testing.T) {
	dir := t.TempDir()
	got := look(t, dir, openfiles.Most, holder(t, "hundred", dir))
	if got.Bytes["web"] != size || got.Looked < 8*100 || got.Looked > 8*200 {
		t.Errorf("a hundred of a removed file: %+v", got)
	}
	plain := look(t, dir, openfiles.Most, holder(t, "many", dir))
	if plain.Bytes["web"] != size || plain.Looked < 5000 || plain.Looked > 5800 {
		t.Errorf("five thousand of a file with a name: %+v", plain)
	}
}

// BenchmarkAFullLook looks at as many descriptors as one look takes up, at best and at worst: none is of a removed
// file, or each is of one in the directory. It reports the processor's time, which other load does not change much.
func BenchmarkAFullLook(b *testing.B) {
	for _, how := range []string{"full", "full of removed"} {
		b.Run(how, func(b *testing.B) {
			dir := b.TempDir()
			var pids []int
			for range openfiles.Most>>14 + 1 {
				pids = append(pids, holder(b, how, dir))
			}
			var before, after unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			looked := 0 // it begins anywhere in a table that is too large, so it is not always Most
			for b.Loop() {
				looked += look(b, dir, openfiles.Most, pids...).Looked
			}
			if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(spent)/1e6*float64(openfiles.Most)/float64(looked), "cpu-ms/Most")
			b.ReportMetric(float64(spent)/1e3/float64(looked), "cpu-µs/each")
		})
	}
}
