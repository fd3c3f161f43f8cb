package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// version is a parsed version: numbers, then what follows a dash. Build metadata after a plus does not order.
type version struct {
	numbers    []int64
	prerelease string
}

func parseVersion(s string, strict bool) (version, error) {
	text := strings.TrimSpace(s)
	if !strict {
		text = strings.TrimPrefix(text, "v")
	}
	text, _, _ = strings.Cut(text, "+")
	core, pre, _ := strings.Cut(text, "-")
	v := version{prerelease: pre}
	for part := range strings.SplitSeq(core, ".") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 {
			return version{}, fmt.Errorf("%q is not a version", s)
		}
		v.numbers = append(v.numbers, n)
	}
	if strict && len(v.numbers) != 3 {
		return version{}, fmt.Errorf("%q is not a semantic version: it needs three numbers", s)
	}
	return v, nil
}

func (v version) at(i int) int64 {
	if i < len(v.numbers) {
		return v.numbers[i]
	}
	return 0
}

func (v version) compare(o version) int {
	for i := range max(len(v.numbers), len(o.numbers)) {
		if a, b := v.at(i), o.at(i); a != b {
			if a < b {
				return -1
			}
			return 1
		}
	}
	return comparePrerelease(v.prerelease, o.prerelease)
}

// comparePrerelease follows semver: none is the greatest; fields compare as numbers where both are, numbers come before
// texts, more fields come after fewer.
func comparePrerelease(a, b string) int {
	if a == b {
		return 0
	}
	if a == "" {
		return 1
	}
	if b == "" {
		return -1
	}
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		if c := compareField(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return len(as) - len(bs)
}

func compareField(a, b string) int {
	na, errA := strconv.ParseUint(a, 10, 64)
	nb, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		if na == nb {
			return 0
		}
		if na < nb {
			return -1
		}
		return 1
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// versionRule is one of the comma-separated conditions.
type versionRule struct {
	op string
	v  version
}

func (r versionRule) holds(v version, strict bool) bool {
	// A condition that names no prerelease is about releases; only semver orders prereleases among them.
	if !strict && v.prerelease != "" && r.v.prerelease == "" && r.op != "!=" {
		return false
	}
	c := v.compare(r.v)
	if r.op != "~>" {
		return ordered(r.op, c)
	}
	if c < 0 {
		return false
	}
	for i := range max(len(r.v.numbers)-1, 1) {
		if v.at(i) != r.v.at(i) {
			return false
		}
	}
	return true
}

// compileVersions reads a condition like ">= 1.2, < 2.0".
func compileVersions(s string, strict bool) (func(string) bool, error) {
	var rules []versionRule
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		op := "="
		for _, o := range []string{">=", "<=", "!=", "~>", "=", ">", "<"} {
			if rest, ok := strings.CutPrefix(part, o); ok {
				op, part = o, rest
				break
			}
		}
		if op == "~>" && strict {
			return nil, fmt.Errorf("operator ~> is not known to semver; use version, or >= and <")
		}
		v, err := parseVersion(part, strict)
		if err != nil {
			return nil, err
		}
		rules = append(rules, versionRule{op, v})
	}
	return func(text string) bool {
		v, err := parseVersion(text, strict)
		if err != nil {
			return false
		}
		for _, r := range rules {
			if !r.holds(v, strict) {
				return false
			}
		}
		return true
	}, nil
}
