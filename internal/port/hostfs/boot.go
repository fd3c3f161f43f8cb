package hostfs

import (
	"os"
	"strings"

	"berth/internal/base/fault"
)

// MaxSocketPath is the longest path of a unix socket on Linux, without its closing zero.
const MaxSocketPath = 107

// BootID returns the kernel's id of this boot: what was mounted or running under another one is gone.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "read", "the boot id")
	}
	return strings.TrimSpace(string(b)), nil
}

// MakeDir makes a directory 0700 with its parents.
func MakeDir(path string) error {
	return fault.Wrap(os.MkdirAll(path, 0o700), fault.Internal, "create", path)
}

// WriteFileSync writes a small file durably: temporary name, fsync, rename, fsync of the directory.
func WriteFileSync(path string, data []byte, mode os.FileMode) error {
	dir, err := os.Open(dirOf(path))
	if err != nil {
		return fault.Wrap(err, fault.Internal, "write", path)
	}
	defer dir.Close()
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "write", path)
	}
	_, err = f.Write(data)
	if err == nil {
		err = fsync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = fsync(dir)
	}
	return fault.Wrap(err, fault.Internal, "write", path)
}

// fsync makes what was written to a file, or renamed in a directory, survive a power failure; tests look on.
var fsync = (*os.File).Sync

func dirOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}
