package cores_test

import (
	"slices"
	"testing"

	"berth/internal/model/cores"
)

// machine has two memory nodes of four cores each, the last of which are slow ones.
func machine() []cores.Core {
	var out []cores.Core
	for id := range uint16(8) {
		c := cores.Core{ID: id, Memory: int(id / 4), BaseMHz: 3000}
		if id%4 == 3 {
			c.Efficient, c.BaseMHz = true, 1500
		}
		out = append(out, c)
	}
	return out
}

func TestCoresAreWrittenAsTheKernelDoesAndReadBack(t *testing.T) {
	for text, ids := range map[string][]uint16{
		"":          nil,
		"0":         {0},
		"0-3,8":     {8, 3, 2, 1, 0, 0},
		"1,3,5-6":   {1, 3, 5, 6},
		"8190-8191": {8190, 8191},
	} {
		if got := cores.Format(ids); got != text {
			t.Errorf("%v is written %q, want %q", ids, got, text)
		}
		got, err := cores.Parse(text)
		if want := slices.Compact(slices.Sorted(slices.Values(ids))); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "3-1", "-1", "0-9999", "1-", "70000"} {
		if got, err := cores.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestAllCoresTogetherStandForAllOfTheNode(t *testing.T) {
	all := machine()
	if got := cores.Shares(all, []uint16{0}, 21000); got != 3000 {
		t.Errorf("a fast core stands for %d MHz", got)
	}
	if got := cores.Shares(all, []uint16{3, 7}, 21000); got != 3000 {
		t.Errorf("two slow cores stand for %d MHz", got)
	}
	// What the operator says that the node has is what its cores have.
	if got := cores.Shares(all, cores.Without(all, nil), 1000); got != 1000 {
		t.Errorf("all cores stand for %d of 1000 MHz", got)
	}
	if got := cores.Shares(nil, nil, 1000); got != 0 {
		t.Errorf("no core stands for %d MHz", got)
	}
}

func TestWhichCoresATaskGets(t *testing.T) {
	all := machine()
	for name, c := range map[string]struct {
		taken    []uint16
		n        int
		affinity string
		want     []uint16
	}{
		"the lowest":                           {nil, 2, cores.AffinityNone, []uint16{0, 1}},
		"the lowest that are free":             {[]uint16{0, 2}, 3, "", []uint16{1, 3, 4}},
		"of the fuller memory node":            {[]uint16{4, 5}, 2, cores.AffinityRequire, []uint16{6, 7}},
		"of the one that has enough":           {[]uint16{0, 1}, 3, cores.AffinityRequire, []uint16{4, 5, 6}},
		"of one if that is possible":           {[]uint16{0, 1}, 3, cores.AffinityPrefer, []uint16{4, 5, 6}},
		"of both if one is preferred":          {[]uint16{0, 4}, 4, cores.AffinityPrefer, []uint16{1, 2, 3, 5}},
		"none of two nodes if one is required": {[]uint16{0, 4}, 4, cores.AffinityRequire, nil},
		"none if there are too few":            {[]uint16{0}, 8, cores.AffinityNone, nil},
	} {
		var free []cores.Core
		for _, core := range all {
			if !slices.Contains(c.taken, core.ID) {
				free = append(free, core)
			}
		}
		got, ok := cores.Choose(free, c.n, c.affinity)
		if !slices.Equal(got, c.want) || ok != (c.want != nil) {
			t.Errorf("%s: %v, %v; want %v", name, got, ok, c.want)
		}
	}
}
