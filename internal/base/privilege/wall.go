package privilege

import (
	"errors"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Walls tells whether the kernel has what WallFiles needs. Landlock's first version is not enough: with it no file
// could be moved from one directory to another.
func Walls() bool { return ScopesSockets() }

// WallFiles lets nothing started from the thread change files but beneath some paths, nor mount anything; it may read
// and run what it sees. It is a further wall, where the kernel has it: what is shown for reading is mounted so, too. It
// has what ScopeSockets does. New privileges have to be forbidden before.
func WallFiles(writable []string) error {
	if !Walls() {
		return ScopeSockets()
	}
	can := handled(Landlock())
	rules := unix.LandlockRulesetAttr{Access_fs: can, Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)),
		unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return fault.Wrap(errno, fault.Internal, "bound", "the files of a new process")
	}
	// Nodes of devices are another wall's: who asks for one hears of that.
	look := uint64(landlockRead | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
	err := allow(int(fd), "/", look&can)
	for _, path := range writable {
		err = errors.Join(err, allow(int(fd), path, can))
	}
	if err == nil {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
			err = errno
		}
	}
	return fault.Wrap(errors.Join(err, unix.Close(int(fd))), fault.Internal, "bound", "the files of a new process")
}

// allow adds what may be done beneath a path, or with the file that lies there; one that is not there is left out.
func allow(ruleset int, path string, access uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(at, &st)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(at)}
	if err == nil {
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			err = &os.PathError{Op: "allow", Path: path, Err: errno}
		}
	}
	return errors.Join(err, unix.Close(at))
}
