package packed

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
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

// Given requests from elsewhere and from this machine, then replies are compressed for those alone that cross a network
// and take it.
func TestWhoGetsACompressedReply(t *testing.T) {
	for _, c := range []struct {
		from, accepts string
		want          bool
	}{
		{"192.0.2.1:99", "gzip", true},
		{"192.0.2.1:99", "br, gzip;q=0.5", true},
		{"192.0.2.1:99", "br", false},
		{"192.0.2.1:99", "", false},
		{"[2001:db8::1]:99", "gzip", true},
		{"[fe80::1%eth0]:99", "gzip", true},
		{"127.0.0.1:99", "gzip", false},
		{"127.1.2.3:99", "gzip", false},
		{"[::1]:99", "gzip", false},
		{"[::ffff:127.0.0.1]:99", "gzip", false},
		{"@", "gzip", false},
		{"", "gzip", false},
	} {
		r := httptest.NewRequest("GET", "/v1/jobs", nil)
		r.RemoteAddr = c.from
		r.Header.Set("Accept-Encoding", c.accepts)
		if got := Wanted(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
