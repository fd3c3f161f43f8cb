package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Office issues certificates as an operator's own authority does, in files.
type Office struct {
	CA  string // its own certificate's file
	dir string
	crt *x509.Certificate
	key *ecdsa.PrivateKey
}

// Pair are the files of a certificate and of its key.
type Pair struct{ Cert, Key string }

// NewOffice makes one, with its files in dir.
func NewOffice(t testing.TB, dir, name string) *Office {
	t.Helper()
	o := &Office{dir: dir, CA: filepath.Join(dir, name+".pem")}
	var err error
	if o.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	o.crt = &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(365 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	put(t, o.CA, "CERTIFICATE", o.sign(t, o.crt, &o.key.PublicKey))
	return o
}

// Issue makes the files of a certificate for hosts, names and addresses, that is good for so long, and for servers and
// clients. Issued again by the same name, it takes their place.
func (o *Office) Issue(t testing.TB, name string, good time.Duration, hosts ...string) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	crt := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(good),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			crt.IPAddresses = append(crt.IPAddresses, ip)
			continue
		}
		crt.DNSNames = append(crt.DNSNames, h)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := Pair{Cert: filepath.Join(o.dir, name+".pem"), Key: filepath.Join(o.dir, name+"-key.pem")}
	put(t, p.Cert, "CERTIFICATE", o.sign(t, crt, &key.PublicKey))
	put(t, p.Key, "EC PRIVATE KEY", der)
	return p
}

func (o *Office) sign(t testing.TB, crt *x509.Certificate, of *ecdsa.PublicKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, crt, o.crt, of, o.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func put(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
