package quota

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is what Projects asks for.
type Kernel interface {
	// Ioctl is ioctl(2) on an open file with a record, which the call reads or fills.
	Ioctl(fd int, request uint32, record []byte) error
	// Quotactl is quotactl_fd(2), since Linux 5.14, for the file system that has an open file.
	Quotactl(fd int, command, project uint32, record []byte) error
}

// Requests of ioctl(2) and commands of quotactl_fd(2), of the kernel's linux/fs.h, linux/quota.h and linux/dqblk_xfs.h.
const (
	getAttributes = 0x801c581f               // FS_IOC_FSGETXATTR: struct fsxattr
	setAttributes = 0x401c5820               // FS_IOC_FSSETXATTR
	ofProjects    = 2                        // PRJQUOTA
	getLimits     = 0x800007<<8 | ofProjects // QCMD(Q_GETQUOTA, PRJQUOTA): struct if_dqblk
	setLimits     = 0x800008<<8 | ofProjects // QCMD(Q_SETQUOTA, PRJQUOTA)
	getState      = 0x5805<<8 | ofProjects   // QCMD(Q_XGETQSTAT, PRJQUOTA): struct fs_quota_stat
)

// machine is the kernel of this machine.
type machine struct{}

func (machine) Ioctl(fd int, request uint32, record []byte) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(unsafe.Pointer(unsafe.SliceData(record))))
	runtime.KeepAlive(record)
	return answer(e)
}

func (machine) Quotactl(fd int, command, project uint32, record []byte) error {
	_, _, e := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command), uintptr(project),
		uintptr(unsafe.Pointer(unsafe.SliceData(record))), 0, 0)
	runtime.KeepAlive(record)
	return answer(e)
}

func answer(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
