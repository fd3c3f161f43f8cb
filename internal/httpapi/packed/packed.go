// Package packed owns how replies are compressed: fast rather than small, as most clients are near, and with writers
// that are used again, because one takes more memory than most replies. Package httpapi imports it.
package packed

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip" // of a list it takes a third of the time that the standard one does
)

var idle = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant of the library's
	}
	return z
}}

// Wanted reports whether a reply is compressed: its client takes that, and is on another machine. On the same one both
// would need longer for it than for the bytes that it saves.
func Wanted(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr) // of a unix socket it is none
	return err == nil && !at.Addr().Unmap().IsLoopback() && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// Writer compresses what is written to it until it is closed.
type Writer struct{ z *gzip.Writer }

// To returns a writer that compresses into w.
func To(w io.Writer) Writer {
	z := idle.Get().(*gzip.Writer)
	z.Reset(w)
	return Writer{z}
}

// Write implements io.Writer.
func (w Writer) Write(p []byte) (int, error) { return w.z.Write(p) }

// Close writes what is left; it does not close what is below. The writer must not be used any more.
func (w Writer) Close() error {
	defer idle.Put(w.z)
	return w.z.Close()
}
