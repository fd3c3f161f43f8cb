package trust

import (
	"crypto/x509"

	"berth/internal/base/fault"
)

// Trusted are the present root and the former ones that are trusted, and what goes with a certificate that the present
// one issues: whoever knows a former root alone believes it by that.
func Trusted(root []byte, former []Former) (roots, chain []*x509.Certificate, err error) {
	present, err := x509.ParseCertificate(root)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Invalid, "read", "the cluster's root")
	}
	roots, chain = append(roots, present), append(chain, present)
	for _, f := range former {
		old, err := x509.ParseCertificate(f.Root)
		if err != nil {
			return nil, nil, fault.Wrap(err, fault.Invalid, "read", "a former root of the cluster")
		}
		roots = append(roots, old)
		if len(f.Cross) == 0 {
			continue
		}
		cross, err := x509.ParseCertificate(f.Cross)
		if err != nil {
			return nil, nil, fault.Wrap(err, fault.Invalid, "read", "what a former root vouches by")
		}
		chain = append(chain, cross, old)
	}
	return roots, chain, nil
}
