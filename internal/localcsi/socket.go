package localcsi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listener knows the inode of the socket that it was given, so that it is never somebody else's that is removed.
type listener struct {
	net.Listener
	dev, ino uint64
}

// listen binds the socket under a name of its own and renames it, so that whoever sees the socket can connect to it,
// and nobody but its owner.
func listen(ctx context.Context, socket string) (*listener, error) {
	if err := replaceable(ctx, socket); err != nil {
		return nil, err
	}
	tmp := newSocket(socket)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", tmp)
	if err != nil {
		return nil, fmt.Errorf("serve on %s: %w", socket, err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	var st unix.Stat_t
	err = os.Chmod(tmp, 0o600)
	if err == nil {
		err = unix.Lstat(tmp, &st)
	}
	if err == nil {
		err = os.Rename(tmp, socket)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve on %s: %w", socket, err), ln.Close())
	}
	return &listener{Listener: ln, dev: st.Dev, ino: st.Ino}, nil
}

// replaceable refuses to take the place of anything but a socket that nobody answers on.
func replaceable(ctx context.Context, socket string) error {
	st, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("serve on %s: there is a %s; remove it or choose another endpoint", socket, st.Mode().Type())
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("serve on %s: find out who has it: %w", socket, err)
	}
	return errors.Join(
		fmt.Errorf("serve on %s: another process answers there; stop it or choose another endpoint", socket),
		conn.Close())
}

func dropSocket(socket string, ln *listener) error {
	var st unix.Stat_t
	if err := unix.Lstat(socket, &st); err != nil || st.Dev != ln.dev || st.Ino != ln.ino {
		return nil // a successor has taken the name
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
