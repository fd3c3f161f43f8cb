package serving_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/server/endpoint/serving"
	"berth/internal/wire"
)

func itself(c serving.Created) serving.Created { return c }

func keyOf(c serving.Created) string { return fmt.Sprintf("%d.%s", c.Index, c.ID) }

// Given objects that come in any order, of which the caller may see some, when any page of them is asked for, by a
// token that a list gave, by one of an object that is gone, or by one that no list gives, then it is the page of the
// whole list in its order.
func TestAPageIsThatOfTheWholeList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) serving.Created {
			return serving.Created{
				Index: rapid.Uint64Range(0, 12).Draw(t, "index"),
				ID:    rapid.StringOfN(rapid.SampledFrom([]rune("ab.")), 0, 2, -1).Draw(t, "id"),
			}
		})
		all := rapid.SliceOfNDistinct(one, 0, 40, itself).Draw(t, "all")
		hidden := rapid.Uint64Range(0, 4).Draw(t, "hidden")
		shown := func(c serving.Created) bool { return c.Index%5 != hidden }
		token := rapid.OneOf(rapid.Just(""), rapid.Map(one, keyOf),
			rapid.SampledFrom([]string{"5", "007.a", "x", ".", "1x.a", "-1.a", "99999999999999999999.a"}))
		page := wire.Page{
			PerPage:   rapid.OneOf(rapid.IntRange(0, 6), rapid.Just(int(^uint(0)>>1))).Draw(t, "per page"),
			NextToken: token.Draw(t, "token"),
			Reverse:   rapid.Bool().Draw(t, "reverse"),
		}
		list := slices.DeleteFunc(slices.Clone(all), func(c serving.Created) bool { return !shown(c) })
		slices.SortFunc(list, serving.Created.Compare)
		want, wantNext := wire.Cut(page, list, keyOf)
		got, next := serving.ByCreation(page, slices.Values(all), shown, itself, keyOf)
		if !slices.Equal(got, want) || next != wantNext {
			t.Fatalf("%+v of %v:\n%v, then %q; want\n%v, then %q", page, all, got, next, want, wantNext)
		}
	})
}

// Given a long list, when its first page is asked for, then the caller's right to see is asked about few of its objects
// alone, and about none that cannot be on the page.
func TestAPageAsksAboutFew(t *testing.T) {
	asked := 0
	page, next := serving.ByCreation(wire.Page{PerPage: 10}, func(yield func(serving.Created) bool) {
		for i := range uint64(10_000) {
			if !yield(serving.Created{Index: i}) {
				return
			}
		}
	}, func(serving.Created) bool { asked++; return true }, itself, keyOf)
	if len(page) != 10 || next != "10." || asked > 22 {
		t.Errorf("%d objects, then %q; asked about %d", len(page), next, asked)
	}
}
