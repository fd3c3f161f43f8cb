package exec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

func TestWhatIsShownOfEtc(t *testing.T) {
	shown := etc([]string{"ssl", "pass*", "app/one.conf"})
	for _, name := range []string{"passwd", "hosts", "resolv.conf", "ssl", "app/one.conf"} {
		if !slices.Contains(shown, name) {
			t.Errorf("it lacks %s: %v", name, shown)
		}
	}
	if slices.Contains(shown, "ssl/certs") {
		t.Error("it shows what lies in a directory that is shown whole")
	}
	if again := slices.Compact(slices.Clone(shown)); len(again) != len(shown) {
		t.Errorf("it shows something twice: %v", shown)
	}
	entries, err := os.ReadDir("/etc")
	if err != nil {
		t.Fatal(err)
	}
	byDefault := etc(nil)
	for _, e := range entries {
		name := e.Name()
		if slices.ContainsFunc(byDefault, func(d string) bool { return d == name || strings.HasPrefix(d, name+"/") }) ||
			strings.ContainsAny(name, `*?[\`) {
			continue
		}
		if got := etc([]string{"[" + name[:1] + "]" + name[1:]}); !slices.Contains(got, name) {
			t.Errorf("a pattern that %s matches shows %v", name, got)
		}
		break
	}
	secret := []string{"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "ssh/ssh_host_ed25519_key",
		"berth/agent.hcl", "ssl/private/key.pem", "pki/tls/private/key.pem", "wireguard/wg0.conf",
		"kubernetes/admin.conf", "krb5.keytab"}
	for _, pattern := range DefaultEtc {
		for _, s := range secret {
			for p := s; p != "."; p = filepath.Dir(p) {
				if ok, err := filepath.Match(pattern, p); ok || err != nil {
					t.Errorf("%s shows %s: %v", pattern, s, err)
				}
			}
		}
	}
}

func TestOnlyWhatIsBelowEtcIsShown(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../root", "/etc/passwd", "a/../../b", "[", "ssl/.."} {
		if err := CheckEtc([]string{"hosts", name}); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckEtc(append(DefaultEtc, "ImageMagick-*", "ssl/private/app.pem")); err != nil {
		t.Error(err)
	}
}
