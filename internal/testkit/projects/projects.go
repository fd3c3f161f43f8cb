// Package projects owns a kernel with project quotas for tests, since that of the machine may have none. It counts what
// a test says, and keeps the words of each call. Tests alone import it.
package projects

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/port/quota"
)

// Kernel is a kernel with project quotas, as far as they are asked for.
type Kernel struct {
	Log        strings.Builder // the words of each call
	State      uint16          // flags of what is counted and held
	Used       map[uint32]Counts
	Limits     map[uint32]Counts
	Fails      func(call string) error
	Attributes quota.Kernel      // keeps the attributes of files, where it is set
	of, flags  map[uint64]uint32 // projects and flags of files, by inode
}

// Counts are what a project has, or may have.
type Counts struct{ Bytes, Files uint64 }

// New returns a kernel whose quotas are on, and of which nothing is counted.
func New() *Kernel {
	return &Kernel{
		State:  1<<4 | 1<<5,
		of:     map[uint64]uint32{},
		flags:  map[uint64]uint32{},
		Used:   map[uint32]Counts{},
		Limits: map[uint32]Counts{},
	}
}

func (k *Kernel) failure(call string) error {
	if k.Fails == nil {
		return nil
	}
	return k.Fails(call)
}

// Ioctl implements quota.Kernel.
func (k *Kernel) Ioctl(fd int, request uint32, record []byte) (err error) {
	given := hexed(record)
	defer func() {
		fmt.Fprintf(&k.Log, "ioctl %#x\n  given  %s\n  answer %s %v\n", request, given, hexed(record), err)
	}()
	call := map[uint32]string{0x801c581f: "get attributes", 0x401c5820: "set attributes"}[request]
	if err := k.failure(call); err != nil {
		return err
	}
	if k.Attributes != nil {
		return k.Attributes.Ioctl(fd, request, record)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case len(record) != 28:
		return unix.EFAULT
	case call == "get attributes":
		binary.NativeEndian.PutUint32(record, k.flags[st.Ino])
		binary.NativeEndian.PutUint32(record[12:], k.of[st.Ino])
	case call == "set attributes":
		k.flags[st.Ino] = binary.NativeEndian.Uint32(record)
		k.of[st.Ino] = binary.NativeEndian.Uint32(record[12:])
	default:
		return unix.ENOTTY
	}
	return nil
}

// Quotactl implements quota.Kernel.
func (k *Kernel) Quotactl(_ int, command, project uint32, record []byte) (err error) {
	given := hexed(record)
	defer func() {
		fmt.Fprintf(&k.Log, "quotactl_fd %#x of %d\n  given  %s\n  answer %s %v\n", command, project, given,
			hexed(record), err)
	}()
	call := map[uint32]string{0x580502: "get state", 0x80000702: "get limits", 0x80000802: "set limits"}[command]
	if err := k.failure(call); err != nil {
		return err
	}
	switch {
	case call == "get state" && len(record) == 80:
		binary.NativeEndian.PutUint16(record[2:], k.State)
	case call == "get limits" && len(record) == 72:
		u, counted := k.Used[project]
		l, limited := k.Limits[project]
		if !counted && !limited {
			return unix.ENOENT // as xfs says
		}
		for at, n := range map[int]uint64{0: l.Bytes / 1024, 8: l.Bytes / 1024, 16: u.Bytes, 24: l.Files, 32: l.Files,
			40: u.Files} {
			binary.NativeEndian.PutUint64(record[at:], n)
		}
	case call == "set limits" && len(record) == 72:
		if binary.NativeEndian.Uint32(record[64:]) != 1|4 {
			return unix.EINVAL
		}
		k.Limits[project] = Counts{
			Bytes: binary.NativeEndian.Uint64(record) * 1024,
			Files: binary.NativeEndian.Uint64(record[24:]),
		}
	default:
		return errors.New("no call of this kernel")
	}
	return nil
}

// Of reads which project a directory has.
func (k *Kernel) Of(t testing.TB, path string) uint32 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	record := make([]byte, 28)
	log, fails := k.Log.String(), k.Fails
	k.Fails = nil
	err = k.Ioctl(int(f.Fd()), 0x801c581f, record)
	k.Fails = fails
	k.Log.Reset()
	k.Log.WriteString(log)
	if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(record[12:])
}

// Give gives a directory a project, as a person would.
func (k *Kernel) Give(t testing.TB, path string, project uint32) {
	t.Helper()
	k.of[inode(t, path)] = project
}

// Flag sets flags of a directory, as a person would.
func (k *Kernel) Flag(t testing.TB, path string, flags uint32) {
	t.Helper()
	k.flags[inode(t, path)] = flags
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// hexed shows a record in words of four bytes, those that are zero as a dot.
func hexed(record []byte) string {
	var out []string
	for ; len(record) > 0; record = record[min(4, len(record)):] {
		w := hex.EncodeToString(record[:min(4, len(record))])
		if strings.Trim(w, "0") == "" {
			w = "."
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
