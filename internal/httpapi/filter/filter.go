// Package filter owns how clients choose among the items of a list: by expressions over the public shape. Only httpapi
// imports it.
package filter

import (
	"fmt"
	"reflect"

	bexpr "github.com/hashicorp/go-bexpr"
)

// Of leaves the items that an expression is true of; an empty one leaves all. full is what it sees of an item. Errors
// are mistakes of the client: one that cannot be parsed and one that names what the items do not have are told apart by
// clients, which take the first for that of a server without filters and ask again without one.
func Of[T any](expr string, items []T, full func(T) any) ([]T, error) {
	if expr == "" {
		return items, nil
	}
	ev, err := bexpr.CreateEvaluator(expr)
	if err != nil {
		return nil, fmt.Errorf("failed to create result paginator: failed to read filter expression: %w", err)
	}
	var kept []T
	for _, it := range items {
		ok, err := ev.Evaluate(value(full(it)))
		if err != nil {
			return nil, fmt.Errorf("failed to read result page: %w", err)
		}
		if ok {
			kept = append(kept, it)
		}
	}
	return kept, nil
}

// value gives filters the object instead of a pointer to it.
func value(v any) any {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && !rv.IsNil() {
		return rv.Elem().Interface()
	}
	return v
}
