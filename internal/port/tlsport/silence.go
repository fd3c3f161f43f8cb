package tlsport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
)

// How long the other end of a connection may say nothing at all, down to the kernel: its machine is gone, or the
// network between drops everything. A quiet connection is probed; what was sent has to be acknowledged in time.
const (
	probeAfter = 5 * time.Second
	probeEvery = 3 * time.Second
	probes     = 3
	unanswered = probeAfter + probes*probeEvery
)

// attend has the kernel end a connection whose other end has fallen silent. Without that a write to a machine that is
// gone waits a quarter of an hour, and a read for good. What is no connection of the network is left as it is.
func attend(raw net.Conn) error {
	c, ok := raw.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := c.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable:   true,
		Idle:     probeAfter,
		Interval: probeEvery,
		Count:    probes,
	})
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "attend to", raw.RemoteAddr().String())
	}
	control, err := c.SyscallConn()
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "attend to", raw.RemoteAddr().String())
	}
	var set error
	err = control.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unanswered.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	return fault.Wrap(err, fault.Unavailable, "attend to", raw.RemoteAddr().String())
}
