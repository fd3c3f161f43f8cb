package csi

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/internal/base/redact"
	"berth/internal/port/csi/echo"
)

// maxMessage bounds what is kept of a plugin's words, in bytes.
const maxMessage = 1 << 10

// minHidden is the length from which the value of a mount flag is masked wherever it stands; a shorter one, as in
// uid=0, is masked only together with its name, because masking it everywhere would make messages unreadable.
const minHidden = 6

// hide has the values of mount flags masked like secrets in what the plugin says: they may be sensitive, as passwords
// of network file systems are. Flags without a value, as ro, are words that anybody may read.
func (k *call) hide(flags MountFlags) {
	for _, f := range flags {
		for option := range strings.SplitSeq(f, ",") {
			name, value, ok := strings.Cut(option, "=")
			if !ok || value == "" {
				continue
			}
			if k.hidden == nil {
				k.hidden = redact.Map{}
			}
			k.hidden["flag\x00"+option] = redact.New(option)
			if len(value) >= minHidden {
				k.hidden["value\x00"+name+"\x00"+value] = redact.New(value)
			}
		}
	}
}

// scrub masks what of the call must not be seen in the plugin's words.
func (k *call) scrub(text string) string {
	return k.c.sent.Scrub(echo.Scrub(k.hidden, echo.Scrub(k.secrets, text)))
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
