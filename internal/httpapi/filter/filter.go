// Package filter owns how clients choose among the items of a list: by expressions over the public shape. Only httpapi
// imports it.
package filter

import (
	"fmt"
	"reflect"

	bexpr "github.com/hashicorp/go-bexpr"
)

// Of leaves the items that an expression is true of; an empty one leaves all. full is what it sees of an item. Errors
// are mistakes of the client.
func Of[T any](expr string, items []T, full func(T) any) ([]T, error) {
	kept, err := filtered(expr, items, full)
	if err != nil {
		return nil, fmt.Errorf("failed to create result paginator: failed to read filter expression: %w", err)
	}
	return kept, nil
}

func filtered[T any](expr string, items []T, full func(T) any) ([]T, error) {
	if expr == "" {
		return items, nil
	}
	ev, err := bexpr.CreateEvaluator(expr)
	if err != nil {
		return nil, err
	}
	var kept []T
	for _, it := range items {
		ok, err := ev.Evaluate(value(full(it)))
		if err != nil {
			return nil, err
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
