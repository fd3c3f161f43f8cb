// Package apitls owns the encryption of the port of an agent's API, by a certificate of its operator's: what may be
// configured, the files, and that they can be renewed while connections are open. Only package agent imports it.
package apitls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
)

// Block is the block tls of an agent's configuration.
type Block struct {
	HTTP     *bool  `hcl:"http"`      // the port of the API speaks HTTPS
	CertFile string `hcl:"cert_file"` // PEM: the certificate, then those that sign it
	KeyFile  string `hcl:"key_file"`  // PEM
	CAFile   string `hcl:"ca_file"`   // PEM: who may have issued the certificates of clients
	// VerifyHTTPSClient lets in clients alone that show a certificate.
	VerifyHTTPSClient *bool  `hcl:"verify_https_client"`
	MinVersion        string `hcl:"tls_min_version"` // tls12 (also when empty) or tls13
}

// Refusals name settings of this block that people bring along from elsewhere.
var Refusals = map[string]string{
	"rpc":                             between,
	"verify_server_hostname":          between,
	"rpc_upgrade_mode":                between,
	"tls_cipher_suites":               "the safe ones are offered, the best first; leave it out",
	"tls_prefer_server_cipher_suites": "the safe ones are offered, the best first; leave it out",
}

const between = "between agents all is encrypted, with certificates that the cluster issues and renews itself; " +
	"leave it out"

// Override lays f over b.
func (b *Block) Override(f *Block) {
	overlay.Pick(&b.CertFile, f.CertFile)
	overlay.Pick(&b.KeyFile, f.KeyFile)
	overlay.Pick(&b.CAFile, f.CAFile)
	overlay.Pick(&b.MinVersion, f.MinVersion)
	overlay.Pick(&b.HTTP, f.HTTP)
	overlay.Pick(&b.VerifyHTTPSClient, f.VerifyHTTPSClient)
}

// With is b with the files of f, which a port takes over while it is open.
func (b *Block) With(f *Block) *Block {
	n := *b
	n.CertFile, n.KeyFile = f.CertFile, f.KeyFile
	n.CAFile = f.CAFile
	return &n
}

// On tells whether the port speaks HTTPS.
func (b *Block) On() bool { return b != nil && is(b.HTTP) }

// Verifies tells whether clients must show a certificate.
func (b *Block) Verifies() bool { return b.On() && is(b.VerifyHTTPSClient) }

func is(b *bool) bool { return b != nil && *b }

var versions = map[string]uint16{"": tls.VersionTLS12, "tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13}

// Load refuses what cannot work, everything of it at once, and reads the files; nil: the port speaks no HTTPS.
func (b *Block) Load() (*Certificates, error) {
	if b == nil {
		return nil, nil
	}
	var errs []error
	for _, f := range []struct{ name, path string }{
		{"cert_file", b.CertFile}, {"key_file", b.KeyFile}, {"ca_file", b.CAFile},
	} {
		needed := f.name != "ca_file" || b.Verifies()
		switch {
		case f.path == "" && b.On() && needed:
			errs = append(errs, refuse("tls "+f.name, "it is not set",
				"write "+f.name+" = \"/etc/berth/"+usual[f.name]+"\""))
		case f.path != "" && !filepath.IsAbs(f.path):
			errs = append(errs, refuse("tls "+f.name+" "+f.path, "its path must be absolute",
				"write "+f.name+" = \"/etc/berth/"+usual[f.name]+"\""))
		}
	}
	if _, ok := versions[b.MinVersion]; !ok {
		errs = append(errs, refuse("tls tls_min_version "+b.MinVersion, "it is not known", "write tls12 or tls13"))
	}
	if !b.On() && *b != (Block{HTTP: b.HTTP}) {
		errs = append(errs, refuse("tls", "files and versions are set, and nothing is encrypted",
			"write http = true, or leave the block out"))
	}
	if len(errs) > 0 || !b.On() {
		return nil, errors.Join(errs...)
	}
	f, err := b.read()
	if err != nil {
		return nil, err
	}
	c := &Certificates{verify: b.Verifies(), least: versions[b.MinVersion]}
	c.now.Store(f)
	return c, nil
}

var usual = map[string]string{"cert_file": "api.pem", "key_file": "api-key.pem", "ca_file": "clients-ca.pem"}

func refuse(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", what, why), hint)
}

// files are what was read together.
type files struct {
	cert    tls.Certificate
	clients *x509.CertPool
	ca      []byte // as it was read
}

// maxPEM bounds a file in bytes: chains have some ten thousand.
const maxPEM = 1 << 20

func (b *Block) read() (*files, error) {
	cert, certErr := open("cert_file", b.CertFile)
	key, keyErr := open("key_file", b.KeyFile)
	var ca []byte
	var caErr error
	if b.CAFile != "" {
		ca, caErr = open("ca_file", b.CAFile)
	}
	if err := errors.Join(certErr, keyErr, caErr); err != nil {
		return nil, err
	}
	f := &files{ca: ca, clients: x509.NewCertPool()}
	if b.CAFile != "" && !f.clients.AppendCertsFromPEM(ca) {
		return nil, refuse("tls ca_file "+b.CAFile, "it has no certificate", "write certificates in PEM into it")
	}
	var err error
	if f.cert, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fault.WithHint(fault.Wrap(err, fault.Invalid, "configure",
			"tls cert_file "+b.CertFile+" with key_file "+b.KeyFile),
			"they are PEM, of one pair, and the certificate of the agent is the first of its file")
	}
	return f, nil
}

// open reads a file of the configuration. Others may read certificates, and nobody but the owner's group the key.
func open(name, path string) ([]byte, error) {
	what := "tls " + name + " " + path
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fault.WithHint(fault.Wrap(errors.Unwrap(err), fault.Invalid, "configure", what),
			"put the file there, readable for the agent")
	case !st.Mode().IsRegular():
		return nil, refuse(what, "it is no regular file", "name the file itself")
	case st.Size() > maxPEM:
		return nil, refuse(what, fmt.Sprintf("it has more than %d bytes", maxPEM), "keep in it what the agent needs")
	case name == "key_file" && st.Mode().Perm()&0o007 != 0:
		return nil, refuse(what, fmt.Sprintf("its mode %04o lets everybody at it", st.Mode().Perm()),
			"chmod 600 "+path+", and make another key if others may have read it")
	}
	text, err := os.ReadFile(path)
	return text, fault.Wrap(err, fault.Invalid, "configure", what)
}

// Certificates are what a port shows and asks for. They can be replaced while it is open.
type Certificates struct {
	verify bool
	least  uint16
	now    atomic.Pointer[files]
}

// Take replaces the files by those of next, for connections that begin from now on.
func (c *Certificates) Take(next *Certificates) { c.now.Store(next.now.Load()) }

// Equal tells whether both have the same certificates.
func (c *Certificates) Equal(o *Certificates) bool {
	if c == nil || o == nil {
		return c == o
	}
	a, b := c.now.Load(), o.now.Load()
	same := len(a.cert.Certificate) == len(b.cert.Certificate) && bytes.Equal(a.ca, b.ca)
	for i := 0; same && i < len(a.cert.Certificate); i++ {
		same = bytes.Equal(a.cert.Certificate[i], b.cert.Certificate[i])
	}
	return same
}

// Ends is until when the certificate is good.
func (c *Certificates) Ends() time.Time { return c.now.Load().cert.Leaf.NotAfter }

// Named tells whether the certificate is that of a host: by another name no client that checks it gets here.
func (c *Certificates) Named(host string) bool {
	return c.now.Load().cert.Leaf.VerifyHostname(host) == nil
}

// Listener speaks TLS on what comes through l. The handshake is made by whoever reads a connection, not by Accept.
func (c *Certificates) Listener(l net.Listener) net.Listener {
	return &listener{l, &tls.Config{
		MinVersion:         c.least,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.Config(), nil },
	}}
}

// Config is that of a connection that begins now.
func (c *Certificates) Config() *tls.Config {
	f := c.now.Load()
	cfg := &tls.Config{
		MinVersion:   c.least,
		Certificates: []tls.Certificate{f.cert},
		NextProtos:   []string{"http/1.1"}, // sessions and streams take their connection over
	}
	if c.verify {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, f.clients
		cfg.SessionTicketsDisabled = true // a session that goes on is not judged by authorities that are new
	}
	return cfg
}

type listener struct {
	net.Listener
	cfg *tls.Config
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: tls.Server(c, l.cfg)}, nil
}

// conn answers who speaks HTTP to a port of HTTPS in words that programs know.
type conn struct{ *tls.Conn }

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil && letters(plain.RecordHeader) {
		const words = "Client sent an HTTP request to an HTTPS server.\n"
		_, _ = fmt.Fprintf(plain.Conn, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"+
			"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(words), words)
	}
	return n, err
}

// letters tells the begin of a method of HTTP.
func letters(head [5]byte) bool {
	for i, c := range head {
		if (c < 'A' || c > 'Z') && (i < 3 || c != ' ' && c != '/') {
			return false
		}
	}
	return true
}
