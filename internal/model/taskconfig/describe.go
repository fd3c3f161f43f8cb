package taskconfig

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// wanted says what a field takes.
func (f Field) wanted() string {
	if len(f.OneOf) > 0 {
		return strings.Join(f.OneOf, " or ")
	}
	switch {
	case f.Absolute:
		return "an absolute path"
	case f.Most > 0:
		return "a whole number from 0 to " + strconv.FormatInt(f.Most, 10)
	}
	return map[Kind]string{
		Text:    "a text",
		Boolean: "true or false",
		Number:  "a whole number",
		Texts:   "a list of texts",
		Map:     "a map of texts",
		Blocks:  "a block",
	}[f.Kind]
}

// example is how a field can be written in a job file.
func (f Field) example(name string) string {
	switch f.Kind {
	case Boolean:
		return name + " = true"
	case Number:
		return name + " = 1"
	case Texts:
		return name + ` = ["…", "…"]`
	case Map:
		return name + ` = { name = "…" }`
	case Blocks:
		var inner []string
		for _, n := range slices.Sorted(maps.Keys(f.Fields)) {
			if inner == nil || f.Fields[n].Required {
				inner = append(inner, f.Fields[n].example(n))
			}
		}
		return name + " { " + strings.Join(inner, "; ") + " }"
	}
	if len(f.OneOf) > 0 {
		return name + " = " + strconv.Quote(f.OneOf[0])
	}
	if f.Absolute {
		return name + ` = "/…"`
	}
	return name + ` = "…"`
}

// describe says what a value is, and not which: it may be a secret.
func describe(v any) string {
	switch t := v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case float64:
		if t != math.Trunc(t) {
			return "a number with a fraction"
		}
	case bool:
		return "a boolean"
	case map[string]any:
		return "a map"
	case []any:
		_, block := asMaps(t)
		switch {
		case len(t) == 0:
			return "an empty list"
		case block && len(t) == 1:
			return "a block"
		case block:
			return strconv.Itoa(len(t)) + " blocks"
		}
		return "a list"
	}
	return "a number"
}
