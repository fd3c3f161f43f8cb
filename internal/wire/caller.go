package wire

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"berth/internal/model/trust"
)

// authenticated are connections that know who is at the other end.
type authenticated interface{ Peer() trust.Peer }

// Caller is who is at the other end of the connection by which the call came that is being served. ok: it came over a
// connection that makes sure of that, and not from within this process.
func Caller(ctx context.Context) (who trust.Peer, ok bool) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return trust.Peer{}, false
	}
	c, ok := p.AuthInfo.(caller)
	return c.peer, ok
}

// CallerAddr is from where the call came that is being served; empty: it is not known.
func CallerAddr(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	if p == nil || p.Addr == nil {
		return ""
	}
	return p.Addr.String()
}

// At is who is at the other end of a connection, if the connection makes sure of it.
func At(c net.Conn) (who trust.Peer, ok bool) {
	a, ok := c.(authenticated)
	if !ok {
		return trust.Peer{}, false
	}
	return a.Peer(), true
}

// caller is a peer as gRPC hands it on.
type caller struct {
	credentials.CommonAuthInfo
	peer trust.Peer
}

// AuthType implements credentials.AuthInfo.
func (caller) AuthType() string { return "tls" }

// handed takes over what the connections that it is handed have found out at their own handshake.
type handed struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (handed) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if who, ok := At(c); ok {
		return c, caller{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, who}, nil
	}
	return c, nil, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (handed) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, nil, nil
}

// Info implements credentials.TransportCredentials.
func (handed) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (handed) Clone() credentials.TransportCredentials { return handed{} }

// OverrideServerName implements credentials.TransportCredentials.
func (handed) OverrideServerName(string) error { return nil }
