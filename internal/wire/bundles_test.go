package wire

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
)

func TestAllocsOfOneJobCarryItOnce(t *testing.T) {
	long := &job.Job{ID: "long", Meta: map[string]string{"text": strings.Repeat("x", 100_000)}}
	other := &job.Job{ID: "other"}
	set := AllocSet{
		At:       lineage.Point{Incarnation: "i", Mark: "m", Index: 7},
		Relation: lineage.Behind,
		Full:     true,
		Gone:     []ids.Alloc{"g"},
	}
	for range 1000 {
		set.Bundles = append(set.Bundles, alloc.Bundle{Alloc: &alloc.Alloc{ID: "a", Job: "long"}, Job: long})
	}
	set.Bundles = append(set.Bundles, alloc.Bundle{Alloc: &alloc.Alloc{ID: "b"}, Job: other},
		alloc.Bundle{Alloc: &alloc.Alloc{ID: "c"}})
	data, err := Encode(&set)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 2<<20 {
		t.Errorf("it takes %d bytes", len(data))
	}
	var got AllocSet
	if err := Decode(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.At != set.At || got.Relation != set.Relation || !got.Full || len(got.Gone) != 1 || len(got.Bundles) != 1002 {
		t.Fatalf("got %d bundles at %d", len(got.Bundles), got.At.Index)
	}
	if got.Bundles[0].Job != got.Bundles[999].Job || got.Bundles[0].Job.ID != "long" ||
		got.Bundles[1000].Job.ID != "other" || got.Bundles[1001].Job != nil {
		t.Error("bundles have the wrong jobs")
	}
	for name, in := range map[string]bundles{
		"a bundle with a job that is not there": {Allocs: []*alloc.Alloc{{}}, Of: []int{5}},
		"an alloc without the place of its job": {Allocs: []*alloc.Alloc{{}}},
	} {
		data, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(data, new(Bundles)); err == nil {
			t.Error(name + " was taken")
		}
	}
}
