package template

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
)

var (
	errNoOrder   = errors.New("invalid type for comparison")
	errNothingTo = errors.New("missing argument for comparison")
)

// class is what values are compared as.
type class int

const (
	other class = iota
	truths
	signed
	unsigned
	floats
	complexes
	texts
)

func classOf(v reflect.Value) class {
	switch {
	case v.Kind() == reflect.Bool:
		return truths
	case v.Kind() == reflect.String:
		return texts
	case v.CanInt():
		return signed
	case v.CanUint():
		return unsigned
	case v.CanFloat():
		return floats
	case v.CanComplex():
		return complexes
	}
	return other
}

// equal tells whether a value is one of the others.
func equal(a reflect.Value, others ...reflect.Value) (bool, error) {
	a = plain(a)
	if len(others) == 0 {
		return false, errNothingTo
	}
	for _, b := range others {
		if is, err := same(a, plain(b)); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

func same(a, b reflect.Value) (bool, error) {
	ca, cb := classOf(a), classOf(b)
	switch {
	case signs(ca, cb), ca == cb && (ca == signed || ca == unsigned || ca == floats || ca == texts):
		return order(a, b) == 0, nil
	case ca != cb && a.IsValid() && b.IsValid():
		return false, fmt.Errorf("incompatible types for comparison: %v and %v", a.Type(), b.Type())
	case ca != cb:
		return false, nil
	case ca == truths:
		return a.Bool() == b.Bool(), nil
	case ca == complexes:
		return a.Complex() == b.Complex(), nil
	case a.Kind() != b.Kind() && a.IsValid() && b.IsValid():
		return false, fmt.Errorf("non-comparable types %s: %v, %s: %v", a, a.Type(), b.Type(), b)
	case isNil(a), isNil(b):
		return isNil(a) == isNil(b), nil
	case !b.Type().Comparable():
		return false, fmt.Errorf("non-comparable type %s: %v", b, b.Type())
	}
	return a.Interface() == b.Interface(), nil
}

// signs reports whether two whole numbers differ in whether they have a sign.
func signs(a, b class) bool { return a == signed && b == unsigned || a == unsigned && b == signed }

func isNil(v reflect.Value) bool {
	return !v.IsValid() || v.Kind() != reflect.Struct && canBeNil(v.Type()) && v.IsNil()
}

// order compares two numbers or two texts; the numbers may differ in whether they have a sign.
func order(a, b reflect.Value) int {
	switch {
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case a.CanFloat():
		switch x, y := a.Float(), b.Float(); {
		case x == y:
			return 0
		case x < y:
			return -1
		}
		return 1 // or not a number, which is neither less nor equal
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanInt():
		if a.Int() < 0 {
			return -1
		}
		return cmp.Compare(uint64(a.Int()), b.Uint())
	case b.CanInt():
		return -order(b, a)
	}
	return cmp.Compare(a.Uint(), b.Uint())
}

// ordered compares what has an order.
func ordered(a, b reflect.Value) (int, error) {
	a, b = plain(a), plain(b)
	ca, cb := classOf(a), classOf(b)
	switch {
	case ca == other, cb == other:
		return 0, errNoOrder
	case ca != cb && !signs(ca, cb):
		return 0, fmt.Errorf("incompatible types for comparison: %v and %v", a.Type(), b.Type())
	case ca == truths, ca == complexes:
		return 0, errNoOrder
	}
	return order(a, b), nil
}

func less(a, b reflect.Value) (bool, error) {
	n, err := ordered(a, b)
	return n < 0, err
}

func notMore(a, b reflect.Value) (bool, error) {
	n, err := ordered(a, b)
	return n <= 0 && err == nil, err
}
