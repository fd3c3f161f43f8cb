package server

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/trust"
	"berth/internal/server/keyring"
)

// shown are a server's credentials from when it has opened its key.
type shown struct {
	now atomic.Pointer[keyring.Credentials]
}

func (s *shown) set(c *keyring.Credentials) { s.now.Store(c) }

// Certificate implements tlsport.Credentials.
func (s *shown) Certificate() (*tls.Certificate, error) {
	if c := s.now.Load(); c != nil {
		return c.Certificate()
	}
	return nil, fault.New(fault.Unavailable, "show", "the server's certificate", "the server is starting")
}

// Rules implements tlsport.Credentials.
func (s *shown) Rules(protocol string) trust.Rules {
	if c := s.now.Load(); c != nil {
		return c.Rules(protocol)
	}
	return trust.Rules{Now: time.Now()}
}
