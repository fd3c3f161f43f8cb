package standing

import (
	"testing"

	"berth/internal/model/alloc"
)

// TestWhatHasEndedIsNeitherHealthyNorTried: an alloc that ended, or is to end, takes no part in what a group has, but
// the deployment that it was bad for remembers it.
func TestWhatHasEndedIsNeitherHealthyNorTried(t *testing.T) {
	good, bad := &alloc.Health{Healthy: true, Index: 7}, &alloc.Health{Index: 8}
	for name, c := range map[string]struct {
		alloc alloc.Alloc
		want  Counts
	}{
		"runs":          {alloc.Alloc{}, Counts{Live: 1}},
		"healthy":       {alloc.Alloc{Health: good}, Counts{Live: 1, Healthy: 1, Mark: 7}},
		"bad":           {alloc.Alloc{Health: bad}, Counts{Live: 1, Bad: 1}},
		"canary":        {alloc.Alloc{Canary: true}, Counts{Trying: 1}},
		"tried":         {alloc.Alloc{Canary: true, Health: good}, Counts{Trying: 1, Tried: 1, Mark: 7}},
		"to be stopped": {alloc.Alloc{Health: good, DesiredStatus: alloc.DesiredStop}, Counts{Mark: 7}},
		"failed":        {alloc.Alloc{Health: bad, ClientStatus: alloc.ClientFailed}, Counts{Bad: 1}},
		"lost canary":   {alloc.Alloc{Canary: true, Health: good, ClientStatus: alloc.ClientLost}, Counts{Mark: 7}},
	} {
		c.want.Allocs = 1
		if got := One(&c.alloc); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTakingAwayUndoesAddingButNotTheMark: what is counted of an alloc goes with it.
func TestTakingAwayUndoesAddingButNotTheMark(t *testing.T) {
	a := One(&alloc.Alloc{Health: &alloc.Health{Healthy: true, Index: 3}})
	b := One(&alloc.Alloc{Canary: true, Health: &alloc.Health{Healthy: true, Index: 9}})
	want := a
	want.Mark = 9
	if got := a.And(b).Less(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
