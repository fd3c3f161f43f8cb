package audit

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// plain writes what a terminal would act on, or not show, as JSON may: callers choose much of what a line holds, and
// people read the file as it is. The encoder escapes what is below a space; of the rest there are the controls of one
// code (C1, among them a CSI) and those that turn the direction of a text or hide in it.
func plain(line []byte) []byte {
	hidden := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	out := make([]byte, 0, len(line))
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case !hidden(r):
			out = append(out, line[:n]...)
		case r > 0xffff: // as JSON writes it, in two halves
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[n:]
	}
	return out
}
