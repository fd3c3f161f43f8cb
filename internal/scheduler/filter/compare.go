package filter

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Test compares what a node has with what a constraint asks for.
type Test func(left string, hasLeft bool, right string, hasRight bool) bool

// Operators that say something about allocs, not about a node's value.
const (
	DistinctHosts    = "distinct_hosts"
	DistinctProperty = "distinct_property"
)

// NewTest returns the test of an operator. A right side that is a literal is compiled once; right is ignored otherwise.
func NewTest(operand string, right Target) (Test, error) {
	switch operand {
	case "", "=", "==", "is":
		return both(func(l, r string) bool { return l == r }), nil
	case "!=", "not":
		return func(l string, hl bool, r string, hr bool) bool { return hl != hr || l != r }, nil
	case "<", "<=", ">", ">=":
		return both(func(l, r string) bool { return ordered(operand, compareValues(l, r)) }), nil
	case "regexp":
		return patternTest(right, compilePattern)
	case "version":
		return patternTest(right, compileVersions)
	case "semver":
		return patternTest(right, compileSemver)
	case "set_contains", "set_contains_all":
		return both(func(l, r string) bool { return contained(l, r, true) }), nil
	case "set_contains_any":
		return both(func(l, r string) bool { return contained(l, r, false) }), nil
	case "is_set":
		return func(_ string, hl bool, _ string, _ bool) bool { return hl }, nil
	case "is_not_set":
		return func(_ string, hl bool, _ string, _ bool) bool { return !hl }, nil
	}
	return nil, fmt.Errorf("unknown operator %q", operand)
}

func both(f func(l, r string) bool) Test {
	return func(l string, hl bool, r string, hr bool) bool { return hl && hr && f(l, r) }
}

// patternTest compiles a literal right side now and others at each node.
func patternTest(right Target, compile func(string) (func(string) bool, error)) (Test, error) {
	if right.kind == literal {
		match, err := compile(right.literal)
		if err != nil {
			return nil, err
		}
		return func(l string, hl bool, _ string, _ bool) bool { return hl && match(l) }, nil
	}
	return both(func(l, r string) bool {
		match, err := compile(r)
		return err == nil && match(l)
	}), nil
}

func compilePattern(s string) (func(string) bool, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

// compareValues orders numerically where both sides are numbers, and by bytes otherwise.
func compareValues(l, r string) int {
	a, errA := strconv.ParseFloat(l, 64)
	b, errB := strconv.ParseFloat(r, 64)
	if errA != nil || errB != nil {
		return strings.Compare(l, r)
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func ordered(operand string, c int) bool {
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "!=":
		return c != 0
	}
	return c == 0
}

// contained reports whether the comma-separated set l holds all (or any) of the values r.
func contained(l, r string, all bool) bool {
	have := map[string]bool{}
	for v := range strings.SplitSeq(l, ",") {
		have[strings.TrimSpace(v)] = true
	}
	for v := range strings.SplitSeq(r, ",") {
		if have[strings.TrimSpace(v)] != all {
			return !all
		}
	}
	return all
}
