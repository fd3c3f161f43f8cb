package consul_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/consul"
	"berth/internal/testkit/certificates"
	"berth/internal/testkit/consulagent"
)

// TestTheWayOfEnvoyToTheRealConsulIsSecured: where Consul shows a certificate, the way is one by TLS that speaks
// HTTP/2, if the authority is believed that has signed it, and there is none otherwise.
func TestTheWayOfEnvoyToTheRealConsulIsSecured(t *testing.T) {
	office := certificates.NewOffice(t, t.TempDir(), "consul")
	pair := office.Issue(t, "agent", 24*time.Hour, "127.0.0.1")
	real := consulagent.StartSecured(t, pair.Cert, pair.Key)
	self, err := dial(t, real.URL()).Self(context.Background())
	if err != nil || self.GRPC != real.GRPC {
		t.Errorf("%+v, %v", self, err)
	}
	to := func(ca string) (string, error) {
		text, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		way := &consul.Mesh{Address: fmt.Sprintf("127.0.0.1:%d", real.GRPC), CA: text}
		c, err := way.Dial(context.Background())
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }() // nothing was said
		return c.(*tls.Conn).ConnectionState().NegotiatedProtocol, nil
	}
	if spoken, err := to(office.CA); err != nil || spoken != "h2" {
		t.Errorf("it speaks %q, %v", spoken, err)
	}
	another := certificates.NewOffice(t, t.TempDir(), "another")
	if _, err := to(another.CA); !fault.Has(err, fault.Unavailable) {
		t.Errorf("an authority that has signed nothing is believed: %v", err)
	}
}
