package hclfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Kind is how a field is written, from its tag.
type Kind string

const (
	KindAttr  Kind = ""       // name = value
	KindLabel Kind = "label"  // a block's label
	KindMaybe Kind = "label?" // a label that may also be an attribute
	KindBlock Kind = "block"  // name { … }
	KindMap   Kind = "map"    // name { a = "b" } or name = { a = "b" }
	KindAny   Kind = "any"    // the same, with anything inside
	KindBytes Kind = "bytes"  // a size: a number of bytes, or a text with a unit
)

// Field is a field of a struct that can be written in a file.
type Field struct {
	Name  string
	Kind  Kind
	Type  reflect.Type
	index []int
}

// Member is the field's name in Go, which is its name in JSON.
func (f *Field) Member(t reflect.Type) string { return t.FieldByIndex(f.index).Name }

// Schema is what can be written for a struct.
type Schema struct {
	Labels []*Field
	Fields map[string]*Field
}

var schemas sync.Map // reflect.Type to *Schema

// SchemaOf reads the hcl tags of a struct type. Embedded structs count as their fields; outer ones win.
func SchemaOf(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	s := &Schema{Fields: map[string]*Field{}}
	s.collect(t, nil)
	schemas.Store(t, s)
	return s
}

func (s *Schema) collect(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			s.collect(f.Type, append(slices.Clone(at), i))
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("hcl")
		if !tagged || tag == "-" {
			continue
		}
		name, k, _ := strings.Cut(tag, ",")
		switch Kind(k) {
		case KindAttr, KindLabel, KindMaybe, KindBlock, KindMap, KindAny, KindBytes:
		default:
			panic(fmt.Sprintf("hclfile: the field %s.%s has the unknown tag kind %q", t, f.Name, k))
		}
		fd := &Field{Name: name, Kind: Kind(k), index: append(slices.Clone(at), i), Type: f.Type}
		if fd.Kind == KindLabel || fd.Kind == KindMaybe {
			s.Labels = append(s.Labels, fd)
		}
		if fd.Kind != KindLabel {
			s.Fields[name] = fd
		}
	}
}

// Names lists what can be written, for suggestions.
func (s *Schema) Names() []string {
	out := make([]string, 0, len(s.Fields))
	for name := range s.Fields {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// inside lists the blocks of which a name is a part; nothing if there are many.
func (s *Schema) inside(name string) []string {
	var out []string
	for _, f := range s.Fields {
		t := f.Type
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if f.Kind == KindBlock && t.Kind() == reflect.Struct && SchemaOf(t).Fields[name] != nil {
			out = append(out, f.Name+" { … }")
		}
	}
	if len(out) > 3 {
		return nil
	}
	slices.Sort(out)
	return out
}

// owner gives the struct that directly holds a field: v itself, or an embedded struct.
func (f *Field) owner(v reflect.Value) reflect.Value {
	for _, i := range f.index[:len(f.index)-1] {
		v = v.Field(i)
	}
	return v
}

// MapNames are the names of the maps that can be written anywhere below a struct type.
func MapNames(t reflect.Type) map[string]bool {
	names, seen := map[string]bool{}, map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range SchemaOf(t).Fields {
			switch f.Kind {
			case KindMap:
				names[f.Name] = true
			case KindBlock:
				visit(f.Type)
			}
		}
	}
	visit(t)
	return names
}
