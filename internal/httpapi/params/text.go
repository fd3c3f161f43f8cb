package params

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text refuses a JSON body that is no text. What decodes JSON would put U+FFFD in the place of what is none: another
// job than was meant, or another's.
func Text(body []byte) error {
	switch {
	case !utf8.Valid(body):
		return errors.New("the request's body is not UTF-8")
	case halves(body):
		return errors.New(`the request's body has half of a character: \ud800 to \udfff come in pairs`)
	case depth(body) > MaxDepth:
		return fmt.Errorf("the request's body nests objects and lists more than %d deep", MaxDepth)
	}
	return nil
}

// MaxDepth bounds how deep objects and lists of a body nest. What is sent on carries them within its own: it has to
// stay readable for servers and nodes, which read up to wire.MaxDepth.
const MaxDepth = 40

// depth is how deep objects and lists nest in what is taken for JSON.
func depth(body []byte) (most int) {
	now, text := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			now++
			most = max(most, now)
		case c == '}', c == ']':
			now--
		}
	}
	return most
}

// halves says whether a surrogate is escaped without the one that makes it a character. Outside of texts JSON has no
// backslash.
func halves(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return false
		}
		body = body[i:]
		r, is := escaped(body)
		switch {
		case !is:
			body = body[min(2, len(body)):] // the next one may be escaped by this
		case !utf16.IsSurrogate(r):
			body = body[escape:]
		default:
			low, _ := escaped(body[escape:])
			if utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			body = body[2*escape:]
		}
	}
}

const escape = len(`\uXXXX`)

// escaped is the code unit that a text begins with, escaped.
func escaped(text []byte) (rune, bool) {
	if len(text) < escape || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:escape]), 16, 16)
	return rune(n), err == nil
}
