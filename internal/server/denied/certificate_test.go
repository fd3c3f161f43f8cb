package denied

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/testkit/certificates"
)

// TestWhatWasShownOnAConnectionIsGoodForATime: a certificate of a root that is forgotten, and one that is over for a
// lifetime and an hour at least, carry no connection; one of a former root does, and one that is over for less.
func TestWhatWasShownOnAConnectionIsGoodForATime(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := ids.New()
	old, now := certificates.New(t, id).Authority, certificates.New(t, id).Authority
	old.Lifetime = time.Hour
	key, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := old.Issue(trust.Principal{Cluster: id, Role: trust.Node, ID: ids.New()}, key.Public(), at)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	old.Lifetime = 2 * time.Second
	der, err = old.Issue(trust.Principal{Cluster: id, Role: trust.Node, ID: ids.New()}, key.Public(), at)
	if err != nil {
		t.Fatal(err)
	}
	short, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		leaf  *x509.Certificate
		roots []*x509.Certificate
		after time.Duration
		why   string
	}{
		{"it is good", leaf, []*x509.Certificate{old.Root}, 0, ""},
		{"its root is a former one", leaf, []*x509.Certificate{now.Root, old.Root}, 0, ""},
		{"its root is forgotten", leaf, []*x509.Certificate{now.Root}, 0, "trusted no more"},
		{"no root is known yet", leaf, nil, 0, ""},
		{"it is over", leaf, []*x509.Certificate{old.Root}, 90 * time.Minute, ""},
		{"it is over for a lifetime", leaf, []*x509.Certificate{old.Root}, 3 * time.Hour, "is over since"},
		{"one of seconds is over", short, []*x509.Certificate{old.Root}, 50 * time.Minute, ""},
		{"one of seconds is over for an hour", short, []*x509.Certificate{old.Root}, 2 * time.Hour, "is over since"},
		{"nothing was shown", nil, []*x509.Certificate{now.Root}, 3 * time.Hour, ""},
	} {
		if why := stands(c.leaf, c.roots, at.Add(c.after)); (why == "") != (c.why == "") ||
			!strings.Contains(why, c.why) {
			t.Errorf("%s: it ends because %q, want %q", c.what, why, c.why)
		}
	}
}
