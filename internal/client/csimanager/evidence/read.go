package evidence

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/sizes"
)

// largestIDFile is far more than an id file of ours has: it describes one volume.
const largestIDFile = 1 << 20

// read reads an id file. It lies where the plugin writes, too: what is no file, or too large for one of ours, is
// refused by its name. Nobody waits for it, follows it elsewhere, or has all of it in memory.
func read(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	}
	defer func() { _ = f.Close() }() // it was only read
	st, err := f.Stat()
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	}
	refuse := func(why string) error {
		return fault.WithHint(fault.New(fault.Invalid, "read", name, why),
			"it is none of ours: find out who made it, a storage plugin can write there, and remove it")
	}
	if !st.Mode().IsRegular() {
		return nil, refuse("it is no regular file but " + st.Mode().Type().String())
	}
	data, err := io.ReadAll(io.LimitReader(f, largestIDFile+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(err, fault.Internal, "read", name)
	case len(data) > largestIDFile:
		return nil, refuse(fmt.Sprintf("it has %s or more, and no id file has more than %s",
			sizes.Human(max(st.Size(), largestIDFile+1)), sizes.Human(largestIDFile)))
	}
	return data, nil
}
