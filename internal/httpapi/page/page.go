// Package page owns how lists are shown: filtered by expressions over the public shape, in order, page by page. Only
// httpapi imports it.
package page

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	bexpr "github.com/hashicorp/go-bexpr"
)

// Query is what a client asks of a list.
type Query struct {
	Filter  string // an expression over the public shape; empty: everything
	Reverse bool   // the last first
	PerPage string // a whole number; empty or 0: no pages
	Token   string // where this page begins, as the page before said it
}

// Of filters, orders and cuts a list that comes in the order of its keys, and names the key with which the next page
// begins. full is what a filter sees of an item. Errors are mistakes of the client.
func Of[T any](q Query, items []T, full func(T) any, key func(T) string) (shown []T, next string, err error) {
	if items, err = filtered(q.Filter, items, full); err != nil {
		return nil, "", fmt.Errorf("failed to create result paginator: failed to read filter expression: %w", err)
	}
	if q.Reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	if q.Token != "" {
		items = items[start(items, key, q):]
	}
	if q.PerPage == "" {
		return items, "", nil
	}
	n, err := strconv.Atoi(q.PerPage)
	if err != nil || n < 0 {
		return nil, "", fmt.Errorf("per_page must be a whole number that is not negative, is %q", q.PerPage)
	}
	if n > 0 && len(items) > n {
		return items[:n], key(items[n]), nil
	}
	return items, "", nil
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

// start finds the item that a token names, or the first one after the place where that was.
func start[T any](items []T, key func(T) string, q Query) int {
	if i := slices.IndexFunc(items, func(it T) bool { return key(it) == q.Token }); i >= 0 {
		return i
	}
	i := slices.IndexFunc(items, func(it T) bool {
		c := compare(key(it), q.Token)
		return c > 0 && !q.Reverse || c < 0 && q.Reverse
	})
	if i < 0 {
		return len(items)
	}
	return i
}

// compare orders keys that begin with a number by that number.
func compare(a, b string) int {
	an, arest, _ := strings.Cut(a, ".")
	bn, brest, _ := strings.Cut(b, ".")
	ai, aerr := strconv.ParseUint(an, 10, 64)
	bi, berr := strconv.ParseUint(bn, 10, 64)
	if aerr == nil && berr == nil {
		return cmp.Or(cmp.Compare(ai, bi), strings.Compare(arest, brest))
	}
	return cmp.Or(strings.Compare(an, bn), strings.Compare(arest, brest))
}
