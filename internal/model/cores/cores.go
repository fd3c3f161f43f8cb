// Package cores owns the rules of a node's processor cores: how a set of them is written, how much computing power each
// stands for, and which ones a task gets that asks for whole cores. The scheduler, nodes and surfaces import it.
package cores

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Core is one logical processor of a node.
type Core struct {
	ID        uint16
	Socket    int
	Memory    int  // the memory node (NUMA) that is near
	Efficient bool // slower than others of the machine, by its kind
	BaseMHz   int64
	MaxMHz    int64 // 0: it is not known
}

// How near to each other the cores of a task must be.
const (
	AffinityNone    = "none"
	AffinityPrefer  = "prefer"
	AffinityRequire = "require"
)

// Affinities lists them.
var Affinities = []string{AffinityNone, AffinityPrefer, AffinityRequire}

// Max is the highest number that a core can have, and one more than that how many a task can ask for.
const Max = 1<<13 - 1

// Format writes cores as the kernel's lists are: "0-3,8". Nothing is the empty text.
func Format(ids []uint16) string {
	var parts []string
	all := slices.Compact(slices.Sorted(slices.Values(ids)))
	for i := 0; i < len(all); {
		end := i
		for end+1 < len(all) && all[end+1] == all[end]+1 {
			end++
		}
		part := strconv.Itoa(int(all[i]))
		if end > i {
			part += "-" + strconv.Itoa(int(all[end]))
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}

// Parse reads what Format writes, in any order, with blanks between.
func Parse(text string) ([]uint16, error) {
	var out []uint16
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
		last, wrong := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
		if err != nil || wrong != nil || last < first || last > Max {
			return nil, fault.WithHint(fault.New(fault.Invalid, "", strconv.Quote(part), "it names no cores"),
				`write numbers and ranges with commas between, such as "0-3,8"`)
		}
		for id := first; id <= last; id++ {
			out = append(out, uint16(id))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Without returns the ids of cores that are not among others, in order.
func Without(all []Core, others []uint16) []uint16 {
	var out []uint16
	for _, c := range all {
		if !slices.Contains(others, c.ID) {
			out = append(out, c.ID)
		}
	}
	slices.Sort(out)
	return out
}

// Shares is the part of a node's computing power that some of its cores stand for: by their speeds, so that all of them
// together are all of it, whatever the node's operator says that it is.
func Shares(all []Core, ids []uint16, total int64) int64 {
	var whole, part int64
	for _, c := range all {
		whole += max(c.BaseMHz, 1)
		if slices.Contains(ids, c.ID) {
			part += max(c.BaseMHz, 1)
		}
	}
	if whole == 0 {
		return 0
	}
	return total/whole*part + total%whole*part/whole
}

// Choose takes n of the free cores: those of one memory node if it is required, or preferred and possible, of the one
// that has the fewest left which do. Otherwise those with the lowest numbers. It says false when there are too few.
func Choose(free []Core, n int, affinity string) ([]uint16, bool) {
	if n > len(free) {
		return nil, false
	}
	free = slices.SortedFunc(slices.Values(free), func(a, b Core) int { return cmp.Compare(a.ID, b.ID) })
	if affinity == AffinityPrefer || affinity == AffinityRequire {
		near := map[int][]Core{}
		for _, c := range free {
			near[c.Memory] = append(near[c.Memory], c)
		}
		var best []Core
		for _, c := range free { // in order, so that the choice is the same each time
			of := near[c.Memory]
			if len(of) >= n && (best == nil || len(of) < len(best)) {
				best = of
			}
		}
		switch {
		case best != nil:
			free = best
		case affinity == AffinityRequire:
			return nil, false
		}
	}
	out := make([]uint16, 0, n)
	for _, c := range free[:n] {
		out = append(out, c.ID)
	}
	return out, true
}

// Describe says in words what is asked for.
func Describe(n int, affinity string) string {
	text := fmt.Sprintf("%d cores", n)
	if n == 1 {
		text = "1 core"
	}
	if affinity == AffinityRequire {
		text += " of one memory node"
	}
	return text
}
