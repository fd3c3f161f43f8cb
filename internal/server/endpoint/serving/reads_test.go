package serving

import (
	"strings"
	"testing"
)

func TestPrefixesOfIdsMayComeWithoutHyphens(t *testing.T) {
	full := "12345678-9abc-def0-1234-56789abcdef0"
	bare := strings.ReplaceAll(full, "-", "")
	for n := range len(bare) {
		if p := UUIDPrefix(bare[:n]); !strings.HasPrefix(full, p) {
			t.Errorf("%q became %q", bare[:n], p)
		}
	}
}
