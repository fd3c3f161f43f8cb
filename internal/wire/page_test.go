package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestTokensWithNumbersOrderAsNumbers(t *testing.T) {
	if compareKeys("9.a", "10.a") >= 0 || compareKeys("10.b", "10.a") <= 0 || compareKeys("7.a", "7.a") != 0 {
		t.Error("9 comes before 10, and ids decide among equals")
	}
}

// TestAPageEndsWhereItsListEnds: given a list, when pages of it are cut in either order, then a page that holds the
// rest names no further one, a token whose item is gone goes on behind its place, and the list itself stays as it was.
func TestAPageEndsWhereItsListEnds(t *testing.T) {
	list := []string{"9.a", "10.a", "11.a"}
	for _, c := range []struct {
		query       Page
		shown, next string
	}{
		{Page{}, "9.a 10.a 11.a", ""},
		{Page{PerPage: 2}, "9.a 10.a", "11.a"},
		{Page{PerPage: 3}, "9.a 10.a 11.a", ""},
		{Page{PerPage: 1, NextToken: "11.a"}, "11.a", ""},
		{Page{PerPage: 1, NextToken: "9.b"}, "10.a", "11.a"},
		{Page{NextToken: "12.a"}, "", ""},
		{Page{Reverse: true}, "11.a 10.a 9.a", ""},
		{Page{Reverse: true, PerPage: 1, NextToken: "10.b"}, "10.a", "9.a"},
		{Page{Reverse: true, NextToken: "1.a"}, "", ""},
	} {
		shown, next := Cut(c.query, list, func(s string) string { return s })
		if got := strings.Join(shown, " "); got != c.shown || next != c.next {
			t.Errorf("%+v: %q, then %q; want %q, then %q", c.query, got, next, c.shown, c.next)
		}
	}
	if !slices.Equal(list, []string{"9.a", "10.a", "11.a"}) {
		t.Errorf("the list has become %v", list)
	}
}
