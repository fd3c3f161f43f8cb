package savefile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
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

// members are those of a saved state's archive, in order.
type members []struct {
	name string
	data []byte
}

func unpack(t *testing.T, data []byte) (all members) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, struct {
			name string
			data []byte
		}{h.Name, data})
	}
}

func (all members) pack(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	var err error
	for _, m := range all {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: m.name, Mode: 0o600, Size: int64(len(m.data))}))
		_, failed := w.Write(m.data)
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Given a file that was packed anew, so that its own checksums are right, when what it holds is not what was saved, or
// is of another form, then it is refused.
func TestWhatWasPackedAnewIsHeldAgainstItsSums(t *testing.T) {
	saved, err := Encode(Meta{ClusterID: "c"}, []byte("the state of the servers"))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(members) members{
		"the description changed": func(all members) members {
			all[0].data = bytes.Replace(all[0].data, []byte(`"c"`), []byte(`"d"`), 1)
			return all
		},
		"the state changed": func(all members) members {
			all[1].data = []byte("the state of nobody else")
			return all
		},
		"without the description": func(all members) members { return all[1:] },
		"without the state":       func(all members) members { return append(all[:1], all[2]) },
		"without the sums":        func(all members) members { return all[:2] },
		"nothing":                 func(members) members { return nil },
	} {
		m, state, err := Decode(bytes.NewReader(edit(unpack(t, saved)).pack(t)))
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "checksums") || len(state) > 0 {
			t.Errorf("%s: %+v, %q, %v", name, m, state, err)
		}
	}
	for form, refused := range map[int]bool{Format - 1: true, Format: false, Format + 1: true} {
		all := unpack(t, saved)
		old := all[0].data
		is, other := fmt.Appendf(nil, `"Format": %d`, Format), fmt.Appendf(nil, `"Format": %d`, form)
		all[0].data = bytes.Replace(old, is, other, 1)
		all[2].data = bytes.Replace(all[2].data, []byte(sum(old)), []byte(sum(all[0].data)), 1)
		_, _, err := Decode(bytes.NewReader(all.pack(t)))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), fmt.Sprintf("its form is %d", form)) {
			t.Errorf("form %d: %v", form, err)
		}
	}
}

// Given a state that is larger than a file holds, when it is saved, then nothing is written, and the member, its size
// and the bound are named; the largest one is saved. A file that says such a size of itself is refused in the same
// words, before any of it is read.
func TestWhatIsBeyondTheBoundIsNamed(t *testing.T) {
	if data, err := encode(Meta{}, make([]byte, 100), 100); err != nil || len(data) == 0 {
		t.Errorf("as large as a file holds: %v", err)
	}
	data, err := encode(Meta{}, make([]byte, 101), 100)
	if !fault.Has(err, fault.Exhausted) || data != nil ||
		!strings.Contains(err.Error(), "state.bin has 101 bytes, and a file holds 100") {
		t.Errorf("larger: %d bytes, %v", len(data), err)
	}
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	if err := tar.NewWriter(z).WriteHeader(&tar.Header{Name: stateName, Mode: 0o600, Size: MaxState + 1}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = Decode(&file)
	if !fault.Has(err, fault.Exhausted) ||
		!strings.Contains(err.Error(), `"state.bin" in it has 1073741825 bytes, and this program reads 1073741824`) {
		t.Errorf("a file of such a size: %v", err)
	}
}
