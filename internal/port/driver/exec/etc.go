package exec

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// DefaultEtc are the entries of the node's /etc that every task sees, as far as there are: what programs need to find
// names, libraries, certificates and the time. Names may hold the patterns of path/filepath.
var DefaultEtc = strings.Fields(`
	passwd group nsswitch.conf hosts host.conf hostname resolv.conf gai.conf
	services protocols networks rpc ethertypes netconfig
	ld.so.cache ld.so.conf ld.so.conf.d alternatives
	ssl/certs ssl/cert.pem ssl/openssl.cnf ca-certificates ca-certificates.conf
	pki/ca-trust pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf crypto-policies
	localtime timezone locale.alias locale.conf
	os-release debian_version mtab mime.types magic magic.mime terminfo inputrc bash.bashrc profile profile.d shells
	login.defs fonts java java-* python3* perl`)

const etcDir = "/etc"

// CheckEtc refuses names that are not below /etc, or that no pattern has the form of.
func CheckEtc(names []string) error {
	var bad []string
	for _, n := range names {
		if _, err := filepath.Match(n, ""); err != nil || !filepath.IsLocal(n) || filepath.Clean(n) == "." {
			bad = append(bad, strconv.Quote(n))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.WithHint(fault.New(fault.Invalid, "", strings.Join(bad, ", "), "it names nothing below /etc"),
		"write it relative to /etc, as \"ImageMagick-6\" or \"ssl/private/app.pem\"")
}

// etc lists what a task sees of /etc: no path beside another that contains it.
func etc(more []string) []string {
	var out []string
	for _, n := range append(slices.Clone(DefaultEtc), more...) {
		names := []string{filepath.Clean(n)}
		if strings.ContainsAny(n, "*?[") {
			found, _ := filepath.Glob(filepath.Join(etcDir, n)) // its form was checked
			names = nil
			for _, f := range found {
				names = append(names, strings.TrimPrefix(f, etcDir+"/"))
			}
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(slices.Clone(out), func(n string) bool {
		return slices.ContainsFunc(out, func(above string) bool { return strings.HasPrefix(n, above+"/") })
	})
}
