package privilege

import (
	"os"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Bounding is the set of capabilities that this process and those that it starts can have at all, a bit for each by its
// number.
func Bounding() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "read", "the capabilities of this process")
	}
	for line := range strings.Lines(string(text)) {
		if set, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return n, fault.Wrap(err, fault.Internal, "read", "the capabilities of this process")
		}
	}
	return 0, fault.New(fault.Internal, "read", "the capabilities of this process", "the kernel does not say them")
}
