package endpoint

import (
	"cmp"
	"slices"
	"strings"

	"berth/internal/model/alloc"
	"berth/internal/model/eval"
)

// sortAllocs orders allocs by create index, then id: the order of lists.
func sortAllocs(as []*alloc.Alloc) {
	slices.SortFunc(as, func(a, b *alloc.Alloc) int {
		return compareCreated(a.CreateIndex, b.CreateIndex, string(a.ID), string(b.ID))
	})
}

// sortEvals orders evaluations by create index, then id: the order of lists.
func sortEvals(es []*eval.Eval) {
	slices.SortFunc(es, func(a, b *eval.Eval) int {
		return compareCreated(a.CreateIndex, b.CreateIndex, string(a.ID), string(b.ID))
	})
}

func compareCreated(a, b uint64, aid, bid string) int {
	return cmp.Or(cmp.Compare(a, b), strings.Compare(aid, bid))
}
