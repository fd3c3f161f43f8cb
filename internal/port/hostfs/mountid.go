package hostfs

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UniqueID returns the kernel's id of a mount that no other mount of this boot ever has, from the number in the mount
// table, which the kernel gives again; 0: the kernel has no such ids (before 6.8), or the mount is gone. It asks the
// kernel's table alone and touches no file system.
func UniqueID(mountID int) uint64 {
	last := uint64(0)
	list := make([]uint64, 512)
	for {
		n, ok := listMounts(list, last)
		for _, id := range list[:n] {
			if oldID(id) == uint32(mountID) {
				return id
			}
		}
		if !ok || n < len(list) {
			return 0
		}
		last = list[n-1]
	}
}

const (
	allMounts     = ^uint64(0) // LSMT_ROOT
	mountBasics   = 0x2        // STATMOUNT_MNT_BASIC
	requestSize   = 24         // MNT_ID_REQ_SIZE_VER0
	statmountSize = 1024
	uniqueOffset  = 40 // of mnt_id in struct statmount
	oldOffset     = 56 // of mnt_id_old
)

// request is struct mnt_id_req: size, nothing, mount, parameter.
func request(mount, param uint64) []byte {
	b := binary.NativeEndian.AppendUint32(nil, requestSize)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, mount)
	return binary.NativeEndian.AppendUint64(b, param)
}

// listMounts fills ids with those of mounts after last.
func listMounts(ids []uint64, last uint64) (n int, ok bool) {
	req := request(allMounts, last)
	r, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&req[0])),
		uintptr(unsafe.Pointer(&ids[0])), uintptr(len(ids)), 0, 0, 0)
	if errno != 0 {
		return 0, false
	}
	return int(r), true
}

// oldID is the number in the mount table of a mount with a unique id; 0: it is gone.
func oldID(unique uint64) uint32 {
	req, buf := request(unique, mountBasics), make([]byte, statmountSize)
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&req[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 || binary.NativeEndian.Uint64(buf[uniqueOffset:]) != unique {
		return 0
	}
	return binary.NativeEndian.Uint32(buf[oldOffset:])
}
