package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
)

// Cut cuts the page that is asked for out of a list in ascending order of its keys, and names the key with which the
// next page begins. Servers cut where no filter is set; the HTTP layer cuts what its filter left.
func Cut[T any](q Page, items []T, key func(T) string) (shown []T, next string) {
	if q.Reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	if q.NextToken != "" {
		items = items[pageStart(q, items, key):]
	}
	if q.PerPage > 0 && len(items) > q.PerPage {
		return items[:q.PerPage], key(items[q.PerPage])
	}
	return items, ""
}

// pageStart finds the item that a token names, or the first one after the place where that was.
func pageStart[T any](q Page, items []T, key func(T) string) int {
	if i := slices.IndexFunc(items, func(it T) bool { return key(it) == q.NextToken }); i >= 0 {
		return i
	}
	i := slices.IndexFunc(items, func(it T) bool {
		c := compareKeys(key(it), q.NextToken)
		return c > 0 && !q.Reverse || c < 0 && q.Reverse
	})
	if i < 0 {
		return len(items)
	}
	return i
}

// KeyOfJob is a job's place in pages.
func KeyOfJob(j *job.Job) string { return string(j.Namespace) + "." + string(j.ID) }

// VolumeAt is the volume that a page of a namespace begins with, by its token; false: the token does not say it.
func VolumeAt(ns ids.Namespace, token string) (volume.ID, bool) {
	id, ok := strings.CutPrefix(token, string(ns)+".")
	return volume.ID{Namespace: ns, ID: ids.Volume(id)}, ok && ns != "" && ns != AllNamespaces
}

// KeyOfPolicy is a scaling policy's place in pages.
func KeyOfPolicy(p *ScalingPolicy) string { return string(p.ID) }

// KeyOfVolume is a volume's place in pages.
func KeyOfVolume(id volume.ID) string { return string(id.Namespace) + "." + string(id.ID) }

// KeyOfAlloc is an alloc's place in pages, which go by creation.
func KeyOfAlloc(a *alloc.Alloc) string { return fmt.Sprintf("%d.%s", a.CreateIndex, a.ID) }

// KeyOfEval is an evaluation's place in pages, which go by creation.
func KeyOfEval(e *eval.Eval) string { return fmt.Sprintf("%d.%s", e.CreateIndex, e.ID) }

// KeyOfDeployment is a deployment's place in pages, which go by creation.
func KeyOfDeployment(d *deployment.Deployment) string {
	return fmt.Sprintf("%d.%s", d.CreateIndex, d.ID)
}

// KeyOfNode is a node's place in pages.
func KeyOfNode(n *node.Node) string { return string(n.ID) }

// KeyOfPlugin is a plugin's place in pages.
func KeyOfPlugin(id ids.Plugin) string { return string(id) }

// compareKeys orders keys that begin with a number by that number.
func compareKeys(a, b string) int {
	an, arest, _ := strings.Cut(a, ".")
	bn, brest, _ := strings.Cut(b, ".")
	ai, aerr := strconv.ParseUint(an, 10, 64)
	bi, berr := strconv.ParseUint(bn, 10, 64)
	if aerr == nil && berr == nil {
		return cmp.Or(cmp.Compare(ai, bi), strings.Compare(arest, brest))
	}
	return cmp.Or(strings.Compare(an, bn), strings.Compare(arest, brest))
}
