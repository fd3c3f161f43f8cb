package wire_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/wire"
)

func key(n int) string { return fmt.Sprintf("%d.x", n) }

// Given any list in the order of its keys, when it is read page by page while things come and go, then whatever stayed
// is seen exactly once and in order.
func TestPagesLoseNothingThatStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.IntRange(0, 120), 0, 20, rapid.ID[int]).Draw(t, "numbers")
		slices.Sort(numbers)
		q := wire.Page{
			Reverse: rapid.Bool().Draw(t, "reverse"),
			PerPage: rapid.IntRange(1, 5).Draw(t, "per page"),
		}
		gone := map[int]bool{}
		var seen []int
		for {
			var items []int
			for _, n := range numbers {
				if !gone[n] {
					items = append(items, n)
				}
			}
			shown, next := wire.Cut(q, items, key)
			seen = append(seen, shown...)
			if next == "" {
				break
			}
			if q.NextToken = next; rapid.Bool().Draw(t, "goes") {
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
