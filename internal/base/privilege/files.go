package privilege

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// Reach is what a confined process may do beneath a path, or with the file that lies there.
type Reach struct {
	Path string
	// Write lets it make, change and remove directories, plain files and links; Run lets it run programs. It may always
	// read.
	Write, Run bool
}

// What Landlock's versions can forbid beyond the first's.
const (
	landlockFirst = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled is what the kernel's Landlock can forbid.
func handled(version int) uint64 {
	all := uint64(landlockFirst)
	for since, right := range map[int]uint64{2: unix.LANDLOCK_ACCESS_FS_REFER, 3: unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV} {
		if version >= since {
			all |= right
		}
	}
	return all
}

// ConfineFiles lets nothing started from the thread do more with files than is named, and connect to sockets without a
// file as ScopeSockets has it; paths that there are not are left out. New privileges have to be forbidden before. A
// kernel without Landlock is fault.Unsupported.
func ConfineFiles(reach []Reach) error {
	version := Landlock()
	if version == 0 {
		return fault.New(fault.Unsupported, "bound", "the files of a new process", "the kernel has no Landlock")
	}
	rules := unix.LandlockRulesetAttr{Access_fs: handled(version)}
	size := unsafe.Sizeof(rules.Access_fs)
	if version >= scopes { // in one ruleset: a second one that says nothing of files forbids to move them
		rules.Scoped, size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, unsafe.Sizeof(rules)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return fault.Wrap(errno, fault.Internal, "bound", "the files of a new process")
	}
	var err error
	for _, r := range reach {
		err = errors.Join(err, r.add(int(fd), rules.Access_fs))
	}
	if err == nil {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
			err = errno
		}
	}
	return fault.Wrap(errors.Join(err, unix.Close(int(fd))), fault.Internal, "bound", "the files of a new process")
}

// add adds what is within reach to a ruleset.
func (r *Reach) add(ruleset int, can uint64) error {
	allowed := uint64(landlockRead)
	if r.Write {
		allowed |= landlockWrite
	}
	if r.Run {
		allowed |= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	return allow(ruleset, r.Path, allowed&can)
}

// Filter loads a filter of system calls, in the words of seccomp(2), for all threads of the process and what they
// start. New privileges have to be forbidden before.
func Filter(words []byte) error {
	filter := make([]unix.SockFilter, len(words)/int(unsafe.Sizeof(unix.SockFilter{})))
	if len(filter) == 0 {
		return fault.New(fault.Internal, "bound", "the system calls of the process", "the filter is empty")
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(words)), words)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fault.Wrap(errno, fault.Internal, "bound", "the system calls of the process")
	}
	return nil
}
