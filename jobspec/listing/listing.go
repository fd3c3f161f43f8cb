// Package listing owns the list of all that may stand in a file of users. References and editors are made of it.
package listing

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/jobspec/hclfile"
)

// Entry is a name that a file may have at some place.
type Entry struct {
	In   string // the block in which it stands, within those around it: "job/group/task"
	Name string
	// Type is text, "text or list of texts", number, "number in …" with its unit, "true or false", duration, size, map,
	// block, "list of …" or "any number of blocks".
	Type string
	// Path is the member in Go, and in JSON: "TaskGroups[].Tasks[].Driver". Empty: it is no member of its own.
	Path string
	// Labels is how many a block is written with.
	Labels int
}

// Of lists what may stand in a block that is decoded into the struct type t, and in the blocks within; in names
// it. Specials are those that the decoder is given.
func Of(in string, t reflect.Type, specials map[reflect.Type]hclfile.Special) []Entry {
	return collect(nil, in, "", t, specials)
}

func collect(
	out []Entry, in, path string, t reflect.Type, specials map[reflect.Type]hclfile.Special,
) []Entry {
	schema := hclfile.SchemaOf(t)
	for _, name := range schema.Names() {
		f := schema.Fields[name]
		member := strings.TrimPrefix(path+"."+f.Member(t), ".")
		inner, many := f.Type, false
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			many = many || inner.Kind() != reflect.Pointer
			inner = inner.Elem()
		}
		if f.Kind == hclfile.KindBlock && many {
			member += "[]"
		}
		e := Entry{In: in, Name: name, Type: typeOf(f, many) + unitOf(f.Member(t)), Path: member}
		if f.Kind != hclfile.KindBlock {
			out = append(out, e)
			continue
		}
		for _, l := range hclfile.SchemaOf(inner).Labels {
			if l.Kind == hclfile.KindLabel {
				e.Labels++
			}
		}
		out = append(out, e)
		out = collect(out, strings.TrimPrefix(in+"/"+name, "/"), member, inner, specials)
	}
	for _, name := range slices.Sorted(slices.Values(specials[t].Extras)) {
		out = append(out, Entry{In: in, Name: name, Type: "text"})
	}
	return out
}

// typeOf says in words what is written for a field.
func typeOf(f *hclfile.Field, many bool) string {
	switch {
	case f.Kind == hclfile.KindBlock && many:
		return "any number of blocks"
	case f.Kind == hclfile.KindBlock:
		return "block"
	case f.Kind == hclfile.KindMap || f.Kind == hclfile.KindAny:
		return "map"
	case f.Kind == hclfile.KindBytes:
		return "size"
	}
	return wordOf(f.Type)
}

// unitOf is the unit of a member that has one, which its name tells.
func unitOf(member string) string {
	switch {
	case strings.HasSuffix(member, "MB"):
		return " in MiB"
	case member == "CPU":
		return " in MHz"
	case member == "Percent":
		return " in percent"
	}
	return ""
}

func wordOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return wordOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + wordOf(t.Elem()) + "s"
	case t.Kind() == reflect.Interface: // what takes it says which texts
		return "text or list of texts"
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	}
	return "number"
}
