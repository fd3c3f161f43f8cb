package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/certificates"
)

// TestThePortSpeaksHTTPS: given an agent whose port has a certificate and verifies its clients, then commands with a
// certificate get through, to run things in tasks, too; others hear what is missing, and who speaks plain HTTP, that
// it is HTTPS. Files that are renewed are shown after SIGHUP, and a session that is open goes on.
func TestThePortSpeaksHTTPS(t *testing.T) {
	const token = "sesame-of-the-port-7c21"
	m := inService(t)
	o := certificates.NewOffice(t, m.root, "authority")
	const day = 24 * time.Hour
	crt, mine := o.Issue(t, "api", 30*day, "127.0.0.1", "berth.example"), o.Issue(t, "client", day)
	file := filepath.Join(m.root, "token")
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	m.configure(false, fmt.Sprintf("\n  socket = %q\n  token_file = %q\n", m.socket(), file), fmt.Sprintf(`
ports { http = %d }
keyring { recovery = ["none"] }
tls {
  http                = true
  cert_file           = %q
  key_file            = %q
  ca_file             = %q
  verify_https_client = true
}`, m.port, crt.Cert, crt.Key, o.CA))
	m.start()
	m.run(sleeper("sleeper"))
	id := m.running("sleeper", 1)[0].ID

	at := []string{"-address", strings.Replace(m.address(), "http://", "https://", 1), "-token", token}
	known := append(at[:4:4], "-ca-cert", o.CA)
	shown := append(known[:6:6], "-client-cert", mine.Cert, "-client-key", mine.Key)
	named := append(shown[:10:10], "-tls-server-name", "berth.example")
	status := []string{"node", "status"}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"with all":                  {append(status, shown...), 0, "ready"},
		"by the certificate's name": {append(status, named...), 0, "ready"},
		"that knows no authority":   {append(status, at...), 1, "-ca-cert"},
		"without a certificate":     {append(status, known...), 1, "certificate"},
		"of plain HTTP":             {append(status, "-address", m.address(), "-token", token), 1, "https://"},
		"in a task": {append(append([]string{"alloc", "exec"}, shown...), id, "echo", "inside"), 0,
			"inside\n"},
	} {
		if out, code := m.cli(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("a command %s: %d %s, want %d %s", name, code, out, c.code, c.want)
		}
	}

	client := m.client(api.Config{
		Address: at[1],
		Token:   token,
		TLS:     api.TLSConfig{CACert: o.CA, ClientCert: mine.Cert, ClientKey: mine.Key},
	})
	self, err := client.Cluster().Self(t.Context())
	must(t, err)
	if text := fmt.Sprint(self.Config["TLSConfig"]); text != "map[EnableHTTP:true EnableRPC:false]" {
		t.Errorf("the agent says of itself %s", text)
	}
	o.Issue(t, "api", 60*day, "127.0.0.1", "renewed.example")
	must(t, m.cmd.Process.Signal(syscall.SIGHUP))
	renewed := append(shown[:10:10], "-tls-server-name", "renewed.example")
	m.eventually("the renewed certificate to be shown", func() bool {
		_, code := m.cli(append(status, renewed...)...)
		return code == 0
	})
	if _, err := client.Cluster().Self(t.Context()); err != nil {
		t.Errorf("a client from before: %v", err)
	}
	m.stopJob("sleeper")
	must(t, m.stop())
}
