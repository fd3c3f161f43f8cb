package kit

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"berth/api"
)

// probeTime bounds how long it takes to find out whether somebody listens on this machine.
const probeTime = time.Second

// localAgent is where commands look for an agent when nobody says where: the socket of an agent in service, or else the
// port of one for trying out. A socket that is there and refuses this user is named only where there is no port either:
// then its refusal says what to do.
func localAgent(socket, port string) string {
	err := listening("unix", socket)
	switch {
	case err == nil, errors.Is(err, syscall.EAGAIN): // it has more callers than it can take just now
		return "unix://" + socket
	case errors.Is(err, os.ErrPermission) && listening("tcp", strings.TrimPrefix(port, "http://")) != nil:
		return "unix://" + socket
	}
	return port
}

// listening tells whether somebody takes connections.
func listening(network, address string) error {
	conn, err := net.DialTimeout(network, address, probeTime)
	if err != nil {
		return err
	}
	return conn.Close()
}

// findAgent fills in where to ask when neither flag nor environment say it.
func (e *Env) findAgent(config *api.Config) {
	if config.Address == "" && e.Dial == nil {
		config.Address = localAgent(api.DefaultSocket, api.DefaultAddress)
	}
}
