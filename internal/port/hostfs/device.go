package hostfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DeviceSeq is the number that the kernel gave to what is behind a block device (major:minor), or to the disk of a
// partition, and gives to nothing else in this boot; 0: there is no such device, or the kernel counts none (before
// 5.15). It asks sysfs alone and opens no device.
func DeviceSeq(device string) uint64 {
	dir, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", device))
	if err != nil {
		return 0
	}
	for _, file := range []string{filepath.Join(dir, "diskseq"), filepath.Join(filepath.Dir(dir), "diskseq")} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil {
			return n
		}
	}
	return 0
}
