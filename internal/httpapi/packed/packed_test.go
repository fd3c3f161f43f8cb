package packed

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// Writers are used again: nothing of an earlier reply, and of one that could not be written, is in a later one.
func TestAReplyIsItsOwn(t *testing.T) {
	broken := To(failing{})
	if _, err := io.WriteString(broken, strings.Repeat("lost", 1<<16)); err == nil {
		if err := broken.Close(); err == nil {
			t.Error("what could not be written was")
		}
	}
	for _, text := range []string{"first", strings.Repeat("second", 1000), ""} {
		var out bytes.Buffer
		z := To(&out)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%d bytes came back, %v; want %d", len(got), err, len(text))
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
