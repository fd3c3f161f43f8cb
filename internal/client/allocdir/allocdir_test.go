package allocdir_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allocdir"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

func build(t *testing.T, tasks ...string) allocdir.Dir {
	t.Helper()
	d := allocdir.New(t.TempDir(), ids.Alloc(ids.New()))
	if err := d.Build(); err != nil {
		t.Fatal(err)
	}
	for _, n := range tasks {
		if err := d.BuildTask(n, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := d.DropSecrets(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
}

func TestTheLayoutAndItsModes(t *testing.T) {
	d := build(t, "web")
	for path, want := range map[string]os.FileMode{
		"alloc": 0o777, "alloc/data": 0o777, "alloc/logs": 0o755, "alloc/tmp": 0o777, "web": 0o755, "web/local": 0o755,
		"web/secrets": 0o700, "web/tmp": 0o777,
	} {
		info, err := os.Stat(filepath.Join(d.Path(), path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %o", path, info.Mode(), err, want)
		}
	}
	if err := d.BuildTask("web", ""); err != nil {
		t.Errorf("building again: %v", err)
	}
	if err := d.BuildTask("web", "no-such-user-here"); os.Geteuid() == 0 && !fault.Has(err, fault.Invalid) {
		t.Errorf("an unknown user: %v", err)
	}
}

func TestSecretsLiveInMemoryAndAreGoneAtTheEnd(t *testing.T) {
	needRoot(t)
	d := build(t, "web")
	secret := filepath.Join(d.TaskDir("web"), "secrets/token")
	write(t, secret, "s3cret")
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(secret), &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Errorf("secrets lie on %x, %v", st.Type, err)
	}
	if err := os.WriteFile(secret, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("two megabytes fit: %v", err)
	}
	if err := d.DropSecrets(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(secret); !os.IsNotExist(err) {
		t.Errorf("the secret is still there: %v", err)
	}
}

func TestDestroyNeverEmptiesWhatIsMountedThere(t *testing.T) {
	needRoot(t)
	d := build(t, "web")
	volume := t.TempDir()
	write(t, filepath.Join(volume, "precious"), "data")
	inside, outside := filepath.Join(d.TaskDir("web"), "local/vol"), t.TempDir()
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "keep"), "x")
	if err := os.Symlink(outside, filepath.Join(d.TaskDir("web"), "local/link")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.TaskDir("web"), "local/file"), "x")
	if err := unix.Mount(volume, inside, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	mounted := true
	defer func() {
		if mounted {
			_ = unix.Unmount(inside, unix.MNT_DETACH)
		}
	}()

	err := d.Destroy()
	if !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), inside) {
		t.Fatalf("a mounted volume: %v", err)
	}
	if _, err := os.Stat(filepath.Join(volume, "precious")); err != nil {
		t.Fatalf("the volume was emptied: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(d.TaskDir("web"), "local/file")); !os.IsNotExist(err) {
		t.Errorf("the rest was not removed: %v", err)
	}

	if err := unix.Unmount(inside, 0); err != nil {
		t.Fatal(err)
	}
	mounted = false
	if err := d.Destroy(); err != nil || d.Exists() {
		t.Errorf("after the unmount: %v, still there: %v", err, d.Exists())
	}
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Errorf("a symbolic link was followed: %v", err)
	}
	if err := d.Destroy(); err != nil {
		t.Errorf("destroying what is gone: %v", err)
	}
}

func TestFilesAreReadOnlyFromInsideAndNeverSecrets(t *testing.T) {
	d := build(t, "web")
	local := filepath.Join(d.TaskDir("web"), "local")
	write(t, filepath.Join(local, "page.html"), "<p>hi</p>")
	write(t, filepath.Join(d.TaskDir("web"), "secrets/token"), "s3cret")
	outside := filepath.Join(t.TempDir(), "passwd")
	write(t, outside, "root")
	for name, target := range map[string]string{"out": outside, "up": "../../../../../../../../etc/passwd",
		"in": "page.html", "sneaky": "../secrets", "proc": "/proc/self/root/etc/passwd", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(local, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(local, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string) (string, error) {
		var b strings.Builder
		err := d.Read(t.Context(), path, allocdir.ReadRequest{}, func(f *wire.StreamFrame) error {
			b.Write(f.Data)
			return nil
		})
		return b.String(), err
	}
	for _, ok := range []string{"web/local/page.html", "/web/local/page.html", "web/local/in",
		"../web/local/page.html"} {
		if got, err := read(ok); err != nil || got != "<p>hi</p>" {
			t.Errorf("%s: %q %v", ok, got, err)
		}
	}
	for path, kind := range map[string]fault.Kind{
		"web/local/out": fault.Denied, "web/local/up": fault.Denied, "web/local/proc": fault.Denied,
		"web/secrets/token":      fault.Denied,
		"web/local/sneaky/token": fault.Denied, "web/local/none": fault.NotFound, "web/local/pipe": fault.Invalid,
		"web/local": fault.Invalid, "web/local/page.html/below": fault.NotFound, "web/local/loop": fault.Invalid,
		"web/local/" + strings.Repeat("n", 300): fault.Invalid,
	} {
		if got, err := read(path); !fault.Has(err, kind) {
			t.Errorf("%s: %q, error %v, want one of kind %s", path, got, err, kind)
		}
	}
	if _, err := d.List("web/secrets"); !fault.Has(err, fault.Denied) {
		t.Errorf("listing secrets: %v", err)
	}
	files, err := d.List("web")
	if err != nil || len(files) != 3 || files[0].Name != "local" || !files[0].IsDir {
		t.Errorf("listing: %v %v", files, err)
	}
	if info, err := d.Stat("web/local/page.html"); err != nil || info.Size != 9 ||
		!strings.HasPrefix(info.ContentType, "text/html") {
		t.Errorf("stat: %+v %v", info, err)
	}
}

func TestReadingFromEitherEndWithALimit(t *testing.T) {
	d := build(t)
	write(t, filepath.Join(d.SharedDir(), "f"), "0123456789")
	for _, c := range []struct {
		req  allocdir.ReadRequest
		want string
	}{
		{allocdir.ReadRequest{}, "0123456789"},
		{allocdir.ReadRequest{Offset: 3, Limit: 4}, "3456"},
		{allocdir.ReadRequest{Offset: 2, End: true}, "89"},
		{allocdir.ReadRequest{Offset: 200, End: true}, "0123456789"},
		{allocdir.ReadRequest{Offset: 200}, ""},
		{allocdir.ReadRequest{Offset: math.MaxInt64, Limit: math.MaxInt64}, ""},
		{allocdir.ReadRequest{Offset: math.MinInt64, End: true}, "0123456789"},
	} {
		var got strings.Builder
		last := int64(-1)
		err := d.Read(t.Context(), "alloc/f", c.req, func(f *wire.StreamFrame) error {
			got.Write(f.Data)
			last = f.Offset
			return nil
		})
		if err != nil || got.String() != c.want {
			t.Errorf("%+v: %q %v", c.req, got.String(), err)
		}
		if c.want == "3456" && last != 7 {
			t.Errorf("the offset after the data is %d", last)
		}
	}
}

// follower gathers what is sent and lets a test wait for it.
type follower struct {
	mu     sync.Mutex
	text   strings.Builder
	events []string
}

func (f *follower) send(m *wire.StreamFrame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(m.Data)
	if m.Event != "" {
		f.events = append(f.events, m.Event)
	}
	return nil
}

func (f *follower) wait(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		got := f.text.String()
		f.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("followed %q, want %q", got, want)
		}
	}
}

func TestLogsAreFollowedOverRotatedFilesUntilTheTaskIsDone(t *testing.T) {
	d := build(t)
	log := func(n string) string { return filepath.Join(d.LogDir(), "web.stdout."+n) }
	write(t, log("9"), "nine ")
	write(t, log("10"), "ten ")
	write(t, filepath.Join(d.LogDir(), "web.stderr.0"), "not this")
	write(t, filepath.Join(d.LogDir(), "web2.stdout.0"), "nor this")
	done := make(chan struct{})
	dirs := watcher(t)
	var f follower
	ended := make(chan error, 1)
	go func() {
		ended <- d.Log(t.Context(), "web", "stdout",
			allocdir.ReadRequest{
				Offset: 6,
				End:    true,
				Follow: true,
				Done:   done,
				Dirs:   dirs,
			}, f.send)
	}()
	f.wait(t, "e ten ")
	file, err := os.OpenFile(log("10"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("more "); err != nil {
		t.Fatal(err)
	}
	f.wait(t, "e ten more ")
	write(t, log("11"), "eleven")
	if err := os.Remove(log("9")); err != nil {
		t.Fatal(err)
	}
	f.wait(t, "e ten more eleven")
	close(done)
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if err := d.Log(t.Context(), "web", "stdlog", allocdir.ReadRequest{}, f.send); !fault.Has(err, fault.Invalid) {
		t.Errorf("an unknown stream: %v", err)
	}
}

func TestAFollowedFileTellsTruncationAndDeletion(t *testing.T) {
	d := build(t)
	path := filepath.Join(d.SharedDir(), "data/f")
	write(t, path, "old")
	dirs := watcher(t)
	var f follower
	ended := make(chan error, 1)
	go func() {
		ended <- d.Read(t.Context(), "alloc/data/f", allocdir.ReadRequest{Follow: true, Dirs: dirs}, f.send)
	}()
	f.wait(t, "old")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		n := len(f.events)
		f.mu.Unlock()
		if n > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the truncation was not told")
		}
	}
	write(t, path, "new")
	f.wait(t, "oldnew")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if len(f.events) != 2 || f.events[0] != "file truncated" || f.events[1] != "file deleted" {
		t.Errorf("events %v", f.events)
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	d := build(t)
	write(t, filepath.Join(d.SharedDir(), "f"), "x")
	dirs := watcher(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.Read(ctx, "alloc/f", allocdir.ReadRequest{Follow: true, Dirs: dirs}, func(*wire.StreamFrame) error {
			return nil
		})
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the end: %v", err)
	}
}

// watcher runs what tells of changes until the test ends.
func watcher(t *testing.T) *hostfs.Directories {
	t.Helper()
	w := hostfs.NewDirectories(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// Given two hundred who follow the output of a task, more than the kernel gives a user instances of inotify, when the
// task writes, then each of them reads it.
func TestManyFollowOneTask(t *testing.T) {
	d := build(t)
	log := filepath.Join(d.LogDir(), "web.stdout.0")
	write(t, log, "begun ")
	dirs := watcher(t)
	ctx, cancel := context.WithCancel(t.Context())
	followers := make([]follower, 200)
	ended := make(chan error, len(followers))
	for i := range followers {
		go func() {
			ended <- d.Log(ctx, "web", "stdout", allocdir.ReadRequest{Follow: true, Dirs: dirs}, followers[i].send)
		}()
	}
	for i := range followers {
		followers[i].wait(t, "begun ")
	}
	file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	for i := range followers {
		followers[i].wait(t, "begun more")
	}
	cancel()
	for range followers {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a follower ended with %v", err)
		}
	}
}
