package endpoint

import (
	"slices"

	"berth/internal/model/alloc"
	"berth/internal/model/eval"
	"berth/internal/server/endpoint/serving"
)

// createdAlloc is where an alloc stands in lists.
func createdAlloc(a *alloc.Alloc) serving.Created {
	return serving.Created{Index: a.CreateIndex, ID: string(a.ID)}
}

// createdEval is where an evaluation stands in lists.
func createdEval(e *eval.Eval) serving.Created {
	return serving.Created{Index: e.CreateIndex, ID: string(e.ID)}
}

// sortEvals orders evaluations as lists do.
func sortEvals(es []*eval.Eval) {
	slices.SortFunc(es, func(a, b *eval.Eval) int { return createdEval(a).Compare(createdEval(b)) })
}
