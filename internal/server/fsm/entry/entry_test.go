package entry

import (
	"bytes"
	"testing"

	"berth/internal/wire"
)

// TestWhatIsLentIsTheWholeByteString: whatever size a byte string has, what is read where it lies is what was written.
func TestWhatIsLentIsTheWholeByteString(t *testing.T) {
	for _, size := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		want := bytes.Repeat([]byte{7}, size)
		item, err := wire.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Lent
		if err := wire.DecodeStrict(item, &got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d are read: %v", size, len(got), err)
		}
		if size > 0 && &got[size-1] != &item[len(item)-1] {
			t.Errorf("%d bytes were copied", size)
		}
	}
}

// TestWhatIsNoByteStringIsNotLent: anything else is refused, as is a byte string in pieces.
func TestWhatIsNoByteStringIsNotLent(t *testing.T) {
	for name, item := range map[string][]byte{
		"a number":                   {0x07},
		"a text":                     {0x61, 'a'},
		"nothing":                    {0xf6},
		"a list of byte strings":     {0x81, 0x41, 7},
		"a byte string in pieces":    {0x5f, 0x41, 7, 0xff},
		"a byte string of no length": {0x5c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"one that ends in its head":  {0x58},
	} {
		var got Lent
		if err := got.UnmarshalCBOR(item); err == nil {
			t.Errorf("%s is read as %x", name, got)
		}
	}
}
