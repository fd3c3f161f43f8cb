package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/httpapi/page"
)

type thing struct{ N int }

func key(t *thing) string { return fmt.Sprintf("%d.x", t.N) }
func all(t *thing) any    { return t }

// Given any list in the order of its keys, when it is read page by page while things come and go, then whatever stayed is
// seen exactly once and in order.
func TestPagesLoseNothingThatStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.IntRange(0, 120), 0, 20, rapid.ID[int]).Draw(t, "numbers")
		slices.Sort(numbers)
		q := page.Query{Reverse: rapid.Bool().Draw(t, "reverse"), PerPage: fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "per page"))}
		gone := map[int]bool{}
		var seen []int
		for {
			var items []*thing
			for _, n := range numbers {
				if !gone[n] {
					items = append(items, &thing{n})
				}
			}
			shown, next, err := page.Of(q, items, all, key)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range shown {
				seen = append(seen, it.N)
			}
			if next == "" {
				break
			}
			if q.Token = next; rapid.Bool().Draw(t, "goes") {
				var n int
				if _, err := fmt.Sscanf(next, "%d.x", &n); err != nil {
					t.Fatal(err)
				}
				gone[n] = true
			}
		}
		var want []int
		for _, n := range numbers {
			if !gone[n] {
				want = append(want, n)
			}
		}
		if q.Reverse {
			slices.Reverse(want)
		}
		if !slices.Equal(seen, want) {
			t.Fatalf("saw %v, stayed %v", seen, want)
		}
	})
}

func TestMistakesAreTold(t *testing.T) {
	for _, c := range []struct {
		q    page.Query
		text string
	}{
		{page.Query{PerPage: "-1"}, "per_page"}, {page.Query{PerPage: "x"}, "per_page"},
		{page.Query{Filter: "N =="}, "failed to create result paginator: failed to read filter expression"},
		{page.Query{Filter: "Nothing == 1"}, "failed to create result paginator: failed to read filter expression"},
	} {
		if _, _, err := page.Of(c.q, []*thing{{1}}, all, key); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.q, err)
		}
	}
	shown, _, err := page.Of(page.Query{Filter: "N == 2"}, []*thing{{1}, {2}}, all, key)
	if err != nil || len(shown) != 1 || shown[0].N != 2 {
		t.Errorf("filtered: %v, %v", shown, err)
	}
}
