package nodemeta

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/internal/base/fault"
)

// Bounds of the metadata of a node, in bytes: it goes to the servers with each registration, and into their memory.
const (
	maxKey   = 128
	maxValue = 4 << 10
	maxKeys  = 256
	maxAll   = 64 << 10 // keys and values together
)

// merged lays what was said at run time over what the configuration says.
func merged(static map[string]string, dynamic map[string]*string) map[string]string {
	out := make(map[string]string, len(static)+len(dynamic))
	maps.Copy(out, static)
	for k, v := range dynamic {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

// settled leaves out keys that were taken away and that the configuration does not name: nothing is left to hide.
func settled(static map[string]string, dynamic map[string]*string) map[string]*string {
	out := map[string]*string{}
	for k, v := range dynamic {
		if _, configured := static[k]; v != nil || configured {
			out[k] = v
		}
	}
	return out
}

// check refuses keys and values that a constraint could not name, and more than a node may have.
func check(values map[string]*string, all map[string]string, dynamic map[string]*string) error {
	refuse := func(why, hint string) error {
		return fault.WithHint(fault.New(fault.Invalid, "", "metadata", why), hint)
	}
	if len(values) == 0 {
		return refuse("no key is named", "give at least one key, with a value or with null to take it away")
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		v := values[k]
		switch {
		case v == nil: // whatever it is called, it may go
		case k == "" || len(k) > maxKey:
			return refuse(fmt.Sprintf("the key %.40q has %d bytes", k, len(k)),
				fmt.Sprintf("keys have 1 to %d", maxKey))
		case strings.IndexFunc(k, foreign) >= 0:
			return refuse(fmt.Sprintf("the key %q is not one that a constraint can name", k),
				"use letters, digits and _ - . /")
		case len(*v) > maxValue:
			return refuse(fmt.Sprintf("the value of %q has %d bytes", k, len(*v)),
				fmt.Sprintf("values have at most %d", maxValue))
		case !utf8.ValidString(*v) || strings.IndexFunc(*v, unicode.IsControl) >= 0:
			return refuse(fmt.Sprintf("the value of %q is not text, or has control characters", k),
				"use printable UTF-8")
		}
	}
	size := 0
	for k, v := range all {
		size += len(k) + len(v)
	}
	if keys := max(len(all), len(dynamic)); keys > maxKeys || size > maxAll {
		return refuse(fmt.Sprintf("the node would have %d keys of %d bytes together with their values", keys, size),
			fmt.Sprintf("take some away: there are at most %d keys, of %d bytes together", maxKeys, maxAll))
	}
	return nil
}

// foreign tells characters that no key has.
func foreign(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./", r))
}
