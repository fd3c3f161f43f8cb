package apitls_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/agent/apitls"
	"berth/internal/base/fault"
	"berth/internal/testkit/certificates"
)

const year = 365 * 24 * time.Hour

func on(p certificates.Pair) apitls.Block {
	yes := true
	return apitls.Block{HTTP: &yes, CertFile: p.Cert, KeyFile: p.Key}
}

func load(t *testing.T, b apitls.Block) *apitls.Certificates {
	t.Helper()
	c, err := b.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve answers "hello" on a port of the certificates.
func serve(t *testing.T, c *apitls.Certificates) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(c.Listener(l)) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// client believes an office, and shows a pair of files, if there is one.
func client(t *testing.T, o *certificates.Office, shows *certificates.Pair, most uint16) *http.Client {
	t.Helper()
	text, err := os.ReadFile(o.CA)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), MaxVersion: most, MinVersion: tls.VersionTLS10}
	cfg.RootCAs.AppendCertsFromPEM(text)
	if shows != nil {
		pair, err := tls.LoadX509KeyPair(shows.Cert, shows.Key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: cfg}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// get is the answer's body, and the serial number of the certificate that was shown.
func get(c *http.Client, url string) (body, serial string, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.TLS != nil {
		serial = resp.TLS.PeerCertificates[0].SerialNumber.String()
	}
	return string(text), serial, err
}

// TestAPortSpeaksHTTPSAlone: given a port with a certificate, then who believes its authority gets through, who speaks
// plain HTTP or an old version does not, and the former hears why in words that clients know.
func TestAPortSpeaksHTTPSAlone(t *testing.T) {
	o := certificates.NewOffice(t, t.TempDir(), "ca")
	at := serve(t, load(t, on(o.Issue(t, "api", year, "127.0.0.1"))))
	if body, _, err := get(client(t, o, nil, 0), "https://"+at); err != nil || body != "hello" {
		t.Errorf("https: %q, %v", body, err)
	}
	if _, _, err := get(client(t, o, nil, tls.VersionTLS11), "https://"+at); err == nil {
		t.Error("an old version got through")
	}
	body, _, err := get(http.DefaultClient, "http://"+at)
	if err != nil || !strings.Contains(body, "Client sent an HTTP request to an HTTPS server.") {
		t.Errorf("plain HTTP: %q, %v", body, err)
	}
	raw, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte("SSH-2.0-x\r\n")); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(raw); err == nil && strings.Contains(string(text), "HTTP/1") {
		t.Errorf("what is no HTTP is answered by it: %q", text)
	}
	b := on(o.Issue(t, "api", year, "127.0.0.1"))
	b.MinVersion = "tls13"
	if _, _, err := get(client(t, o, nil, tls.VersionTLS12), "https://"+serve(t, load(t, b))); err == nil {
		t.Error("TLS 1.2 got through where 1.3 is asked for")
	}
}

// TestOnlyClientsWithACertificateGetThrough: given a port that verifies its clients, then those of the authority get
// through, and nobody else.
func TestOnlyClientsWithACertificateGetThrough(t *testing.T) {
	dir := t.TempDir()
	o, other := certificates.NewOffice(t, dir, "ca"), certificates.NewOffice(t, dir, "other")
	mine, foreign := o.Issue(t, "client", year), other.Issue(t, "foreign", year)
	ended := o.Issue(t, "ended", -time.Minute)
	b := on(o.Issue(t, "api", year, "127.0.0.1"))
	b.CAFile, b.VerifyHTTPSClient = o.CA, b.HTTP
	at := "https://" + serve(t, load(t, b))
	if body, _, err := get(client(t, o, &mine, 0), at); err != nil || body != "hello" {
		t.Errorf("a client of the authority: %q, %v", body, err)
	}
	for name, p := range map[string]*certificates.Pair{"none": nil, "another's": &foreign, "an expired one": &ended} {
		if body, _, err := get(client(t, o, p, 0), at); err == nil {
			t.Errorf("with %s: %q", name, body)
		}
	}
}

// TestFilesAreRenewedWhileThePortIsOpen: given a port that is open, when its files are replaced, then connections that
// are open go on, new ones see the new certificate, and clients are judged by the new authorities, sessions or not.
func TestFilesAreRenewedWhileThePortIsOpen(t *testing.T) {
	dir := t.TempDir()
	o, second := certificates.NewOffice(t, dir, "ca"), certificates.NewOffice(t, dir, "second")
	mine := o.Issue(t, "client", year)
	b := on(o.Issue(t, "api", year, "127.0.0.1", "first.example"))
	b.CAFile, b.VerifyHTTPSClient = o.CA, b.HTTP
	c := load(t, b)
	at := "https://" + serve(t, c)
	open := client(t, o, &mine, 0)
	_, before, err := get(open, at)
	if err != nil || !c.Named("first.example") || c.Named("second.example") || !c.Named("127.0.0.1") {
		t.Fatal(before, err)
	}
	b = on(o.Issue(t, "api", 2*year, "127.0.0.1", "second.example"))
	b.CAFile, b.VerifyHTTPSClient = second.CA, b.HTTP
	next := load(t, b)
	if c.Equal(next) || !c.Equal(c) || c.Equal(nil) {
		t.Error("other files are taken for the same, or the same for others")
	}
	c.Take(next)
	if !c.Equal(next) || !c.Named("second.example") || time.Until(c.Ends()) < year+time.Hour {
		t.Errorf("the new certificate is not taken over: it ends %s", c.Ends())
	}
	if _, now, err := get(open, at); err != nil || now != before {
		t.Errorf("the connection that was open: certificate %s, was %s, %v", now, before, err)
	}
	open.CloseIdleConnections()
	if _, _, err := get(open, at); err == nil {
		t.Error("a client of the authority before gets through")
	}
	theirs := second.Issue(t, "theirs", year)
	if _, now, err := get(client(t, o, &theirs, 0), at); err != nil || now == before {
		t.Errorf("a new connection sees certificate %s, was %s, %v", now, before, err)
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	dir := t.TempDir()
	o := certificates.NewOffice(t, dir, "ca")
	a, z := o.Issue(t, "a", year, "a.example"), o.Issue(t, "z", year, "z.example")
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := os.ReadFile(a.Key)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for name, c := range map[string]struct {
		block apitls.Block
		want  []string
	}{
		"nothing": {apitls.Block{HTTP: &yes},
			[]string{"tls cert_file: it is not set", "tls key_file: it is not set", `"/etc/berth/api-key.pem"`}},
		"nothing on": {apitls.Block{CertFile: a.Cert}, []string{"nothing is encrypted", "http = true"}},
		"clients by nobody": {apitls.Block{HTTP: &yes, CertFile: a.Cert, KeyFile: a.Key, VerifyHTTPSClient: &yes},
			[]string{"tls ca_file", "not set"}},
		"a relative file": {apitls.Block{HTTP: &yes, CertFile: "a.pem", KeyFile: a.Key},
			[]string{"tls cert_file a.pem", "absolute"}},
		"no file": {apitls.Block{HTTP: &yes, CertFile: dir + "/none", KeyFile: dir + "/neither"},
			[]string{"cert_file " + dir + "/none: no such file", "key_file " + dir + "/neither: no such file"}},
		"a directory":   {apitls.Block{HTTP: &yes, CertFile: dir, KeyFile: a.Key}, []string{"no regular file"}},
		"another's key": {apitls.Block{HTTP: &yes, CertFile: a.Cert, KeyFile: z.Key}, []string{z.Key, "of one pair"}},
		"a key for everybody": {apitls.Block{HTTP: &yes, CertFile: a.Cert, KeyFile: file("open", string(key), 0o644)},
			[]string{"mode 0644", "chmod 600"}},
		"too large": {apitls.Block{HTTP: &yes, CertFile: file("large", strings.Repeat("x", 1<<20+1), 0o600),
			KeyFile: a.Key}, []string{"more than 1048576 bytes"}},
		"no authority": {apitls.Block{HTTP: &yes, CertFile: a.Cert, KeyFile: a.Key, CAFile: file("no", "x", 0o600)},
			[]string{"no certificate", "PEM"}},
		"an old version": {apitls.Block{HTTP: &yes, CertFile: a.Cert, KeyFile: a.Key, MinVersion: "tls10"},
			[]string{"tls_min_version tls10", "tls12 or tls13"}},
	} {
		_, err := c.block.Load()
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		for _, w := range c.want {
			if text := err.Error(); !strings.Contains(text, w) || !fault.Has(err, fault.Invalid) {
				t.Errorf("%s: the message lacks %q:\n%s", name, w, text)
			}
		}
	}
	if c, err := (&apitls.Block{}).Load(); c != nil || err != nil {
		t.Errorf("an empty block: %v, %v", c, err)
	}
}
