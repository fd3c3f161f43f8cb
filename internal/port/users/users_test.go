package users_test

import (
	"slices"
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

func TestWhomNoTaskMayBe(t *testing.T) {
	uids, err := users.ParseRanges("10-99, 4000")
	if err != nil {
		t.Fatal(err)
	}
	p := users.Policy{Denied: []string{"root", "no-such-user"}, DeniedUIDs: uids,
		DeniedGIDs: []users.Range{{First: 0, Last: 0}, {First: 42, Last: 42}}}
	if got := p.UIDs(); got != "0,10-99,4000" {
		t.Errorf("its numbers are %q", got)
	}
	for spec, denied := range map[string]bool{
		"root": true, "0": true, "0:8765": true, "root:nogroup": true, "00:1": true, "nobody:root": true,
		"nobody:0": true, "nobody:42": true, "10:1": true, "99:1": true, "4000:1": true,
		"": false, "nobody": false, "9:1": false, "100:1": false, "3999:1": false, "4321:8765": false,
	} {
		if err := p.Check(spec); fault.Has(err, fault.Denied) != denied || err != nil && !denied {
			t.Errorf("%q: %v", spec, err)
		}
	}
	if err := p.Check("no-such-user"); !fault.Has(err, fault.Invalid) {
		t.Errorf("a user that the node does not know: %v", err)
	}
}

func TestRangesAreReadOrRefused(t *testing.T) {
	got, err := users.ParseRanges(" 0 , 10-99,,4294967295 ")
	want := []users.Range{{0, 0}, {10, 99}, {4294967295, 4294967295}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"x", "1-", "-1", "9-1", "4294967296", "1-2-3", "root"} {
		if got, err := users.ParseRanges(text); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
