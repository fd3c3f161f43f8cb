package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// Given lines of lists, when they pass over the wire, then nothing is lost of one that has everything, and one that has
// nothing but its name takes no place for the rest.
func TestALineIsAsLongAsWhatItHas(t *testing.T) {
	id := volume.ID{Namespace: "default", ID: "data"}
	bare, full := VolumeLine{ID: id}, VolumeLine{
		ID:             id,
		Name:           "a volume",
		Plugin:         "disk",
		ExternalID:     "external",
		Provider:       "provider",
		Topologies:     []plugin.Topology{{Segments: map[string]string{"zone": "a"}}},
		AccessMode:     volume.SingleNodeWriter,
		AttachmentMode: volume.FileSystem,
		Readers:        2,
		Writers:        1,
		Schedulable:    true,
		CreateIndex:    3,
		ModifyIndex:    4,
		CreateTime:     5,
		ModifyTime:     6,
	}
	for _, want := range []VolumeLine{bare, full} {
		text, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got VolumeLine
		if err := Decode(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, name := range []string{"Topologies", "Readers", "Schedulable", "Provider"} {
			if has := bytes.Contains(text, []byte(name)); has != (want.Readers > 0) {
				t.Errorf("%s: the line of %d bytes has %s: %t", want.Name, len(text), name, has)
			}
		}
	}
}

// Given claims that hold a volume, release it or wait for it, when it is listed, then those are counted that use it: a
// volume for one writer does not seem to have two while it goes from one to the next.
func TestWhoWaitsForAVolumeIsNotCountedAsItsUser(t *testing.T) {
	claim := func(state volume.ClaimState, reads bool) *volume.Claim {
		return &volume.Claim{State: state, ReadOnly: reads}
	}
	v := &VolumeView{Volume: &volume.Volume{}, Claims: []*volume.Claim{
		claim(volume.Releasing, false), claim(volume.Queued, false), claim(volume.Queued, true),
		claim(volume.Held, true), claim(volume.Held, true),
	}}
	if l := v.Line(); l.Writers != 1 || l.Readers != 2 {
		t.Errorf("%d writers and %d readers are counted, not 1 and 2", l.Writers, l.Readers)
	}
}
