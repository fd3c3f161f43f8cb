package packed

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// JSON writes a reply, compressed if the client takes that, and with lines and indents for people.
func JSON(w http.ResponseWriter, v any, compressed, pretty bool) error {
	w.Header().Set("Content-Type", "application/json")
	out, end := io.Writer(w), func() error { return nil }
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
		z := To(w)
		out, end = z, z.Close
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if pretty {
		enc.SetIndent("", "    ")
	}
	return errors.Join(enc.Encode(v), end())
}
