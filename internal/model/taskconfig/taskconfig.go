// Package taskconfig owns what a driver takes in the config block of a task, and the one answer to whether a block
// fits: servers ask it when a job is submitted, nodes before a task starts. Drivers describe themselves by it.
package taskconfig

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Kind is the type of a value. It is stored under its name; one that is empty, or that this program does not know,
// takes every value, because only the node that has it can judge.
type Kind string

// Kinds of values. A block of a job file arrives as a list of maps.
const (
	Text    Kind = "text"
	Boolean Kind = "boolean"
	Number  Kind = "number" // whole
	Texts   Kind = "texts"  // a list of texts
	Map     Kind = "map"    // names with texts
	Blocks  Kind = "blocks" // each by Field.Fields
)

// Field describes one attribute or block.
type Field struct {
	Kind     Kind
	Required bool     `cbor:",omitempty"` // an empty text is none
	OneOf    []string `cbor:",omitempty"` // of Text: what it can be; empty: everything
	Absolute bool     `cbor:",omitempty"` // of Text: it is empty, or begins with /
	Most     int64    `cbor:",omitempty"` // of Number: it is between 0 and this; 0: any
	Fields   Schema   `cbor:",omitempty"` // of Blocks
}

// Schema describes a driver's config block by the names in it.
type Schema map[string]Field

// Named is what is known of a driver that says no more than the names of its options.
func Named(options []string) Schema {
	s := Schema{}
	for _, name := range options {
		s[name] = Field{}
	}
	return s
}

// Equal reports whether two drivers take the same.
func (s Schema) Equal(other Schema) bool { return reflect.DeepEqual(s, other) }

// Check judges a block as it stands in a job. A text with ${…} is judged where a value is put in its place, unless
// nothing that it can become would do. Each offence, by name, is fault.Invalid.
func (s Schema) Check(driver string, cfg map[string]any) error {
	r := reading{driver: driver, submitted: true}
	r.block("config", s, cfg)
	return errors.Join(r.offences...)
}

// Read returns a block whose values were put in place in the one form that drivers read: string, bool, int64, []any of
// strings, map[string]any of strings, and for blocks []any of map[string]any. Numbers and booleans are taken for the
// texts that they are written as, and the other way about, as job files of the field have it; what else does not fit
// is fault.Invalid.
func (s Schema) Read(driver string, cfg map[string]any) (map[string]any, error) {
	r := reading{driver: driver}
	out := r.block("config", s, cfg)
	if len(r.offences) > 0 {
		return nil, r.offences[0]
	}
	return out, nil
}

type reading struct {
	driver    string
	submitted bool // values are still to be put in the place of ${…}
	offences  []error
}

// never are options that jobs of the field may have and no driver here will, with the reason.
var never = map[string]string{
	"no_pivot_root": "a task that only changed its root could leave it again, so every task gets one of its own",
}

// maxOffences is how many offences of a block are named.
const maxOffences = 20

func (r *reading) block(path string, s Schema, cfg map[string]any) map[string]any {
	out := make(map[string]any, len(cfg))
	refused := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(cfg)) {
		f, known := s[name]
		if !known {
			hint, why := "it knows "+strings.Join(slices.Sorted(maps.Keys(s)), ", "), ""
			if never[name] != "" {
				hint, why = "leave it out", ": "+never[name]
			}
			r.refuse(path+"."+name, hint, "the driver %q has no option %q%s", r.driver, name, why)
			continue
		}
		if cfg[name] == nil {
			continue
		}
		before := len(r.offences)
		out[name] = r.value(path+"."+name, name, f, cfg[name])
		refused[name] = len(r.offences) > before
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if f := s[name]; f.Required && !refused[name] && (out[name] == nil || out[name] == "") {
			r.refuse(path+"."+name, "write "+f.example(name), "the driver %q requires it, and it is %s", r.driver,
				map[bool]string{true: "empty", false: "not set"}[out[name] == ""])
		}
	}
	return out
}

// refuse notes an offence with its way out.
func (r *reading) refuse(path, hint, format string, args ...any) {
	if len(r.offences) < maxOffences {
		err := fault.New(fault.Invalid, "", path, fmt.Sprintf(format, args...))
		r.offences = append(r.offences, fault.WithHint(err, hint))
	}
}

// value reads one value; at a refusal it notes what was wanted, what there is, and what to write instead.
func (r *reading) value(path, name string, f Field, v any) any {
	switch f.Kind {
	case Map, Blocks:
		if list, ok := asMaps(v); ok {
			return r.maps(path, f, list)
		}
	case Texts:
		if list, ok := v.([]any); ok {
			if out, at := texts(list); at < 0 {
				return out
			} else if _, block := asMaps(v); !block {
				r.misfit(fmt.Sprintf("%s[%d]", path, at), "a text", describe(list[at]), f.example(name))
				return nil
			}
		}
	default:
		if out, ok := r.scalar(f, v); ok {
			return out
		}
	}
	is := describe(v)
	switch _, text := v.(string); {
	case text && len(f.OneOf) > 0, text && f.Absolute:
		is = "another text"
	case f.Most > 0 && is == "a number":
		is = "another number"
	}
	r.misfit(path, f.wanted(), is, f.example(name))
	return nil
}

func (r *reading) misfit(path, wanted, is, example string) {
	r.refuse(path, "write "+example, "the driver %q takes %s here, and this is %s", r.driver, wanted, is)
}

// scalar reads a single value.
func (r *reading) scalar(f Field, v any) (any, bool) {
	text, isText := written(v)
	later := r.submitted && isText && strings.Contains(text, "${")
	switch f.Kind {
	case Text:
		return text, isText && (later || text == "" || f.takes(text))
	case Boolean:
		return text == "true", text == "true" || text == "false" || later
	case Number:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, isText && err == nil && (f.Most == 0 || n >= 0 && n <= f.Most) || later
	}
	return v, true
}

// takes reports whether a text is one of those that the field takes.
func (f Field) takes(text string) bool {
	return (len(f.OneOf) == 0 || slices.Contains(f.OneOf, text)) && (!f.Absolute || strings.HasPrefix(text, "/"))
}

// maps reads a map, or what a block of a job file becomes: a list of maps.
func (r *reading) maps(path string, f Field, list []map[string]any) any {
	if f.Kind == Blocks {
		out := make([]any, 0, len(list))
		for i, m := range list {
			out = append(out, r.block(fmt.Sprintf("%s[%d]", path, i), f.Fields, m))
		}
		return out
	}
	out := map[string]any{}
	for _, m := range list {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out[k] = r.value(path+"."+k, k, Field{Kind: Text}, m[k])
		}
	}
	return out
}

// texts reads a list, or returns the place of the first value that is not a text; -1: there is none.
func texts(list []any) (out []any, at int) {
	out = make([]any, 0, len(list))
	for i, v := range list {
		text, ok := written(v)
		if !ok {
			return nil, i
		}
		out = append(out, text)
	}
	return out, -1
}

// written is a single value as it is written. JSON and CBOR have several forms of a number.
func written(v any) (string, bool) {
	switch t := v.(type) {
	case string:
		return t, true
	case float64:
		return strconv.FormatFloat(t, 'f', -1, 64), true
	case bool, int, int64, uint64:
		return fmt.Sprint(t), true
	}
	return "", false
}

func asMaps(v any) ([]map[string]any, bool) {
	switch t := v.(type) {
	case map[string]any:
		return []map[string]any{t}, true
	case []any:
		out := make([]map[string]any, 0, len(t))
		for _, e := range t {
			m, ok := e.(map[string]any)
			if !ok {
				return nil, false
			}
			out = append(out, m)
		}
		return out, true
	}
	return nil, false
}
