package hostfs

import (
	"os"
	"slices"
	"strings"

	"berth/internal/base/durable"
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

// MachineIDs returns the SMBIOS product uuid and the machine id, by which a machine is known again after a reboot. Each
// is empty where it can't be read, and where it is one that many machines share.
func MachineIDs() (product, machine string) {
	return readID("/sys/class/dmi/id/product_uuid"), readID("/etc/machine-id")
}

// shared are ids that were never set.
var shared = []string{"uninitialized", "notsettable", "03000200040005000006000700080009"}

// readID reads an id of hexadecimal digits in its plainest form.
func readID(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "" // in a container, without SMBIOS, or not as root: nothing is known
	}
	id := strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(strings.TrimSpace(string(b))))
	if strings.Trim(id, "0") == "" || strings.Trim(id, "f") == "" || slices.Contains(shared, id) {
		return ""
	}
	return id
}

// MakeDir makes a directory 0700 with its parents.
func MakeDir(path string) error {
	return fault.Wrap(os.MkdirAll(path, 0o700), fault.Internal, "create", path)
}

// WriteFileSync writes a small file durably.
func WriteFileSync(path string, data []byte, mode os.FileMode) error {
	return fault.Wrap(durable.WriteFile(path, data, mode), fault.Internal, "write", path)
}
