// Package params owns what the parameters of a request's URL mean that many requests share: what is waited for, which
// part of a list is shown, where a reader begins. Its errors are texts for who asked. Only httpapi imports it.
package params

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/wire"
)

// maxPerPage bounds the pages of providers.
const maxPerPage = 1 << 20

// known is an error with a text that clients know.
func known(text string) error { return fault.New(fault.Invalid, "", "", text) }

// Flag is whether a parameter says so; what reads as neither yes nor no does not.
func Flag(from url.Values, name string) bool {
	b, err := strconv.ParseBool(from.Get(name))
	return err == nil && b
}

// Number reads a whole number; absent is 0.
func Number(from url.Values, name string) (int64, error) {
	v := from.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s must be a whole number, is %q", name, v)
	}
	return n, nil
}

// Query reads the parameters that all reads share, but for the namespace.
func Query(from url.Values) (wire.Query, error) {
	q := wire.Query{Prefix: from.Get("prefix")}
	if v := from.Get("index"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return q, known("Invalid index")
		}
		q.MinIndex = n
	}
	if v := from.Get("wait"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return q, known("Invalid wait time")
		}
		q.Wait = d
	}
	if v, ok := from["stale"]; ok {
		var err error
		if q.Stale, err = strconv.ParseBool(cmp.Or(v[0], "true")); err != nil {
			return q, known(fmt.Sprintf("Failed to parse value of %q (%v) as a bool: %s", "stale", v[0], err))
		}
	}
	return q, nil
}

// Page reads which part of a list is asked for.
func Page(from url.Values) (wire.Page, error) {
	page := wire.Page{Reverse: Flag(from, "reverse"), NextToken: from.Get("next_token")}
	v := from.Get("per_page")
	if v == "" {
		return page, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return page, fmt.Errorf("per_page must be a whole number, is %q", v)
	}
	page.PerPage = max(n, 0) // a negative one asks for all, as clients know it
	return page, nil
}

// PerPage reads how much of a provider's list is asked for at once.
func PerPage(from url.Values) (int, error) {
	n, err := Number(from, "per_page")
	if err == nil && (n < 0 || n > maxPerPage) {
		err = errors.New("per_page is out of range")
	}
	return int(n), err
}

// WaitFor reads how long the caller wants to wait for the provider.
func WaitFor(from url.Values) (time.Duration, error) {
	v := from.Get("wait")
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, known("Invalid wait time")
	}
	return d, nil
}

// Position is where a reader begins.
type Position struct {
	Offset int64
	Origin string
}

// PositionOf reads where a reader begins.
func PositionOf(from url.Values) (at Position, err error) {
	at.Origin = cmp.Or(from.Get("origin"), "start")
	if at.Origin != "start" && at.Origin != "end" {
		return at, errors.New("origin must be start or end")
	}
	at.Offset, err = Number(from, "offset")
	return at, err
}

// Part is a part of a file; a limit of 0 is none.
type Part struct{ Offset, Limit int64 }

// PartOf reads which part of a file is asked for.
func PartOf(from url.Values) (p Part, err error) {
	if p.Offset, err = Number(from, "offset"); err != nil {
		return p, err
	}
	if p.Limit, err = Number(from, "limit"); err != nil {
		return p, err
	}
	if p.Offset < 0 {
		return p, errors.New("offset must not be negative")
	}
	p.Limit = max(0, p.Limit) // clients say -1 for: to the end
	return p, nil
}
