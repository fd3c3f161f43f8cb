package hostfs

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// DialSocket connects to the unix socket at path, whose last element somebody else may have laid there: it is the
// socket itself, or nothing is connected to. A link could lead to any socket of the node, as whoever dials it.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	at := os.NewFile(uintptr(fd), path)
	defer at.Close()
	st, err := at.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%s is no socket but a file of mode %s: nothing is connected to", path, st.Mode())
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd)) // no longer a path that can change
}
