package volumes

import (
	"testing"

	"berth/internal/model/volume"
)

// TestAListIsBelievedWhenItSaysTheSameTwice: a list is not consistent, so that what it misses once is no difference;
// that it shows a volume as recorded is believed at once.
func TestAListIsBelievedWhenItSaysTheSameTwice(t *testing.T) {
	var l lists
	l.known("p", 0)
	id := volume.ID{ID: "v"}
	missing := func() *volume.Observed { return &volume.Observed{Missing: true} }
	for i, c := range []struct {
		says *volume.Observed
		want bool
	}{
		{nil, true}, {missing(), false}, {missing(), true}, {&volume.Observed{Elsewhere: []string{"n"}}, false},
		{missing(), false}, {nil, true}, {missing(), false},
	} {
		if got := l.twice(id, c.says); got != c.want {
			t.Errorf("%d: %+v is believed: %v", i, c.says, got)
		}
	}
}
