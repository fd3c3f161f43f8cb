package denied

import (
	"crypto/x509"
	"slices"
	"time"
)

// stands says why a connection ends although it was let in: the certificate that was shown on it was issued by no root
// that is trusted still, or has been over for as long as it was good for. Empty: it goes on. roots are those that are
// trusted; none: that is not known.
func stands(leaf *x509.Certificate, roots []*x509.Certificate, now time.Time) string {
	issued := func(root *x509.Certificate) bool { return leaf.CheckSignatureFrom(root) == nil }
	switch {
	case leaf == nil:
	case len(roots) > 0 && !slices.ContainsFunc(roots, issued):
		return "the root that has issued its certificate is trusted no more"
	case now.After(overdue(leaf)):
		return "its certificate is over since " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// leastOverdue is how long a connection goes on at least by a certificate that is over: with certificates of seconds
// all would end and come back all the time.
const leastOverdue = time.Hour

// overdue is until when a connection goes on by a certificate, which was renewed long before.
func overdue(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(max(leaf.NotAfter.Sub(leaf.NotBefore), leastOverdue))
}
