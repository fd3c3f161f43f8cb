package keyring_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/server/keyring"
)

// TestRecoveryIsAListOrTheWordNone: as a configuration has it; what is neither is refused with the way out.
func TestRecoveryIsAListOrTheWordNone(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	for what, c := range map[string]struct {
		value any
		said  bool
		keys  int
		bad   bool
	}{
		"nothing":          {nil, false, 0, false},
		"an empty list":    {[]any{}, false, 0, false},
		"none":             {"none", true, 0, false},
		"a list of none":   {[]any{"none"}, true, 0, false},
		"a list of a key":  {[]any{key}, true, 1, false},
		"a key in no list": {key, false, 0, true},
		"another word":     {"None", false, 0, true},
		"a number":         {7, false, 0, true},
		"a list of one":    {[]any{7}, false, 0, true},
		"none and a key":   {[]any{"none", key}, false, 0, true},
		"a short key":      {[]any{key[:8]}, false, 0, true},
	} {
		got, err := keyring.RecoveryOf(c.value)
		var f *fault.Error
		switch {
		case (err != nil) != c.bad, got.Said != c.said, len(got.Keys) != c.keys:
			t.Errorf("%s: %+v, %v", what, got, err)
		case err != nil && (!errors.As(err, &f) || !strings.Contains(f.Hint, `recovery = "none"`)):
			t.Errorf("%s: %v", what, err)
		}
	}
}
