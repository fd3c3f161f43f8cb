package packed

import (
	"bytes"
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
	if rows, ok := v.([]any); ok && !pretty && rows != nil {
		return errors.Join(list(out, rows), end())
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if pretty {
		enc.SetIndent("", "    ")
	}
	return errors.Join(enc.Encode(v), end())
}

// piece is how much of a list is written at once.
const piece = 64 << 10

// list writes rows as they would be written together, but in pieces: the client reads the first while the next is made,
// and no list is in memory as a whole.
func list(w io.Writer, rows []any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	text.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			text.Truncate(text.Len() - 1) // the end of the line
			text.WriteByte(',')
		}
		if text.Len() >= piece {
			if _, err := text.WriteTo(w); err != nil {
				return err
			}
		}
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		text.Truncate(text.Len() - 1)
	}
	text.WriteString("]\n")
	_, err := text.WriteTo(w)
	return err
}
