package jobjson

import (
	"reflect"
	"strings"
	"sync"
)

// structFields are the members that JSON may have for a struct.
type structFields struct {
	list   []structField
	byName map[string]int
}

type structField struct {
	name  string
	index []int
}

// fieldSets are the fields of the structs that were asked for: types are few, and bodies have many members.
var fieldSets sync.Map // reflect.Type -> *structFields

func fieldsOf(t reflect.Type) *structFields {
	if known, ok := fieldSets.Load(t); ok {
		return known.(*structFields)
	}
	fields := &structFields{byName: map[string]int{}}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields.byName[name] = len(fields.list)
		fields.list = append(fields.list, structField{name: name, index: f.Index})
	}
	known, _ := fieldSets.LoadOrStore(t, fields)
	return known.(*structFields)
}

func (s *structFields) names() []string {
	out := make([]string, len(s.list))
	for i, f := range s.list {
		out[i] = f.name
	}
	return out
}

// find gives the field of a member, by its very name or without regard to case.
func (s *structFields) find(key string) (structField, bool) {
	if i, ok := s.byName[key]; ok {
		return s.list[i], true
	}
	for _, f := range s.list {
		if strings.EqualFold(f.name, key) {
			return f, true
		}
	}
	return structField{}, false
}
