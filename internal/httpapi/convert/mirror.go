// Package convert owns the translation between the public shapes (package api) and the internal ones (internal/model).
// Jobs are mirrored by field name through reflection, so that a new job field needs its two declarations and nothing
// here; the other nouns are translated by one function each. Only httpapi imports it.
package convert

import (
	"fmt"
	"reflect"
)

// mirror copies src into dst by field name: pointers and values, named and plain types of one kind meet. dst must be a
// pointer. Fields that only one side has stay as they are; a test holds the list of them. What cannot be copied is a
// defect of the declarations and panics, which the tests of this package provoke for every type.
func mirror(dst, src any) {
	copyValue(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src))
}

func copyValue(dst, src reflect.Value) {
	switch {
	case src.Kind() == reflect.Pointer:
		if src.IsNil() {
			return
		}
		if dst.Kind() != reflect.Pointer {
			copyValue(dst, src.Elem())
			return
		}
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		copyValue(dst.Elem(), src.Elem())
	case dst.Kind() == reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		copyValue(dst.Elem(), src)
	case src.Kind() == reflect.Interface:
		if !src.IsNil() {
			dst.Set(reflect.ValueOf(cloneAny(src.Interface())))
		}
	case dst.Kind() != src.Kind():
		panic(fmt.Sprintf("convert: %s cannot become %s", src.Type(), dst.Type()))
	default:
		copyKind(dst, src)
	}
}

func copyKind(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Struct:
		copyStruct(dst, src)
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		out := reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
		for i := range src.Len() {
			copyValue(out.Index(i), src.Index(i))
		}
		dst.Set(out)
	case reflect.Map:
		if src.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(dst.Type(), src.Len())
		for it := src.MapRange(); it.Next(); {
			k, v := reflect.New(dst.Type().Key()).Elem(), reflect.New(dst.Type().Elem()).Elem()
			copyValue(k, it.Key())
			copyValue(v, it.Value())
			out.SetMapIndex(k, v)
		}
		dst.Set(out)
	default:
		dst.Set(src.Convert(dst.Type()))
	}
}

func copyStruct(dst, src reflect.Value) {
	if dst.Type() == src.Type() && dst.Type().PkgPath() == "time" {
		dst.Set(src)
		return
	}
	for i := range src.NumField() {
		f := src.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		if to := dst.FieldByName(f.Name); to.IsValid() && to.CanSet() {
			copyValue(to, src.Field(i))
		}
	}
}

// cloneAny copies a decoded JSON value.
func cloneAny(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, e := range t {
			out[k] = cloneAny(e)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = cloneAny(e)
		}
		return out
	case []map[string]any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = cloneAny(e)
		}
		return out
	}
	return v
}
