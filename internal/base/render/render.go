// Package render owns the text of templates: the language of Go's text/template with a small set of functions that
// read nothing but the task's environment, and of the servers and Consul what they have said before. The template hook
// renders by it, in children (base/confined), and servers check by it what they are given.
package render

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/template"
)

// Template is what to render.
type Template struct {
	Name           string // for errors
	Text           string
	Left, Right    string // delimiters; empty: {{ and }}
	MissingIsError bool
}

// left is the delimiter that begins what is not text.
func (t Template) left() string { return cmp.Or(t.Left, "{{") }

// Values are what templates may read.
type Values struct {
	Env   func(name string) string
	Known Known // what the servers have said; it may be less than a template reads
}

// MaxOutput bounds a rendering, in bytes.
const MaxOutput = 8 << 20

// builtin lists the functions of text/template itself, for the hint.
var builtin = []string{"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
	"print", "printf", "println", "slice", "urlquery"}

// Execute renders a template in this process, without any bound but that of its output. What it does not know is an
// error that names the template and lists what there is. While something that it reads is not known or not there, the
// rendering says so, and no more: what goes wrong without it may go right with it.
func Execute(t Template, v Values) (*Rendering, error) {
	if err := Check(t); err != nil {
		return nil, err
	}
	r := &reading{known: v.Known}
	if env := v.Env; env != nil {
		v.Env = func(name string) string { return r.recorded(env(name)) }
	}
	var tpl *template.Template
	tpl, err := template.Parse(t.Name, t.Text, template.Options{
		Left:           t.Left,
		Right:          t.Right,
		MissingIsError: t.MissingIsError,
		Functions:      functions(v, r, func() *template.Template { return tpl }),
	})
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "parse", t.Name)
	}
	out := &output{}
	err = tpl.Execute(out, nil)
	switch {
	case !r.Whole():
		return &r.Rendering, nil
	case err != nil:
		return nil, r.failed(t.Name, err)
	}
	r.Data = out.Bytes()
	return &r.Rendering, nil
}

type output struct{ bytes.Buffer }

func (b *output) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxOutput {
		return 0, fmt.Errorf("it renders more than %d bytes", MaxOutput)
	}
	return b.Buffer.Write(p)
}

// Names lists the functions that templates may use.
func Names() []string {
	out := append([]string{}, builtin...)
	for _, f := range all(Values{}, &reading{}, nil) {
		out = append(out, f.name)
	}
	return out
}

type function struct {
	name string
	fn   any
}

// all are the functions of a template that is given.
func all(v Values, r *reading, of func() *template.Template) []function {
	return append(slices.Concat(table(v), more(), r.table(), r.consul()), executed(of))
}

func functions(v Values, r *reading, of func() *template.Template) template.Functions {
	m := template.Functions{}
	for _, f := range all(v, r, of) {
		m[f.name] = f.fn
	}
	return m
}

// table is what there is beside more, and what reads of the servers. Arguments stand in the order that pipelines want:
// the piped value is the last.
func table(v Values) []function {
	return []function{
		{"env", v.Env},
		{"envOrDefault", func(name, otherwise string) string {
			if s := v.Env(name); s != "" {
				return s
			}
			return otherwise
		}},
		{"mustEnv", func(name string) (string, error) {
			if s := v.Env(name); s != "" {
				return s, nil
			}
			return "", fmt.Errorf("the environment has no %q", name)
		}},
		{"timestamp", timestamp},
		{"toLower", strings.ToLower},
		{"toUpper", strings.ToUpper},
		{"toTitle", func(s string) string { return strings.ToTitle(s) }},
		{"trim", func(cutset, s string) string { return strings.Trim(s, cutset) }},
		{"trimSpace", strings.TrimSpace},
		{"trimPrefix", func(prefix, s string) string { return strings.TrimPrefix(s, prefix) }},
		{"trimSuffix", func(suffix, s string) string { return strings.TrimSuffix(s, suffix) }},
		{"split", func(sep, s string) []string { return strings.Split(s, sep) }},
		{"join", func(sep string, s []string) string { return strings.Join(s, sep) }},
		{"replaceAll", func(old, with, s string) string { return strings.ReplaceAll(s, old, with) }},
		{"regexMatch", func(expr, s string) (bool, error) { return parsed(regexp.MatchString(expr, s)) }},
		{"indent", indent},
		{"parseJSON", func(s string) (any, error) {
			if s == "" {
				return map[string]any{}, nil
			}
			var out any
			err := json.Unmarshal([]byte(s), &out)
			return out, err
		}},
		{"toJSON", func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		}},
		{"parseBool", func(s string) (bool, error) { return parsed(strconv.ParseBool(s)) }},
		{"parseInt", func(s string) (int64, error) { return parsed(strconv.ParseInt(s, 10, 64)) }},
		{"parseFloat", func(s string) (float64, error) { return parsed(strconv.ParseFloat(s, 64)) }},
		{"base64Encode", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
		{"base64Decode", func(s string) (string, error) {
			b, err := base64.StdEncoding.DecodeString(s)
			return string(b), err
		}},
	}
}

func timestamp(layout ...string) (string, error) {
	switch now := time.Now().UTC(); {
	case len(layout) == 0:
		return now.Format(time.RFC3339), nil
	case len(layout) > 1:
		return "", errors.New("timestamp takes at most one layout")
	case layout[0] == "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	default:
		return now.Format(layout[0]), nil
	}
}

func indent(spaces int, s string) (string, error) {
	const most = 1000
	if spaces < 0 || spaces > most {
		return "", fmt.Errorf("indent by %d spaces: it must be 0 to %d", spaces, most)
	}
	pad := strings.Repeat(" ", spaces)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = pad + l
		}
	}
	return strings.Join(lines, "\n"), nil
}

// ParseEnv reads "NAME=value" lines: empty lines and lines that begin with # are skipped, quotes around a value are
// taken off.
func ParseEnv(data []byte) (map[string]string, error) {
	out := map[string]string{}
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, MaxOutput)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimPrefix(line, "export ")
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fault.New(fault.Invalid, "", fmt.Sprintf("line %d", n), "it is not of the form NAME=value")
		}
		out[name] = unquote(strings.TrimSpace(value))
	}
	return out, s.Err()
}

func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] {
		return s
	}
	switch s[0] {
	case '"':
		if v, err := strconv.Unquote(s); err == nil {
			return v
		}
		return s[1 : len(s)-1]
	case '\'':
		return s[1 : len(s)-1]
	}
	return s
}
