package template

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
)

var (
	errorType    = reflect.TypeFor[error]()
	stringerType = reflect.TypeFor[fmt.Stringer]()
	valueType    = reflect.TypeFor[reflect.Value]()
)

// none stands for no piped value, which is not the same as nil.
type none struct{}

var nonePiped = reflect.ValueOf(none{})

func isPiped(v reflect.Value) bool { return !v.IsValid() || v.Type() != nonePiped.Type() }

// indirect follows pointers and interfaces to the value that they hold, and tells whether one of them is nil.
func indirect(v reflect.Value) (_ reflect.Value, isNil bool) {
	for ; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; v = v.Elem() {
		if v.IsNil() {
			return v, true
		}
	}
	return v, false
}

// plain is the value that an interface holds, or its text if it is one.
func plain(v reflect.Value) reflect.Value {
	if text, ok := as[Texter](v); ok {
		return reflect.ValueOf(text.Text())
	}
	return held(v)
}

// held is the value that an interface holds.
func held(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// isTrue tells whether a value is not the zero one of its type; not ok: it is of a kind that is neither true nor false.
func isTrue(v reflect.Value) (is, ok bool) {
	switch v.Kind() {
	case reflect.Invalid:
		return false, true
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() > 0, true
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Chan, reflect.Func, reflect.Pointer, reflect.UnsafePointer, reflect.Interface:
		return !v.IsNil(), true
	case reflect.Complex64, reflect.Complex128:
		return v.Complex() != 0, true
	case reflect.Struct:
		return true, true
	}
	switch {
	case v.CanInt():
		return v.Int() != 0, true
	case v.CanUint():
		return v.Uint() != 0, true
	case v.CanFloat():
		return v.Float() != 0, true
	}
	return false, false
}

func canBeNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		return true
	case reflect.Struct:
		return t == valueType
	}
	return false
}

// printable is what fmt is given of a value; not ok: it cannot be printed.
func printable(v reflect.Value) (any, bool) {
	if v.Kind() == reflect.Pointer {
		v, _ = indirect(v)
	}
	if !v.IsValid() {
		return "<no value>", true
	}
	if t := v.Type(); !t.Implements(errorType) && !t.Implements(stringerType) {
		p := reflect.PointerTo(t)
		switch {
		case v.CanAddr() && (p.Implements(errorType) || p.Implements(stringerType)):
			v = v.Addr()
		case v.Kind() == reflect.Chan, v.Kind() == reflect.Func:
			return nil, false
		}
	}
	return v.Interface(), true
}

// sortedKeys are those of a map, in the order in which Go prints them.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortStableFunc(keys, compare)
	return keys
}

func compare(a, b reflect.Value) int {
	if a.Kind() == reflect.Interface && b.Kind() == reflect.Interface {
		a, b = a.Elem(), b.Elem()
	}
	switch {
	case !a.IsValid() || !b.IsValid():
		return cmp.Compare(truth01(a.IsValid()), truth01(b.IsValid())) // nil is the first
	case a.Type() != b.Type():
		return cmp.Compare(a.Type().String(), b.Type().String())
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind() == reflect.Bool:
		return cmp.Compare(truth01(a.Bool()), truth01(b.Bool()))
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func truth01(b bool) int {
	if b {
		return 1
	}
	return 0
}
