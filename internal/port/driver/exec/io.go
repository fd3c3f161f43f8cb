package exec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// ioKeys are what can be bounded of a device: bytes and operations a second, read and written.
var ioKeys = []string{"rbps", "wbps", "riops", "wiops"}

const ioForm = `write "PATH rbps=BYTES wbps=BYTES riops=NUMBER wiops=NUMBER", all of them a second and one at least; ` +
	"PATH is a block device, or a directory on one, without blanks"

// CheckIO returns nil if every text is of the form that IOMax takes; whether its device is there, New says.
func CheckIO(texts []string) error {
	var errs []error
	for _, text := range texts {
		_, _, err := readIO(text)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// readIO takes a bound apart: its path and what the kernel gets for the device.
func readIO(text string) (path, bounds string, err error) {
	bad := func(why string) (string, string, error) {
		return "", "", fault.WithHint(fault.New(fault.Invalid, "read", strconv.Quote(text), why), ioForm)
	}
	fields := strings.Fields(text)
	if len(fields) < 2 || !filepath.IsAbs(fields[0]) {
		return bad("it is not an absolute path and what bounds it")
	}
	var seen []string
	for _, bound := range fields[1:] {
		key, value, _ := strings.Cut(bound, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !slices.Contains(ioKeys, key):
			return bad("there is no bound " + strconv.Quote(key))
		case slices.Contains(seen, key):
			return bad(key + " stands there twice")
		case err != nil || n <= 0:
			return bad(key + " is " + strconv.Quote(value) + ", which is no whole number above 0")
		}
		seen = append(seen, key)
	}
	return fields[0], strings.Join(fields[1:], " "), nil
}

// findDevices turns bounds into what io.max takes, with the numbers of their devices.
func findDevices(texts []string) ([]string, error) {
	var out []string
	owner := map[string]string{}
	for _, text := range texts {
		path, bounds, err := readIO(text)
		if err != nil {
			return nil, err
		}
		number, err := deviceOf(path)
		if err != nil {
			return nil, err
		}
		if other, twice := owner[number]; twice {
			return nil, fault.WithHint(fault.New(fault.Invalid, "bound", "the device of "+path,
				"it is that of "+other+" too, device "+number), "write all bounds of a device in one text")
		}
		owner[number] = path
		out = append(out, number+" "+bounds)
	}
	return out, nil
}

// blockDevices is where the kernel lists block devices by their numbers.
const blockDevices = "/sys/dev/block"

// deviceOf is the number, "8:0", of the whole disk that a path is or lies on: partitions have no bounds of their own.
func deviceOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", fault.WithHint(fault.Wrap(err, fault.NotFound, "find", "the block device of "+path),
			"name a device, or a directory on one, that is there when the agent starts")
	}
	id := st.Dev
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		id = st.Rdev
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(blockDevices, numbers(id)))
	if err != nil {
		return "", fault.WithHint(fault.Wrap(err, fault.Unsupported, "find", "the block device of "+path),
			"its file system is not on one block device alone: name the device itself, such as /dev/sda")
	}
	return wholeDisk(dir)
}

// wholeDisk is the number of the disk that a directory of sysfs describes, itself or by one of its partitions.
func wholeDisk(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	number, err := os.ReadFile(filepath.Join(dir, "dev"))
	return strings.TrimSpace(string(number)), fault.Wrap(err, fault.Internal, "read", "the number of disk "+dir)
}

func numbers(id uint64) string {
	return strconv.Itoa(int(unix.Major(id))) + ":" + strconv.Itoa(int(unix.Minor(id)))
}
