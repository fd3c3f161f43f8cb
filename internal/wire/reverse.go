package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
)

// maxHello bounds the greeting of a reversed connection, in bytes.
const maxHello = 4096

// helloTimeout bounds how long the greeting of a reversed connection may take to arrive.
const helloTimeout = 10 * time.Second

// SendHello opens the reversed connection that a node dialled: it says who serves on it. From then on the node is the
// gRPC server of this connection (OneConn) and the other side its client (ReceiveHello).
func SendHello(c net.Conn, id NodeIdentity) error {
	data, err := Encode(id)
	if err != nil {
		return fmt.Errorf("encode greeting: %w", err)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)); err != nil {
		return fault.Wrap(err, fault.Unavailable, "greet server", c.RemoteAddr().String())
	}
	return nil
}

// ReceiveHello reads the greeting on a connection that a server accepted for the reversed direction and returns who
// serves there (not authenticated yet) and the connection on which its methods are called. Close it when done; it can't
// be dialled again: when it breaks, the node dials a new one.
func ReceiveHello(c net.Conn) (NodeIdentity, *grpc.ClientConn, error) {
	id, err := readHello(c)
	if err != nil {
		_ = c.Close() // the greeting's error is the one that matters
		return NodeIdentity{}, nil, err
	}
	var used atomic.Bool
	// It is the node, which serves, that asks whether the other end is there: one of an older version takes questions
	// for an attack, and ends the connection.
	conn, err := connect(func(context.Context) (net.Conn, error) {
		if used.Swap(true) {
			return nil, fault.New(fault.Unavailable, "call node", string(id.Node),
				"its connection is gone; it will dial a new one")
		}
		return c, nil
	})
	if err != nil {
		return id, nil, err
	}
	// the node waits for the protocol's first words; a connection that is never used would keep it waiting
	conn.Connect()
	return id, conn, nil
}

func readHello(c net.Conn) (NodeIdentity, error) {
	var id NodeIdentity
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return id, fault.Wrap(err, fault.Unavailable, "read greeting", "")
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return id, fault.Wrap(err, fault.Unavailable, "read greeting", "")
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHello {
		return id, fault.New(fault.Invalid, "read greeting", "",
			fmt.Sprintf("it announces %d bytes, the limit is %d", n, maxHello))
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(c, data); err != nil {
		return id, fault.Wrap(err, fault.Unavailable, "read greeting", "")
	}
	if err := Decode(data, &id); err != nil {
		return id, fault.Wrap(err, fault.Invalid, "read greeting", "")
	}
	return id, c.SetReadDeadline(time.Time{})
}

// ServeOne serves on one connection until it breaks or ctx ends: the node's side of the reversed connection.
func ServeOne(ctx context.Context, s *Server, c net.Conn) error {
	sctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(sctx, func() { _ = c.Close() })() // a peer that never speaks must not hold the end up
	return s.Run(sctx, NewOneConn(&tellingConn{Conn: c, closed: cancel}))
}

// tellingConn says when it was closed: gRPC closes the connections that broke.
type tellingConn struct {
	net.Conn
	closed func()
}

func (c *tellingConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
