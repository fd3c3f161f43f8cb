package allocdir

import (
	"context"
	"strings"

	"berth/internal/wire"
)

// LastLine returns the last line of a task's output that is not empty, cut to so many bytes; empty: there is none.
func (d Dir) LastLine(ctx context.Context, task, stream string, most int) (string, error) {
	var end []byte
	// The beginning of a longer line is not read, so that what is shown of it is its end.
	err := d.Log(ctx, task, stream, ReadRequest{Offset: int64(most) + 2, End: true},
		func(f *wire.StreamFrame) error {
			end = append(end, f.Data...)
			return nil
		})
	text := strings.TrimSpace(strings.ToValidUTF8(string(end), ""))
	text = text[strings.LastIndexByte(text, '\n')+1:]
	if len(text) > most {
		text = strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text, err
}
