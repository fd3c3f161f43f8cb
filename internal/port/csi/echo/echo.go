// Package echo owns what becomes of secrets that a plugin says again: in contexts a reference stands for the value,
// from the plugin's answer until the next call hands the context back, and in texts a mask. Only port/csi imports it,
// and server/volumes, which asks whose the volume is that an id stands for.
package echo

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"berth/internal/base/redact"
)

// A reference is ${secret:NAME}, its name escaped as in the query of an address, so that no name ends it early. The one
// without a name stands for open itself, where a plugin said that.
const (
	open    = "${secret:"
	end     = "}"
	literal = open + end
)

// Hide puts references for the values of secrets in a context that a plugin answered. Values too short to be looked for
// stay (redact.Map.Find). The result is nil where the context is empty.
func Hide(secrets redact.Map, context map[string]string) map[string]string {
	return each(context, func(text string) string { return HideText(secrets, text) })
}

// HideText puts references for the values of secrets in a text that is handed back.
func HideText(secrets redact.Map, text string) string {
	var b strings.Builder
	for from := 0; ; {
		at, name, length := secrets.Find(text[from:])
		if at < 0 {
			b.WriteString(strings.ReplaceAll(text[from:], open, literal))
			return b.String()
		}
		b.WriteString(strings.ReplaceAll(text[from:from+at], open, literal))
		b.WriteString(open + url.QueryEscape(name) + end)
		from += at + length
	}
}

// Reveal puts back what Hide replaced, for the call that hands the context to the plugin. It returns the names of
// secrets that the context refers to and that are not there, sorted.
func Reveal(secrets redact.Map, context map[string]string) (out map[string]string, missing []string) {
	lacking := map[string]bool{}
	out = each(context, func(text string) string { return reveal(secrets, text, lacking) })
	return out, slices.Sorted(maps.Keys(lacking))
}

// RevealText puts back what HideText replaced.
func RevealText(secrets redact.Map, text string) (out string, missing []string) {
	lacking := map[string]bool{}
	out = reveal(secrets, text, lacking)
	return out, slices.Sorted(maps.Keys(lacking))
}

// reveal adds the names of secrets that are not there to lacking.
func reveal(secrets redact.Map, text string, lacking map[string]bool) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, open)
		b.WriteString(before)
		escaped, after, ended := strings.Cut(rest, end)
		name, err := url.QueryUnescape(escaped)
		value, there := secrets[name]
		switch {
		case !found:
			return b.String()
		case !ended || err != nil: // nothing that Hide wrote
			b.WriteString(open)
			after = rest
		case name == "":
			b.WriteString(open)
		case there:
			b.WriteString(value.Reveal())
		default:
			lacking[name] = true
		}
		text = after
	}
}

func each(context map[string]string, change func(string) string) map[string]string {
	if len(context) == 0 {
		return nil
	}
	out := make(map[string]string, len(context))
	for k, v := range context {
		out[change(k)] = change(v)
	}
	return out
}
