package serving

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth/internal/wire"
)

// Created is where an object stands in lists that go by creation: by the index that made it, then by its id.
type Created struct {
	Index uint64
	ID    string
}

// Compare orders as lists do.
func (c Created) Compare(other Created) int {
	if by := cmp.Compare(c.Index, other.Index); by != 0 {
		return by
	}
	return strings.Compare(c.ID, other.ID)
}

// ByCreation cuts the page that is asked for out of what comes in any order, as wire.Cut does of the whole list that
// goes by creation. The state files nothing in that order, so that everything is passed by; but only what may be on
// the page is kept, asked about and ordered. shown tells which of them the caller is to see, key is that of wire.
func ByCreation[T any](
	q wire.Page, all iter.Seq[T], shown func(T) bool, place func(T) Created, key func(T) string,
) (page []T, next string) {
	sign := 1
	if q.Reverse {
		sign = -1
	}
	compare := func(a, b T) int { return place(a).Compare(place(b)) * sign }
	begin, begins := beginning(q.NextToken)
	part := q.PerPage > 0 && (begins || q.NextToken == "")
	var kept []T
	var last Created // what comes after it is not on the page
	ends := false
	for o := range all {
		at := place(o)
		if begins && at.Compare(begin)*sign < 0 || ends && at.Compare(last)*sign > 0 || !shown(o) {
			continue
		}
		kept = append(kept, o)
		if part && len(kept)/2 > q.PerPage { // with what the next page begins with, twice
			slices.SortFunc(kept, compare)
			kept = kept[:q.PerPage+1]
			last, ends = place(kept[q.PerPage]), true
		}
	}
	slices.SortFunc(kept, func(a, b T) int { return place(a).Compare(place(b)) })
	return wire.Cut(q, kept, key)
}

// beginning reads where a page begins from its token; false: no list has given that one.
func beginning(token string) (Created, bool) {
	number, id, _ := strings.Cut(token, ".")
	index, err := strconv.ParseUint(number, 10, 64)
	return Created{index, id}, err == nil && fmt.Sprintf("%d.%s", index, id) == token
}
