// Package unmount owns the helper's role of taking one mount away, in a process of its own: the kernel may keep whoever
// unmounts waiting for ever.
package unmount

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Args is how many arguments Run takes.
const Args = 4

// Run unmounts what is mounted at a path, if it is the mount that is meant: by its unique id, where that is not zero,
// and by its device and its root. It is never done lazily nor by force: what is in use stays.
func Run(args []string) error {
	path, want := args[0], args[2]+" "+args[3] // device and root
	unique, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	now, err := top(path)
	if err != nil {
		return err
	}
	if now != want {
		return fmt.Errorf("what is mounted at %s is %q, not %q", path, now, want)
	}
	if unique != 0 {
		var st unix.Statx_t
		flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
		if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID_UNIQUE, &st); err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if st.Mnt_id != unique {
			return fmt.Errorf("what is mounted at %s has the id %d, not %d", path, st.Mnt_id, unique)
		}
	}
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// top names what is on top at a path: device and root.
func top(path string) (found string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// 36 35 98:0 /root /mount/point options …
		if part := strings.Fields(lines.Text()); len(part) > 5 && unescape(part[4]) == path {
			found = part[2] + " " + unescape(part[3])
		}
	}
	if found == "" && lines.Err() == nil {
		return "", errors.New("nothing is mounted at " + path)
	}
	return found, lines.Err()
}

// unescape undoes how the kernel writes spaces, tabs, line ends and backslashes in paths.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
