package params

import (
	"net/url"
	"testing"
	"time"

	"berth/internal/wire"
)

// Given the parameters of a URL, then each means what clients know it to mean, and what it cannot mean is refused.
func TestWhatParametersMean(t *testing.T) {
	type read func(url.Values) (any, error)
	query := func(v url.Values) (any, error) { return Query(v) }
	page := func(v url.Values) (any, error) { return Page(v) }
	perPage := func(v url.Values) (any, error) { return PerPage(v) }
	waits := func(v url.Values) (any, error) { return WaitFor(v) }
	position := func(v url.Values) (any, error) { return PositionOf(v) }
	part := func(v url.Values) (any, error) { return PartOf(v) }
	for _, c := range []struct {
		name string
		read read
		text string
		want any // nil: it is refused
	}{
		{"query", query, "", wire.Query{}},
		{"query", query, "prefix=a&index=7&wait=2s", wire.Query{Prefix: "a", MinIndex: 7, Wait: 2 * time.Second}},
		{"query", query, "index=-1", nil},
		{"query", query, "index=x", nil},
		{"query", query, "wait=x", nil},
		{"query", query, "stale", wire.Query{Stale: true}},
		{"query", query, "stale=false", wire.Query{}},
		{"query", query, "stale=x", nil},
		{"page", page, "", wire.Page{}},
		{"page", page, "per_page=3&next_token=t&reverse=true", wire.Page{PerPage: 3, NextToken: "t", Reverse: true}},
		{"page", page, "per_page=-3", wire.Page{}},
		{"page", page, "per_page=x", nil},
		{"a provider's page", perPage, "", 0},
		{"a provider's page", perPage, "per_page=1048576", 1 << 20},
		{"a provider's page", perPage, "per_page=1048577", nil},
		{"a provider's page", perPage, "per_page=-1", nil},
		{"a provider's page", perPage, "per_page=1.5", nil},
		{"wait", waits, "", time.Duration(0)},
		{"wait", waits, "wait=1m", time.Minute},
		{"wait", waits, "wait=-1m", nil},
		{"position", position, "", Position{Origin: "start"}},
		{"position", position, "origin=end&offset=9", Position{Origin: "end", Offset: 9}},
		{"position", position, "origin=middle", nil},
		{"position", position, "offset=x", nil},
		{"part", part, "", Part{}},
		{"part", part, "offset=3&limit=4", Part{3, 4}},
		{"part", part, "limit=-1", Part{}},
		{"part", part, "offset=-1", nil},
		{"part", part, "offset=99999999999999999999", nil},
		{"part", part, "limit=x", nil},
	} {
		v, err := url.ParseQuery(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.read(v)
		if (err == nil) != (c.want != nil) || err == nil && got != c.want {
			t.Errorf("%s of %q: %+v, %v; want %+v", c.name, c.text, got, err, c.want)
		}
	}
}
