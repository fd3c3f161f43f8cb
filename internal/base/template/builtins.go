package template

import (
	"errors"
	"fmt"
	"reflect"
	"text/template"
)

// builtins are the functions that every template has. "and" and "or" are called by nobody: run.lazy evaluates them.
var builtins = map[string]any{
	"and":      func(v reflect.Value, _ ...reflect.Value) reflect.Value { return v },
	"or":       func(v reflect.Value, _ ...reflect.Value) reflect.Value { return v },
	"call":     call,
	"html":     template.HTMLEscaper,
	"index":    index,
	"slice":    slice,
	"js":       template.JSEscaper,
	"len":      length,
	"not":      func(v reflect.Value) bool { is, _ := isTrue(plain(v)); return !is },
	"print":    fmt.Sprint,
	"printf":   fmt.Sprintf,
	"println":  fmt.Sprintln,
	"urlquery": template.URLQueryEscaper,
	"eq":       equal,
	"ne":       func(a, b reflect.Value) (bool, error) { is, err := equal(a, b); return !is, err },
	"lt":       less,
	"le":       notMore,
	"gt":       func(a, b reflect.Value) (bool, error) { is, err := notMore(a, b); return !is && err == nil, err },
	"ge":       func(a, b reflect.Value) (bool, error) { is, err := less(a, b); return !is && err == nil, err },
}

// call calls a value that is a function.
func call(fn reflect.Value, args ...reflect.Value) (reflect.Value, error) {
	fn = held(fn)
	if !fn.IsValid() {
		return reflect.Value{}, errors.New("call of nil")
	}
	if err := callable("call", fn); err != nil {
		return reflect.Value{}, fmt.Errorf("non-function of type %s: %w", fn.Type(), err)
	}
	t := fn.Type()
	fixed := t.NumIn()
	if t.IsVariadic() {
		fixed--
	}
	if len(args) < fixed || len(args) > fixed && !t.IsVariadic() {
		return reflect.Value{}, fmt.Errorf("wrong number of args: got %d want %d", len(args), fixed)
	}
	for i, a := range args {
		want := t.In(min(i, t.NumIn()-1))
		if i >= fixed {
			want = want.Elem()
		}
		v, err := converted(held(a), want)
		if err != nil {
			return reflect.Value{}, fmt.Errorf("arg %d: %w", i, err)
		}
		args[i] = v
	}
	return invoke(fn, args)
}

// converted is a value as one of the type: nil where that may be, and whole numbers of any size.
func converted(v reflect.Value, t reflect.Type) (reflect.Value, error) {
	if !v.IsValid() {
		if !canBeNil(t) {
			return v, fmt.Errorf("value is nil; should be of type %s", t)
		}
		v = reflect.Zero(t)
	}
	whole := func(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }
	switch {
	case v.Type().AssignableTo(t):
		return v, nil
	case whole(v.Kind()) && whole(t.Kind()):
		return v.Convert(t), nil
	}
	return v, fmt.Errorf("value has type %s; should be %s", v.Type(), t)
}

// position is an index below or at the length.
func position(at reflect.Value, length int) (int, error) {
	var n int64
	switch {
	case !at.IsValid():
		return 0, errors.New("cannot index slice/array with nil")
	case at.CanInt():
		n = at.Int()
	case at.CanUint():
		n = int64(min(at.Uint(), 1<<62))
	default:
		return 0, fmt.Errorf("cannot index slice/array with type %s", at.Type())
	}
	if n < 0 || n > int64(length) {
		return 0, fmt.Errorf("index out of range: %d", n)
	}
	return int(n), nil
}

// index is x[i][j] of a list, a text or a map.
func index(x reflect.Value, indexes ...reflect.Value) (reflect.Value, error) {
	x = plain(x)
	if !x.IsValid() {
		return x, errors.New("index of untyped nil")
	}
	for _, at := range indexes {
		at = plain(at)
		var isNil bool
		if x, isNil = indirect(x); isNil {
			return x, errors.New("index of nil pointer")
		}
		switch x.Kind() {
		case reflect.Array, reflect.Slice, reflect.String:
			i, err := position(at, x.Len())
			if err != nil {
				return x, err
			}
			x = x.Index(i) // its own panic says that it is beyond the end
		case reflect.Map:
			key, err := converted(at, x.Type().Key())
			if err != nil {
				return x, err
			}
			if v := x.MapIndex(key); v.IsValid() {
				x = v
			} else {
				x = reflect.Zero(x.Type().Elem())
			}
		default:
			return x, fmt.Errorf("can't index item of type %s", x.Type())
		}
	}
	return x, nil
}

// slice is x[i:j:k] of a list or a text.
func slice(x reflect.Value, indexes ...reflect.Value) (reflect.Value, error) {
	x = plain(x)
	if !x.IsValid() {
		return x, errors.New("slice of untyped nil")
	}
	x, isNil := indirect(x)
	var most int
	switch {
	case isNil:
		return x, errors.New("slice of nil pointer")
	case len(indexes) > 3:
		return x, fmt.Errorf("too many slice indexes: %d", len(indexes))
	case x.Kind() == reflect.String && len(indexes) == 3:
		return x, errors.New("cannot 3-index slice a string")
	case x.Kind() == reflect.String:
		most = x.Len()
	case x.Kind() == reflect.Array, x.Kind() == reflect.Slice:
		most = x.Cap()
	default:
		return x, fmt.Errorf("can't slice item of type %s", x.Type())
	}
	ends := [3]int{0, x.Len(), most}
	for i, at := range indexes {
		n, err := position(at, most)
		if err != nil {
			return x, err
		}
		ends[i] = n
	}
	switch {
	case ends[0] > ends[1]:
		return x, fmt.Errorf("invalid slice index: %d > %d", ends[0], ends[1])
	case len(indexes) < 3:
		return x.Slice(ends[0], ends[1]), nil
	case ends[1] > ends[2]:
		return x, fmt.Errorf("invalid slice index: %d > %d", ends[1], ends[2])
	}
	return x.Slice3(ends[0], ends[1], ends[2]), nil
}

func length(x reflect.Value) (int, error) {
	x, isNil := indirect(plain(x))
	if isNil {
		return 0, errors.New("len of nil pointer")
	}
	switch x.Kind() {
	case reflect.Array, reflect.Chan, reflect.Map, reflect.Slice, reflect.String:
		return x.Len(), nil
	case reflect.Invalid:
		return 0, errors.New("len of nil pointer")
	}
	return 0, fmt.Errorf("len of type %s", x.Type())
}
