package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

	"berth/internal/wire"
)

// Socket guards a unix socket. The mode of its file keeps others out already; what this adds is that a process which
// gets past file modes by a capability is asked for its user. Names of hosts mean nothing on a socket, and no browser
// reaches it.
type Socket struct {
	UID   int    // of the agent; root may always
	Agent string // its name, for what is recorded
	// Lists: being root on this machine gives nothing in the cluster, as on one that has no server. Requests are judged
	// by the token that they show, and as anonymous without one.
	Lists bool
}

// Admit implements Guard.
func (s Socket) Admit(r *http.Request) (wire.Person, error) {
	uid, known := r.Context().Value(peerKey{}).(int)
	switch {
	case !known:
		return wire.Person{}, denied("the kernel does not tell whose this connection is", "connect anew")
	case uid != 0 && uid != s.UID:
		why := fmt.Sprintf("the socket is for root and the agent's user (%d), this is user %d", s.UID, uid)
		return wire.Person{}, denied(why, "run the command with sudo")
	case s.Lists && makesFirst(r):
		return wire.Person{}, first("root of this machine is not the cluster's")
	case s.Lists:
		return shows(Token(r))
	}
	return wire.Person{Local: true, Name: fmt.Sprintf("uid %d on %s", uid, s.Agent)}, nil
}

type peerKey struct{}

// WithPeer notes in a connection's context which user is at its other end, for Socket.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	if uid, err := peerOf(c); err == nil {
		return context.WithValue(ctx, peerKey{}, uid)
	}
	return ctx
}

// Peer says who sent a request, as far as that is known: the user at the other end of a socket, or an address.
func Peer(r *http.Request) string {
	if uid, known := r.Context().Value(peerKey{}).(int); known {
		return fmt.Sprintf("user %d", uid)
	}
	return r.RemoteAddr
}

// Client names whose connection it is, for bounds: a user of the machine, or an address. The loopback has addresses for
// whoever wants several: all of them are one.
func Client(c net.Conn) string {
	if uid, err := peerOf(c); err == nil {
		return fmt.Sprintf("user %d", uid)
	}
	host := hostOf(c.RemoteAddr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return "the loopback"
	}
	return host
}

// peerOf asks the kernel who connected.
func peerOf(c net.Conn) (int, error) {
	if w, wraps := c.(interface{ NetConn() net.Conn }); wraps {
		c = w.NetConn()
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
