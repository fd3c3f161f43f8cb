package users

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// Policy says as whom the tasks of a driver run.
type Policy struct {
	// Default is for tasks that name no user; empty: the agent's own.
	Default string
	// Denied are users that no task may run as, by name or number, and DeniedUIDs and DeniedGIDs ranges of them. What
	// decides is the number that a user has: another name of root is root.
	Denied                 []string
	DeniedUIDs, DeniedGIDs []Range
}

// Range is first to last, both included.
type Range struct{ First, Last uint32 }

// ParseRanges reads "0,10-99".
func ParseRanges(text string) ([]Range, error) {
	var out []Range
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := number(strings.TrimSpace(first))
		if err != nil {
			return nil, badRange(part)
		}
		to, err := number(strings.TrimSpace(last))
		if err != nil || to < from {
			return nil, badRange(part)
		}
		out = append(out, Range{First: from, Last: to})
	}
	return out, nil
}

func badRange(part string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", strconv.Quote(part), "it is no number and no range of numbers"),
		`write numbers and ranges, as in "0,10-99"`)
}

// Check refuses a user that no task may run as, and one that the node does not know. An empty one is the agent's own,
// which only a policy without a default leaves to a task.
func (p *Policy) Check(spec string) error {
	if spec == "" {
		return nil
	}
	u, err := Resolve(spec)
	if err != nil {
		return err
	}
	deny := func(because string) error {
		return fault.New(fault.Denied, "", "user "+strconv.Quote(spec), because)
	}
	for _, name := range p.Denied {
		if name == spec {
			return deny("this agent lets no task run as it")
		}
		if d, err := Resolve(name); err == nil && d.UID == u.UID { // whom the node does not know, nobody can be
			return deny(fmt.Sprintf("it is %q (uid %d), and this agent lets no task run as it", name, u.UID))
		}
	}
	if inside(p.DeniedUIDs, u.UID) {
		return deny(fmt.Sprintf("this agent lets no task run with uid %d", u.UID))
	}
	for _, gid := range append([]uint32{u.GID}, u.Groups...) {
		if inside(p.DeniedGIDs, gid) {
			return deny(fmt.Sprintf("this agent lets no task run with gid %d", gid))
		}
	}
	return nil
}

// UIDs lists the numbers of the users that are denied, in the form of ParseRanges: also of those that have names, if
// the node knows them.
func (p *Policy) UIDs() string {
	var out []string
	for _, name := range p.Denied {
		if u, err := Resolve(name); err == nil { // whom the node does not know, nobody can be
			out = append(out, strconv.FormatUint(uint64(u.UID), 10))
		}
	}
	for _, r := range p.DeniedUIDs {
		text := strconv.FormatUint(uint64(r.First), 10)
		if r.Last != r.First {
			text += "-" + strconv.FormatUint(uint64(r.Last), 10)
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func inside(ranges []Range, n uint32) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= n && n <= r.Last })
}
