package wire

import (
	"fmt"
	"reflect"
	"sync"

	"berth/internal/base/fault"
)

// Whole refuses, as Invalid, a value in which an element of a list or of a map is nothing. No sender of ours makes one,
// and nobody who reads a list looks for it: whoever sends one on purpose has the reader panic.
func Whole(v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer {
		rv = rv.Elem()
	}
	if !rv.IsValid() || !mayHold(rv.Type()) {
		return nil
	}
	if at := hole(rv); at != "" {
		return fault.New(fault.Invalid, "read", fmt.Sprintf("%T", v), at[1:]+" is nothing")
	}
	return nil
}

// holding remembers of types whether a value of theirs may have an element that is nothing.
var holding sync.Map // reflect.Type: bool

func mayHold(t reflect.Type) bool {
	if known, ok := holding.Load(t); ok {
		return known.(bool)
	}
	may := search(t, map[reflect.Type]bool{})
	holding.Store(t, may)
	return may
}

func search(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		return search(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem().Kind() == reflect.Pointer || search(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && search(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// hole is where the first element is that is nothing; empty: there is none.
func hole(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return hole(v.Elem())
	case reflect.Slice, reflect.Array:
		if !mayHold(v.Type()) {
			return ""
		}
		for i := range v.Len() {
			if at, is := missing(v.Index(i)); is {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
	case reflect.Map:
		if !mayHold(v.Type()) {
			return ""
		}
		for i := v.MapRange(); i.Next(); {
			if at, is := missing(i.Value()); is {
				return fmt.Sprintf("[%q]%s", fmt.Sprint(i.Key()), at)
			}
		}
	case reflect.Struct:
		for i, f := range fields(v) {
			if at := hole(f); at != "" {
				return "." + v.Type().Field(i).Name + at
			}
		}
	}
	return ""
}

// missing reports an element that is nothing, or has one.
func missing(v reflect.Value) (at string, is bool) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "", true
	}
	at = hole(v)
	return at, at != ""
}

// fields are the exported ones of a value that may hold elements.
func fields(v reflect.Value) func(yield func(int, reflect.Value) bool) {
	return func(yield func(int, reflect.Value) bool) {
		if !mayHold(v.Type()) {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !yield(i, v.Field(i)) {
				return
			}
		}
	}
}
