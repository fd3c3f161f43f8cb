package render

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/template"
)

// more are the functions beside those that read: of texts, lists, maps and numbers.
func more() []function {
	return []function{
		{"base64URLEncode", func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }},
		{"base64URLDecode", func(s string) (string, error) {
			b, err := base64.URLEncoding.DecodeString(s)
			return string(b), err
		}},
		{"sha256Hex", func(s string) string {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:])
		}},
		{"md5sum", func(s string) string {
			sum := md5.Sum([]byte(s)) //nolint:gosec // for programs that ask for it; nothing here trusts it
			return hex.EncodeToString(sum[:])
		}},
		{"hmacSHA256Hex", func(message, key string) string {
			mac := hmac.New(sha256.New, []byte(key))
			_, _ = mac.Write([]byte(message)) // a hash takes all
			return hex.EncodeToString(mac.Sum(nil))
		}},
		{"regexReplaceAll", func(expr, with, s string) (string, error) {
			re, err := parsed(regexp.Compile(expr))
			if err != nil {
				return "", err
			}
			return re.ReplaceAllString(s, with), nil
		}},
		{"parseUint", func(s string) (uint64, error) { return parsed(strconv.ParseUint(s, 10, 64)) }},
		{"splitToMap", splitToMap},
		{"toJSONPretty", func(v any) (string, error) { return unescaped(v, true, true) }},
		{"toUnescapedJSON", func(v any) (string, error) { return unescaped(v, false, false) }},
		{"toUnescapedJSONPretty", func(v any) (string, error) { return unescaped(v, true, false) }},
		{"contains", has},
		{"in", func(in, what any) (bool, error) { return has(what, in) }},
		{"containsAll", some(true, true)},
		{"containsAny", some(false, true)},
		{"containsNone", some(true, false)},
		{"containsNotAll", some(false, false)},
		{"byTag", byTag},
		{"explodeMap", explode},
		{"mergeMap", func(with, into map[string]any) map[string]any { return merged(into, with, false) }},
		{"mergeMapWithOverride", func(with, into map[string]any) map[string]any { return merged(into, with, true) }},
		{"loop", loop},
		{"multiply", func(b, a any) (any, error) { return calculate("multiply", a, b) }},
		{"divide", func(b, a any) (any, error) { return calculate("divide", a, b) }},
		{"modulo", func(b, a any) (any, error) { return calculate("modulo", a, b) }},
		{"minimum", func(b, a any) (any, error) { return calculate("minimum", a, b) }},
		{"maximum", func(b, a any) (any, error) { return calculate("maximum", a, b) }},
		{"add", func(b, a any) (any, error) { return calculate("add", a, b) }},
		{"subtract", func(b, a any) (any, error) { return calculate("subtract", a, b) }},
	}
}

// maxDepth bounds how deep templates are executed in each other: Go's own bound begins anew with each.
const maxDepth = 100

// executed is the text of another template of the same file.
func executed(of func() *template.Template) function {
	depth := 0
	return function{"executeTemplate", func(name string, data ...any) (string, error) {
		if len(data) > 1 {
			return "", errors.New("it takes a name, and one value")
		}
		if depth++; depth > maxDepth {
			return "", fmt.Errorf("templates are executed more than %d deep in each other", maxDepth)
		}
		defer func() { depth-- }()
		out := &output{}
		found, err := of().ExecuteNamed(out, name, first(data))
		if !found {
			err = fmt.Errorf("no template named %q is defined", name)
		}
		return out.String(), err
	}}
}

func first(data []any) any {
	if len(data) == 0 {
		return nil
	}
	return data[0]
}

func unescaped(v any, pretty, escape bool) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escape)
	if pretty {
		e.SetIndent("", "  ")
	}
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func splitToMap(sep, between, s string) (map[string]any, error) {
	out := map[string]any{}
	n := 0 // parts are counted and not shown: one may be that of a secret
	for part := range strings.SplitSeq(s, sep) {
		n++
		key, value, ok := strings.Cut(part, between)
		if !ok {
			return nil, fmt.Errorf("part %d has no %q between a name and its value", n, between)
		}
		out[key] = value
	}
	return out, nil
}

// has tells whether a text has a part, a list an element, or a map a key.
func has(what, in any) (bool, error) {
	v := reflect.ValueOf(in)
	switch v.Kind() {
	case reflect.Invalid:
		return false, nil
	case reflect.String:
		return strings.Contains(v.String(), fmt.Sprint(what)), nil
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if fmt.Sprint(v.Index(i).Interface()) == fmt.Sprint(what) {
				return true, nil
			}
		}
		return false, nil
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if fmt.Sprint(k.Interface()) == fmt.Sprint(what) {
				return true, nil
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("nothing is within a %T", in)
}

// some is a function that looks for several things: it gives up with answer's opposite at the first of which that it is
// within is not as wanted, and answers otherwise.
func some(answer, wanted bool) func(all, in any) (bool, error) {
	return func(all, in any) (bool, error) {
		v := reflect.ValueOf(all)
		if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
			return false, fmt.Errorf("a list of what to look for is wanted, not %T", all)
		}
		for i := range v.Len() {
			is, err := has(v.Index(i).Interface(), in)
			if err != nil {
				return false, err
			}
			if (is == wanted) != answer {
				return !answer, nil
			}
		}
		return answer, nil
	}
}

// byTag groups instances by their tags, of the servers' services or of Consul's.
func byTag(all any) (any, error) {
	switch all := all.(type) {
	case []Instance:
		return groupedByTag(all, func(i Instance) []string { return i.Tags }), nil
	case []Found:
		return groupedByTag(all, func(f Found) []string { return f.Tags }), nil
	}
	return nil, fmt.Errorf("byTag takes the instances of a service, not %T", all)
}

// explode makes of the slashes in keys maps in maps.
func explode(in map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		at, parts := out, strings.Split(strings.Trim(key, "/"), "/")
		for _, p := range parts[:len(parts)-1] {
			below, is := at[p].(map[string]any)
			if at[p] != nil && !is {
				return nil, fmt.Errorf("%q is a value and has others below it", p)
			}
			if below == nil {
				below = map[string]any{}
				at[p] = below
			}
			at = below
		}
		at[parts[len(parts)-1]] = in[key]
	}
	return out, nil
}

func merged(into, with map[string]any, replaces bool) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range with {
		below, is := out[k].(map[string]any)
		other, also := v.(map[string]any)
		switch _, there := out[k]; {
		case is && also:
			out[k] = merged(below, other, replaces)
		case !there, replaces:
			out[k] = v
		}
	}
	return out
}

// maxLoop bounds how often a loop goes round: what it renders is bounded, too, and ends it sooner.
const maxLoop = 1_000_000

// loop gives the numbers from 0, or from the first, up to but not including the last.
func loop(ends ...any) ([]int64, error) {
	var at []int64
	for _, e := range ends {
		n, err := whole(e)
		if err != nil {
			return nil, err
		}
		at = append(at, n)
	}
	switch len(at) {
	case 1:
		at = []int64{0, at[0]}
	case 2:
	default:
		return nil, fmt.Errorf("loop takes one or two numbers, not %d", len(at))
	}
	if at[1] <= at[0] {
		return nil, nil
	}
	if n := at[1] - at[0]; n < 0 || n > maxLoop {
		return nil, fmt.Errorf("it goes round more than %d times", maxLoop)
	}
	out := make([]int64, 0, at[1]-at[0])
	for i := at[0]; i < at[1]; i++ {
		out = append(out, i)
	}
	return out, nil
}

func whole(v any) (int64, error) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint() && r.Uint() <= 1<<62:
		return int64(r.Uint()), nil
	}
	return 0, fmt.Errorf("a %T is no whole number", v)
}

// calculate works on whole numbers while both are such, and on others otherwise.
func calculate(verb string, a, b any) (any, error) {
	x, xerr := whole(a)
	y, yerr := whole(b)
	if xerr == nil && yerr == nil {
		return ofWhole(verb, x, y)
	}
	f, ferr := fraction(a)
	g, gerr := fraction(b)
	if err := errors.Join(ferr, gerr); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	switch verb {
	case "add":
		return f + g, nil
	case "subtract":
		return f - g, nil
	case "multiply":
		return f * g, nil
	case "divide":
		return f / g, nil
	case "minimum":
		return min(f, g), nil
	case "maximum":
		return max(f, g), nil
	}
	return nil, fmt.Errorf("%s takes whole numbers", verb)
}

func ofWhole(verb string, x, y int64) (any, error) {
	switch verb {
	case "add":
		return x + y, nil
	case "subtract":
		return x - y, nil
	case "multiply":
		return x * y, nil
	case "minimum":
		return min(x, y), nil
	case "maximum":
		return max(x, y), nil
	}
	if y == 0 {
		return nil, fmt.Errorf("%s: by 0", verb)
	}
	if verb == "divide" {
		return x / y, nil
	}
	return x % y, nil
}

func fraction(v any) (float64, error) {
	r := reflect.ValueOf(v)
	if r.CanFloat() {
		return r.Float(), nil
	}
	n, err := whole(v)
	if err != nil {
		err = fmt.Errorf("a %T is no number", v)
	}
	return float64(n), err
}
