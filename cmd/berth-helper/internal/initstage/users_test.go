package initstage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

const firstID = 1 << 20

func ownerOf(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// Given a root that is built for a user namespace, then what is mounted from the node belongs in it to the same users
// of the namespace; what is made for the root is its root's; and what had to be made on the node's disk belongs to whom
// the directory belongs that it is made in.
func TestWhatIsShownBelongsToUsersOfTheNamespace(t *testing.T) {
	root, source := place(t)
	if err := errors.Join(os.Chown(filepath.Join(source, "data/file"), 1234, 65534), os.Chmod(source, 0o700),
		os.Chown(source, 99, 98)); err != nil {
		t.Fatal(err)
	}
	pid, err := stage(t, &shimproto.Isolate{
		Root:            root,
		FirstID:         firstID,
		System:          []string{"/usr"},
		Etc:             []string{"passwd"},
		NoNewPrivileges: true,
		Binds: []shimproto.Bind{
			{Source: source, Target: "/volume"},
			{Source: filepath.Join(source, "single"), Target: "/volume/made/single"},
		},
		Devices: []shimproto.Device{{HostPath: "/dev/null", TaskPath: "/dev/other"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	of := func(uid, gid int) string { return fmt.Sprintf("%d:%d", firstID+uid, firstID+gid) }
	for path, want := range map[string]string{
		"/":                   of(0, 0),
		"/run":                of(0, 0),
		"/dev/shm":            of(0, 0),
		"/dev/other":          ofNode(t, "/dev/null"),
		"/usr":                of(0, 0),
		"/etc":                of(0, 0),
		"/etc/passwd":         of(0, 0),
		"/volume":             of(99, 98),
		"/volume/data":        of(0, 0),
		"/volume/data/file":   of(1234, 65534),
		"/volume/made":        of(99, 98),
		"/volume/made/single": of(0, 0), // what is mounted there
	} {
		if got := ownerOf(t, fmt.Sprintf("/proc/%d/root%s", pid, path)); got != want {
			t.Errorf("%s belongs to %s, want %s", path, got, want)
		}
	}
	for _, made := range []string{"made", "made/single"} {
		if got := ownerOf(t, filepath.Join(source, made)); got != "99:98" {
			t.Errorf("on the node %s belongs to %s", made, got)
		}
	}
}

// ofNode is who has something of the node, as a root with users of its own shows it.
func ofNode(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", firstID+st.Uid, firstID+st.Gid)
}

// Given a tree of which a part cannot be shifted, as beneath / there always is one, then the root is not built.
func TestATreeThatCannotBeShownWholeIsRefused(t *testing.T) {
	root, _ := place(t)
	_, err := stage(t, &shimproto.Isolate{
		Root:            root,
		FirstID:         firstID,
		NoNewPrivileges: true,
		Binds:           []shimproto.Bind{{Source: "/", Target: "/node"}},
	})
	if !fault.Has(err, fault.Unsupported) {
		t.Fatalf("building the root: %v", err)
	}
	for _, want := range []string{`"/node"`, "its file system", "user namespace", "is_not_set"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
