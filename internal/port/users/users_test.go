package users_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/users"
)

func TestWhoAUserIs(t *testing.T) {
	for spec, want := range map[string][2]uint32{
		"root": {0, 0}, "0": {0, 0}, "4321:8765": {4321, 8765}, "root:8765": {0, 8765}, "0:root": {0, 0},
	} {
		u, err := users.Resolve(spec)
		if err != nil || u.UID != want[0] || u.GID != want[1] {
			t.Errorf("%q is %+v, %v", spec, u, err)
		}
		if err == nil && strings.Contains(spec, ":") && len(u.Groups) > 0 {
			t.Errorf("%q has further groups: %v", spec, u.Groups)
		}
	}
	for _, spec := range []string{"no-such-user", "4321", "../x", ":", "root:no-such-group", "4294967296:1", ""} {
		if u, err := users.Resolve(spec); !fault.Has(err, fault.Invalid) {
			t.Errorf("%q is %+v, %v", spec, u, err)
		}
	}
}
