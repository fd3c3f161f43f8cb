package csi

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/internal/base/redact"
)

// maxMessage bounds what is kept of a plugin's words, in bytes.
const maxMessage = 1 << 10

// scrub masks the secrets of a call in text, also where the plugin quoted them.
func scrub(secrets redact.Map, text string) string {
	if len(secrets) == 0 {
		return text
	}
	all := make(redact.Map, 2*len(secrets))
	for name, s := range secrets {
		all[name] = s
		if q := strconv.Quote(s.Reveal()); q[1:len(q)-1] != s.Reveal() {
			all[name+"\x00quoted"] = redact.New(q[1 : len(q)-1])
		}
	}
	return all.Scrub(text)
}

// clean makes text fit for one line on a terminal: control and invalid characters become spaces.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text))
}

// cut shortens text to at most max bytes without breaking a character.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	const more = "…"
	end := max - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
