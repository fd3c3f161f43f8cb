package jobspec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// kind is how a field is written, from its tag.
type kind string

const (
	kindAttr  kind = ""       // name = value
	kindLabel kind = "label"  // a block's label
	kindMaybe kind = "label?" // a label that may also be an attribute
	kindBlock kind = "block"  // name { … }
	kindMap   kind = "map"    // name { a = "b" } or name = { a = "b" }
	kindAny   kind = "any"    // the same, with anything inside
	kindBytes kind = "bytes"  // a size: a number of bytes, or a text with a unit
)

// field is a field of a struct that can be written in a file.
type field struct {
	name  string
	kind  kind
	index []int
	typ   reflect.Type
}

// member is the field's name in Go, which is its name in JSON.
func (f *field) member(t reflect.Type) string { return t.FieldByIndex(f.index).Name }

// schema is what can be written for a struct.
type schema struct {
	labels []*field
	fields map[string]*field
}

var schemas sync.Map // reflect.Type to *schema

// schemaOf reads the hcl tags of a struct type. Embedded structs count as their fields; outer ones win.
func schemaOf(t reflect.Type) *schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*schema)
	}
	s := &schema{fields: map[string]*field{}}
	s.collect(t, nil)
	schemas.Store(t, s)
	return s
}

func (s *schema) collect(t reflect.Type, at []int) {
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
		switch kind(k) {
		case kindAttr, kindLabel, kindMaybe, kindBlock, kindMap, kindAny, kindBytes:
		default:
			panic(fmt.Sprintf("jobspec: the field %s.%s has the unknown tag kind %q", t, f.Name, k))
		}
		fd := &field{name: name, kind: kind(k), index: append(slices.Clone(at), i), typ: f.Type}
		if fd.kind == kindLabel || fd.kind == kindMaybe {
			s.labels = append(s.labels, fd)
		}
		if fd.kind != kindLabel {
			s.fields[name] = fd
		}
	}
}

// names lists what can be written, for suggestions.
func (s *schema) names() []string {
	out := make([]string, 0, len(s.fields))
	for name := range s.fields {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// owner gives the struct that directly holds a field: v itself, or an embedded struct.
func (f *field) owner(v reflect.Value) reflect.Value {
	for _, i := range f.index[:len(f.index)-1] {
		v = v.Field(i)
	}
	return v
}

// mapNames are the names of the maps that can be written anywhere below a struct type.
func mapNames(t reflect.Type) map[string]bool {
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
		for _, f := range schemaOf(t).fields {
			switch f.kind {
			case kindMap:
				names[f.name] = true
			case kindBlock:
				visit(f.typ)
			}
		}
	}
	visit(t)
	return names
}
