package wire_test

import (
	"testing"

	"google.golang.org/grpc/encoding"

	"berth/internal/wire"
)

// Names of files that tasks make stand in events and errors, and need not be UTF-8. A peer and a store that refused the
// text would refuse the whole message that it stands in, and all others that wait behind it.
func TestWhatIsNoUTF8IsReadAsItWasWritten(t *testing.T) {
	type event struct{ Text string }
	const text = "10 MiB in alloc/\xff\xfe"
	data, err := wire.Encode(event{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	for name, decode := range map[string]func([]byte, any) error{
		"a peer":  encoding.GetCodec("cbor").Unmarshal,
		"a reply": wire.Decode,
		"a store": wire.DecodeStrict,
	} {
		var got event
		if err := decode(data, &got); err != nil || got.Text != text {
			t.Errorf("%s reads %q: %v", name, got.Text, err)
		}
	}
}
