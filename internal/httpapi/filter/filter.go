// Package filter owns how clients choose among the items of a list: by expressions over the public shape. Only httpapi
// imports it.
package filter

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	bexpr "github.com/hashicorp/go-bexpr"
)

// Of leaves the items that an expression is true of; an empty one leaves all. full is what it sees of an item. Errors
// are mistakes of the client: one that cannot be parsed and one that names what the items do not have are told apart by
// clients, which take the first for that of a server without filters and ask again without one.
func Of[T any](ctx context.Context, expr string, items []T, full func(T) any) ([]T, error) {
	if expr == "" {
		return items, nil
	}
	if err := bounded(expr); err != nil {
		return nil, unread(err)
	}
	ev, err := bexpr.CreateEvaluator(expr)
	if err != nil {
		return nil, unread(err)
	}
	var kept []T
	for _, it := range items {
		if err := ctx.Err(); err != nil { // nobody waits for the rest
			return nil, err
		}
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

func unread(err error) error {
	return fmt.Errorf("failed to create result paginator: failed to read filter expression: %w", err)
}

// Bounds of an expression, which the parser is not given beyond them: each open parenthesis multiplies its work.
const (
	maxBytes = 4096
	maxDepth = 5 // parentheses within each other
	// maxLoops is how many of any and all may be within each other: each multiplies by what it looks through.
	maxLoops = 2
)

// bounded reports why an expression is not even parsed.
func bounded(expr string) error {
	if len(expr) > maxBytes {
		return fmt.Errorf("it has %d bytes, and may have %d", len(expr), maxBytes)
	}
	depth, loops := 0, 0
	quote := rune(0)
	for _, c := range expr {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '`':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '{':
			loops++
		case c == '}':
			loops--
		}
		if loops > maxLoops {
			return fmt.Errorf("it has more than %d of any and all within each other", maxLoops)
		}
		if depth > maxDepth {
			return fmt.Errorf("it has more than %d parentheses within each other", maxDepth)
		}
		if depth < 0 {
			return errors.New("a parenthesis is closed that was not opened")
		}
	}
	if depth > 0 {
		return errors.New("a parenthesis is opened and not closed")
	}
	return nil
}

// value gives filters the object instead of a pointer to it.
func value(v any) any {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && !rv.IsNil() {
		return rv.Elem().Interface()
	}
	return v
}
