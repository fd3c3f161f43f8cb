package tasklog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// printer is a task that prints on its standard output.
type printer struct {
	t   *testing.T
	dir string
	out *Stream
	end *os.File // where the task writes
	ran chan error
}

// open prepares the logs of a task "web"; the streams do not run yet, so that what is printed before they do is read in
// one piece.
func open(t *testing.T, cfg shimproto.Logs) *printer {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	streams, ends, err := Open("web", cfg)
	if err != nil {
		t.Fatal(err)
	}
	CloseAll(streams[1:], ends[1:])
	p := &printer{
		t:   t,
		dir: cfg.Dir,
		out: streams[0],
		end: ends[0],
		ran: make(chan error, 1),
	}
	t.Cleanup(func() { _ = p.end.Close() }) // often closed before
	return p
}

func (p *printer) print(text string) {
	p.t.Helper()
	if _, err := p.end.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *printer) run() { go func() { p.ran <- p.out.Run() }() }

// finish ends the task and waits until all it printed was carried.
func (p *printer) finish() {
	p.t.Helper()
	if err := p.end.Close(); err != nil {
		p.t.Fatal(err)
	}
	if err := <-p.ran; err != nil {
		p.t.Fatal(err)
	}
}

// await waits until a condition on the stream holds.
func (p *printer) await(what string, holds func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// files reads a directory of logs: one line for each file.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %q\n", e.Name(), text)
	}
	return b.String()
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFileEndsWithALineAndTheOldestGo(t *testing.T) {
	p := open(t, shimproto.Logs{MaxFiles: 2, MaxBytes: 10})
	p.print("one\ntwo\nthree\nfour\nfive\nsix\n")
	p.run()
	p.finish()
	expect(t, files(t, p.dir), `web.stderr.0 ""
web.stdout.2 "four\nfive\n"
web.stdout.3 "six\n"
`)
}

// Given a task that prints much on both outputs, and little on one, when it has, then its files are together no more
// than it may keep, and what little the one printed is there.
func TestTheFilesOfBothOutputsAreWhatATaskMayKeep(t *testing.T) {
	play := func(cfg shimproto.Logs, stderr, stdout string) string {
		t.Helper()
		cfg.Dir = t.TempDir()
		streams, ends, err := Open("web", cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{1, 0} { // the errors first
			if _, err := ends[i].WriteString([]string{stdout, stderr}[i]); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(ends[i].Close(), streams[i].Run()); err != nil {
				t.Fatal(err)
			}
		}
		return files(t, cfg.Dir)
	}
	five := "aaaa\nbbbb\ncccc\ndddd\neeee\n"
	expect(t, play(shimproto.Logs{MaxFiles: 4, MaxBytes: 5}, five, five), `web.stderr.3 "dddd\n"
web.stderr.4 "eeee\n"
web.stdout.3 "dddd\n"
web.stdout.4 "eeee\n"
`)
	expect(t, play(shimproto.Logs{MaxFiles: 4, MaxBytes: 5}, "oh\n", five), `web.stderr.0 "oh\n"
web.stdout.2 "cccc\n"
web.stdout.3 "dddd\n"
web.stdout.4 "eeee\n"
`)
	expect(t, play(shimproto.Logs{MaxFiles: 1, MaxBytes: 10}, five, five), `web.stderr.4 "eeee\n"
web.stdout.4 "eeee\n"
`)
}

func TestALineLongerThanAFileIsCut(t *testing.T) {
	p := open(t, shimproto.Logs{MaxFiles: 9, MaxBytes: 10})
	p.print("short\n0123456789abcdefghijKL\nend\n")
	p.run()
	p.finish()
	expect(t, files(t, p.dir), `web.stderr.0 ""
web.stdout.0 "short\n"
web.stdout.1 "0123456789"
web.stdout.2 "abcdefghij"
web.stdout.3 "KL\nend\n"
`)
}

func TestTheNextStartContinuesTheNewestFileAndTouchesNoOther(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"web.stdout.0", "web.stdout.2", "web.stdout.02", "web.stdout.-1", "web.stdout.x", "web.stdout", "web2.stdout.9",
		"db.stdout.0",
	} {
		put(t, dir, name, "old\n")
	}
	p := open(t, shimproto.Logs{Dir: dir, MaxFiles: 2, MaxBytes: 10})
	p.print("fits\nnext\n")
	p.run()
	p.finish()
	expect(t, files(t, dir), `db.stdout.0 "old\n"
web.stderr.0 ""
web.stdout "old\n"
web.stdout.-1 "old\n"
web.stdout.02 "old\n"
web.stdout.2 "old\nfits\n"
web.stdout.3 "next\n"
web.stdout.x "old\n"
web2.stdout.9 "old\n"
`)
}

func TestWhatAUserPutIntoTheLogDirectoryIsNotFollowed(t *testing.T) {
	elsewhere := t.TempDir()
	put(t, elsewhere, "passwd", "root\n")
	for name, prepare := range map[string]func(dir string) error{
		"a link in place of the file": func(dir string) error {
			return os.Symlink(filepath.Join(elsewhere, "passwd"), filepath.Join(dir, "web.stdout.0"))
		},
		"a pipe in place of the file": func(dir string) error {
			return unix.Mkfifo(filepath.Join(dir, "web.stderr.0"), 0o644)
		},
		"a directory in place of the file": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "web.stdout.0"), 0o755)
		},
		"a link in place of the directory": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink(elsewhere, dir)
		},
		"no directory": os.Remove,
	} {
		dir := filepath.Join(t.TempDir(), "logs")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open("web", shimproto.Logs{Dir: dir})
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Internal || !strings.Contains(f.Hint, "regular files") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect(t, files(t, elsewhere), "passwd \"root\\n\"\n")
	if _, _, err := Open("../web", shimproto.Logs{Dir: t.TempDir()}); !fault.Has(err, fault.Invalid) {
		t.Errorf("a task that is a path: %v", err)
	}
}

func TestWithoutLogsATaskPrintsIntoNothing(t *testing.T) {
	for _, cfg := range []shimproto.Logs{{}, {Dir: t.TempDir(), Disabled: true}} {
		streams, ends, err := Open("web", cfg)
		if err != nil || len(streams) != 0 || len(ends) != 1 || ends[0].Name() != "/dev/null" {
			t.Fatalf("%+v: %v, %v, %v", cfg, streams, ends, err)
		}
		CloseAll(streams, ends)
		if cfg.Dir != "" {
			expect(t, files(t, cfg.Dir), "")
		}
	}
}

// The next file cannot be made; the task prints on, and learns nothing of it.
func TestOutputThatFindsNoFileIsCountedAndSaidInTheLog(t *testing.T) {
	p := open(t, shimproto.Logs{MaxFiles: 9, MaxBytes: 10})
	inTheWay := filepath.Join(p.dir, "web.stdout.1")
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	p.print("first line\n")
	p.run()
	p.await("a line is lost", func() bool { n, _ := p.out.Lost(); return n > 0 })
	p.print("second line\n")
	p.await("another is lost", func() bool { n, _ := p.out.Lost(); return n == int64(len("\nsecond line\n")) })
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	p.print("third\n")
	p.finish()
	if n, why := p.out.Lost(); n != 13 || why != "is a directory" {
		t.Errorf("%d bytes are lost: %s", n, why)
	}
	expect(t, files(t, p.dir), `web.stderr.0 ""
web.stdout.0 "first line"
web.stdout.1 "[berth: 13 bytes of output were lost here: is a directory]\nthird\n"
`)
}

// small gives a directory on a file system of its own.
func small(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFullDiskBlocksNoTaskAndWhatItCostIsSaid(t *testing.T) {
	dir := small(t, "size=64k")
	put(t, dir, "filler", strings.Repeat("x", 40<<10))
	p := open(t, shimproto.Logs{Dir: dir, MaxBytes: 1 << 20})
	p.run()
	line := strings.Repeat("y", 99) + "\n"
	for range 1000 { // more than a pipe holds, and than there is place for
		p.print(line)
	}
	p.out.Settle(time.Minute)
	lost, why := p.out.Lost()
	kept, err := os.ReadFile(filepath.Join(dir, "web.stdout.0"))
	if err != nil || lost == 0 || lost+int64(len(kept)) != int64(1000*len(line)) ||
		why != "write log: no space left on device" {
		t.Errorf("%d bytes are kept and %d lost of %d: %s, %v", len(kept), lost, 1000*len(line), why, err)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	p.print("there is space again\n")
	p.finish()
	got, err := os.ReadFile(filepath.Join(dir, "web.stdout.0"))
	want := fmt.Sprintf(
		"%s[berth: %d bytes of output were lost here: write log: no space left on device]\nthere is space again\n",
		kept, lost)
	if err != nil || string(got) != want {
		t.Errorf("after the loss the log reads %q, %v", got[len(kept):], err)
	}
}

func TestATaskStartsOnADiskWithoutPlaceForItsLogs(t *testing.T) {
	dir := small(t, "size=64k,nr_inodes=2") // the root directory and one file
	put(t, dir, "filler", "")
	p := open(t, shimproto.Logs{Dir: dir})
	p.print("lost\n")
	p.run()
	p.await("it is lost", func() bool { n, _ := p.out.Lost(); return n == 5 })
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	p.print("kept\n")
	p.finish()
	expect(t, files(t, dir),
		"web.stdout.0 \"[berth: 5 bytes of output were lost here: no space left on device]\\nkept\\n\"\n")
}

// A process that left the task's cgroup may hold the pipe for ever.
func TestAStreamEndsAlthoughAProcessHoldsItsPipe(t *testing.T) {
	p := open(t, shimproto.Logs{})
	p.run()
	p.print("all of it\n")
	p.out.Settle(time.Minute)
	expect(t, files(t, p.dir), "web.stderr.0 \"\"\nweb.stdout.0 \"all of it\\n\"\n")
	p.out.End()
	if err := <-p.ran; err != nil {
		t.Error(err)
	}
	if _, err := p.end.WriteString("to nobody\n"); err == nil {
		t.Error("the pipe has no reader, and is written to")
	}
	p.out.Settle(time.Minute) // of a stream that has ended: at once
}
