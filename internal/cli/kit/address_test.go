package kit

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"berth/api"
)

// listen takes connections until the test ends, at a socket or a port of its own.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test may have closed it
	return l
}

// Given what there is on a machine, when nobody says where the agent is, then it is sought at the socket that answers,
// and else at the port.
func TestTheAgentOfThisMachine(t *testing.T) {
	dir, err := os.MkdirTemp("", "bk-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	port := "http://" + listen(t, "tcp", "127.0.0.1:0").Addr().String()
	alive := filepath.Join(dir, "alive")
	dead := filepath.Join(dir, "dead")
	file := filepath.Join(dir, "file")
	listen(t, "unix", alive)
	gone := listen(t, "unix", dead).(*net.UnixListener)
	gone.SetUnlinkOnClose(false)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	for socket, want := range map[string]string{alive: "unix://" + alive, dead: port, file: port, none: port} {
		if got := localAgent(socket, port); got != want {
			t.Errorf("with %s: %s, want %s", filepath.Base(socket), got, want)
		}
	}
}

// Given an address in the environment or as a flag, when a command looks for its agent, then the flag wins over BERTH_,
// that over NOMAD_, and this machine is not looked at.
func TestTheOrderOfAddresses(t *testing.T) {
	for _, c := range []struct {
		flag string
		env  map[string]string
		want string
	}{
		{"unix:///f.sock", map[string]string{"BERTH_ADDR": "http://b:1", "NOMAD_ADDR": "http://n:1"}, "unix:///f.sock"},
		{"", map[string]string{"BERTH_ADDR": "http://b:1", "NOMAD_ADDR": "unix:///n.sock"}, "http://b:1"},
		{"", map[string]string{"NOMAD_ADDR": "unix:///n.sock"}, "unix:///n.sock"},
	} {
		e := New(nil, nil, nil, func(name string) string { return c.env[name] }, nil, "")
		e.general.address = c.flag
		if err := e.Connect(); err != nil || e.Client().Config().Address != c.want {
			t.Errorf("%q, %v: %v, want %s", c.flag, c.env, err, c.want)
		}
	}
	e := New(nil, nil, nil, func(string) string { return "" }, nil, "")
	e.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrClosed }
	if err := e.Connect(); err != nil || e.Client().Config().Address != api.DefaultAddress {
		t.Errorf("over a dialer of its own: %v", err)
	}
}
