package holders

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How a device is.
const (
	absentDevice = "absent" // there is none of that number, or nothing is behind it
	otherDevice  = "other"  // the number was given again
	freeDevice   = "free"   // nobody has mounted or claimed it, in whichever mount namespace
	heldDevice   = "held"
)

// probe finds out whether anybody has a block device: an exclusive opening succeeds only where nobody has it mounted or
// claimed, and sees all mount namespaces. Its identity comes first: numbers of loop devices are given again, sequence
// numbers never in a boot. The device is opened for reading and closed at once, so that nothing is written to it and
// no event of a change is sent; a loop device that was to go with its last user goes with this one.
func probe(device string, seq uint64) (state string, err error) {
	sys := filepath.Join("/sys/dev/block", device)
	data, err := os.ReadFile(sys + "/uevent")
	if errors.Is(err, os.ErrNotExist) {
		return absentDevice, nil
	}
	if err != nil {
		return "", err
	}
	if now := sequence(sys); seq != 0 && now != 0 && now != seq {
		return otherDevice, nil
	}
	name := ""
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			name = filepath.Join("/dev", rest)
		}
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return heldDevice, same(name, device)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOMEDIUM):
		return absentDevice, nil
	case err != nil:
		return "", fmt.Errorf("open %s, which is device %s: %w", name, device, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return "", err
	}
	return freeDevice, isDevice(name, device, &st)
}

// same checks that a path names the device of a number.
func same(name, device string) error {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return err
	}
	return isDevice(name, device, &st)
}

func isDevice(name, device string, st *unix.Stat_t) error {
	now := number(unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || now != device {
		return fmt.Errorf("%s is not device %s", name, device)
	}
	return nil
}

// sequence is the number that the kernel gave to what is behind a device, or to the disk of a partition; 0: it gives
// none.
func sequence(sys string) uint64 {
	dir, err := filepath.EvalSymlinks(sys)
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
