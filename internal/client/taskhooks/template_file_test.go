package taskhooks_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/client/taskhooks"
	"berth/internal/model/job"
	"berth/internal/port/driver"
)

// Given a task that laid something of its own in the place of its rendering, when the rendering is written again, then
// the place holds the rendering, a plain file with the mode that was asked for, and nothing of what lay there was read,
// waited for or written through.
func TestWhatATaskLaysInPlaceOfItsRenderingIsReplaced(t *testing.T) {
	write := func(s string) func(at string) error {
		return func(at string) error { return os.WriteFile(at, []byte(s), 0o600) }
	}
	link := func(to string) func(at string) error { return func(at string) error { return os.Symlink(to, at) } }
	for name, lay := range map[string]func(at string) error{
		"a sparse file that no memory holds": sparse,
		"a file of the same size":            write("x"),
		"a longer file of the same begin":    write("rr"),
		"a pipe without a writer":            func(at string) error { return unix.Mkfifo(at, 0o666) },
		"a device without an end":            device,
		"a link to its own file":             link("other"),
		"a link out of its reach":            link("/proc/self/environ"),
		"a link to itself":                   link("f"),
		"a hard link to its own":             func(at string) error { return os.Link(filepath.Dir(at)+"/other", at) },
		"a socket":                           listen,
	} {
		t.Run(name, func(t *testing.T) {
			x := withTemplates(t, driver.IsolationChroot,
				&job.Template{EmbeddedTmpl: "r", DestPath: "local/f", Perms: "0640"})
			at, other := filepath.Join(x.TaskDir, "local/f"), filepath.Join(x.TaskDir, "local/other")
			if err := errors.Join(os.WriteFile(other, []byte("y"), 0o600), lay(at)); err != nil {
				t.Fatal(err)
			}
			if err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task); err != nil {
				t.Fatal(err)
			}
			if st, err := os.Lstat(at); err != nil || st.Mode() != 0o640 {
				t.Errorf("in its place lies %v %v, want a plain file of mode 0640", st, err)
			}
			if got := x.read(t, "local/f"); got != "r" {
				t.Errorf("rendered %q", got)
			}
			st, err := os.Lstat(other)
			if err != nil || st.Mode() != 0o600 || x.read(t, "local/other") != "y" {
				t.Errorf("another file of the task was touched: %v %v", st, err)
			}
		})
	}
}

// Given a task that made a directory in the place of its rendering, when the rendering is written, then the task is
// failed with the reason, and the directory is left as it is.
func TestADirectoryInPlaceOfARenderingIsLeftAlone(t *testing.T) {
	x := withTemplates(t, driver.IsolationChroot, &job.Template{EmbeddedTmpl: "r", DestPath: "local/f"})
	if err := os.MkdirAll(filepath.Join(x.TaskDir, "local/f/data"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := (&taskhooks.Templates{Renderer: here{}}).Prestart(t.Context(), x.Task)
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "a directory lies in its place") {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(x.TaskDir, "local/*")); err != nil || len(left) != 1 {
		t.Errorf("there are %q now: %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(x.TaskDir, "local/.template*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

func listen(at string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// device makes what /dev/zero is.
func device(at string) error { return unix.Mknod(at, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) }

// sparse makes a file as large as its file system takes; it occupies nothing.
func sparse(at string) error {
	err := os.WriteFile(at, nil, 0o600)
	for size := int64(8 << 40); size >= 64<<30; size /= 2 {
		if err = os.Truncate(at, size); err == nil {
			break
		}
	}
	return err
}
