package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"berth/internal/base/fault"
	"berth/internal/model/network"
)

// Listening refuses, as Denied, a port of the node at which one of its own programs listens, or receives by UDP: what
// is sent there would reach an alloc from then on, and with it the program's secrets. A port that leads to an alloc has
// no listener. It is asked before the port is published; who listens there afterwards hears nothing.
func Listening(ctx context.Context, p network.Published) error {
	at := netip.AddrPortFrom(p.Host, p.Port).String()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	if err == nil {
		err = l.Close()
	}
	if err == nil {
		var c net.PacketConn
		if c, err = lc.ListenPacket(ctx, "udp", at); err == nil {
			err = c.Close()
		}
	}
	switch {
	case err == nil, errors.Is(err, syscall.EADDRNOTAVAIL): // the address is to come
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.WithHint(
			fault.New(fault.Denied, "publish", fmt.Sprintf("port %d at %s", p.Port, p.Host),
				"a program of the node uses it"),
			"ask for another port; the agent's reserved block lists those that no job gets (reserved_ports)")
	}
	return fault.Wrap(err, fault.Internal, "look at", "port "+at)
}
