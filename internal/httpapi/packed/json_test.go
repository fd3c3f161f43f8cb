package packed

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

type row struct {
	Name string
	More map[string]any `json:",omitempty"`
}

// Given lists of any length, when they are written in pieces, then the reply is byte for byte what it would be if it
// were written as a whole.
func TestAListInPiecesIsTheList(t *testing.T) {
	for _, count := range []int{0, 1, 2, 1000, 5000} {
		rows := make([]any, 0, count)
		for i := range count {
			rows = append(rows, &row{
				Name: strings.Repeat("<a & b>\n", i%40),
				More: map[string]any{"n": i, "of": []string{"x", "y"}},
			})
		}
		for _, pretty := range []bool{false, true} {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if pretty {
				enc.SetIndent("", "    ")
			}
			if err := enc.Encode(rows); err != nil {
				t.Fatal(err)
			}
			w := &pieces{ResponseRecorder: httptest.NewRecorder()}
			if err := JSON(w, rows, false, pretty); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.Body.Bytes(), want.Bytes()) {
				t.Errorf("%d rows, pretty %t: %d bytes, want %d", count, pretty, w.Body.Len(), want.Len())
			}
			if !pretty && w.largest > 2*piece {
				t.Errorf("%d rows: %d bytes were written at once", count, w.largest)
			}
		}
	}
	var none []any
	w := httptest.NewRecorder()
	if err := JSON(w, none, false, false); err != nil || w.Body.String() != "null\n" {
		t.Errorf("no list: %q, %v", w.Body, err)
	}
}

// Given a list with what cannot be written, or a client that has gone, when it is written, then that is said.
func TestAListThatCannotBeWritten(t *testing.T) {
	if err := JSON(httptest.NewRecorder(), []any{1, func() {}}, false, false); err == nil {
		t.Error("a function was written")
	}
	rows := []any{strings.Repeat("x", piece), strings.Repeat("x", piece)}
	for fails := range 2 {
		w := &pieces{ResponseRecorder: httptest.NewRecorder(), left: fails + 1}
		if err := JSON(w, rows, false, false); !errors.Is(err, errGone) || w.left != 0 {
			t.Errorf("the client goes at write %d: %v, %d more tried", fails, err, w.left)
		}
	}
}

var errGone = errors.New("the client has gone")

// pieces knows how much was written at once, and fails at a write if that is asked for.
type pieces struct {
	*httptest.ResponseRecorder
	largest int
	left    int // writes until it fails; 0: never
}

func (p *pieces) Write(text []byte) (int, error) {
	if p.left > 0 {
		if p.left--; p.left == 0 {
			return 0, errGone
		}
	}
	p.largest = max(p.largest, len(text))
	return p.ResponseRecorder.Write(text)
}
