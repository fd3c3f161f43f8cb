package identity

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
)

// TestOnlyLivingTasksOfThatNodeProveWhoItIs holds the law of a lost store over all that it looks at.
func TestOnlyLivingTasksOfThatNodeProveWhoItIs(t *testing.T) {
	for bits := range 1 << 9 {
		is := func(bit int) bool { return bits&(1<<bit) > 0 }
		l := &Leftovers{Living: map[ids.Alloc]ids.Node{}, Damaged: is(1)}
		if is(0) && !is(1) {
			l.Copy = "n"
		}
		for bit, node := range map[int]ids.Node{2: "n", 3: "", 4: "another"} {
			if is(bit) {
				l.Living[ids.Alloc("alloc of "+string(node))] = node
			}
		}
		if is(5) {
			l.Mounts = []string{"/m"}
		}
		if is(6) {
			l.IDFiles = 1
		}
		if is(7) {
			l.Allocs = 2
		}
		if is(8) {
			l.Volumes = 1
		}
		lives := is(2) || is(3) || is(4)
		want := Refused
		switch {
		case l.Copy != "" && lives && !is(4):
			want = Taken
		case l.Copy == "" && !l.Damaged && !lives && !is(5) && !is(6) && !is(7) && !is(8):
			want = Begins
		}
		got, why := l.Decide()
		if got != want {
			t.Errorf("case %09b: it is %s, want %s: %+v", bits, got, want, l)
		}
		if (got == Refused) != (why != "") {
			t.Errorf("case %09b: %s because %q", bits, got, why)
		}
		if got == Refused && is(5) && !lives && !l.Damaged && !strings.Contains(why, "mounted at /m") {
			t.Errorf("case %09b: the mount is not named: %s", bits, why)
		}
	}
}
