package savefile

import (
	"bytes"
	"testing"
	"time"

	"berth/internal/base/fault"
)

func TestASavedStateIsReadAsItWasWritten(t *testing.T) {
	state := bytes.Repeat([]byte("state"), 1000)
	data, err := Encode(Meta{ClusterID: "c", Index: 7, Time: time.Unix(1, 0).UTC(), Counts: map[string]int{"jobs": 2}},
		state)
	if err != nil {
		t.Fatal(err)
	}
	m, got, err := Decode(bytes.NewReader(data))
	if err != nil || !bytes.Equal(got, state) {
		t.Fatalf("%v, %d bytes", err, len(got))
	}
	if m.ClusterID != "c" || m.Index != 7 || m.Size != len(state) || m.Counts["jobs"] != 2 {
		t.Errorf("%+v", m)
	}
}

// A file that was cut, or of which a byte has changed, is refused wherever that is.
func TestADamagedFileIsRefused(t *testing.T) {
	data, err := Encode(Meta{ClusterID: "c"}, bytes.Repeat([]byte{1, 2, 3, 250}, 500))
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		if _, _, err := Decode(bytes.NewReader(data[:at])); !fault.Has(err, fault.Invalid) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		other := bytes.Clone(data)
		other[at] ^= 0x10
		m, state, err := Decode(bytes.NewReader(other))
		if err == nil && (m.ClusterID != "c" || len(state) != 2000) {
			t.Fatalf("a changed byte at %d is believed: %+v", at, m)
		}
	}
}
