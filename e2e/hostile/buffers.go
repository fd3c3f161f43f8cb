package hostile

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// What the tasks may have that fill buffers of sockets, and what they fill at most: the kernel lets each socket have a
// little more, whatever the limit.
const (
	bufferedSockets = 400
	mostBuffered    = 96 << 20 // of a task whose limit is 48 MiB
	wantsBuffer     = 4 << 20  // for each socket; the kernel cuts it to what the node allows
)

// tcpBuffers writes to connections from which nobody reads, until none takes more.
func tcpBuffers() error {
	listener, at, err := bound(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err := unix.Listen(listener, bufferedSockets); err != nil {
		return err
	}
	var senders []int
	for range bufferedSockets {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, at); err != nil {
			return err
		}
		if _, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC); err != nil {
			return err
		}
		senders = append(senders, fd)
	}
	held, piece := 0, make([]byte, 64<<10)
	for range 5 {
		for _, fd := range senders {
			for {
				n, err := unix.SendmsgN(fd, piece, nil, nil, unix.MSG_DONTWAIT)
				if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) {
					break
				}
				if err != nil {
					return err
				}
				if held += n; held > mostBuffered {
					return say(fmt.Sprintf("%s: more than %d MiB", Allowed, held>>20))
				}
			}
		}
		time.Sleep(200 * time.Millisecond) // what has arrived makes room for more
	}
	return say(fmt.Sprintf("%s at %d MiB", Bounded, held>>20))
}

// udpBuffers sends to sockets from which nobody reads, and then counts what they hold.
func udpBuffers() error {
	var receivers []int
	held, piece := 0, make([]byte, 32<<10)
	from, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for range bufferedSockets {
		fd, at, err := bound(unix.SOCK_DGRAM)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, wantsBuffer); err != nil {
			return err
		}
		for range 2 * wantsBuffer / len(piece) {
			if err := unix.Sendto(from, piece, 0, at); err != nil && !errors.Is(err, unix.ENOBUFS) &&
				!errors.Is(err, unix.ENOMEM) {
				return err
			}
		}
		receivers = append(receivers, fd)
	}
	for _, fd := range receivers {
		for {
			n, _, err := unix.Recvfrom(fd, piece, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
			held += n
		}
	}
	if held > mostBuffered {
		return say(fmt.Sprintf("%s: %d MiB", Allowed, held>>20))
	}
	return say(fmt.Sprintf("%s at %d MiB", Bounded, held>>20))
}

// bound is a socket of this machine's loopback, and its address.
func bound(kind int) (fd int, at unix.Sockaddr, err error) {
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, nil, err
	}
	at, err = unix.Getsockname(fd)
	return fd, at, err
}
