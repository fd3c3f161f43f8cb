package filter

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-version"
	"golang.org/x/mod/semver"
)

// compileVersions reads a condition of the operator version, like ">= 1.2, < 2.0" or "~> 1.4".
func compileVersions(s string) (func(string) bool, error) {
	rules, err := version.NewConstraint(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no condition on versions: %w", s, err)
	}
	return remembered(func(text string) bool {
		v, err := version.NewVersion(strings.TrimSpace(text))
		return err == nil && rules.Check(v)
	}), nil
}

// remembered asks once for each text: nodes are many, and what they run is few.
func remembered(match func(string) bool) func(string) bool {
	known := map[string]bool{}
	return func(text string) bool {
		answer, there := known[text]
		if !there {
			answer = match(text)
			known[text] = answer
		}
		return answer
	}
}

// semverRule is one of the comma-separated conditions of the operator semver.
type semverRule struct{ op, version string }

// compileSemver reads a condition of the operator semver: versions have the form of semver.org and are ordered by it,
// prereleases among them.
func compileSemver(s string) (func(string) bool, error) {
	var rules []semverRule
	for part := range strings.SplitSeq(s, ",") {
		r := semverRule{op: "=", version: strings.TrimSpace(part)}
		for _, op := range []string{">=", "<=", "!=", "~>", "=", ">", "<"} {
			if rest, ok := strings.CutPrefix(r.version, op); ok {
				r = semverRule{op, rest}
				break
			}
		}
		if r.op == "~>" {
			return nil, fmt.Errorf("operator ~> is not known to semver; use version, or >= and <")
		}
		v, err := semanticVersion(r.version)
		if err != nil {
			return nil, err
		}
		rules = append(rules, semverRule{r.op, v})
	}
	return func(text string) bool {
		v, err := semanticVersion(text)
		if err != nil {
			return false
		}
		for _, r := range rules {
			if !ordered(r.op, semver.Compare(v, r.version)) {
				return false
			}
		}
		return true
	}, nil
}

// semanticVersion gives a version the form of package semver, which writes v before it and takes short ones.
func semanticVersion(s string) (string, error) {
	v := "v" + strings.TrimSpace(s)
	if core, _, _ := strings.Cut(v, "-"); !semver.IsValid(v) || strings.Count(core, ".") < 2 {
		return "", fmt.Errorf("%q is not a semantic version like 1.2.3 or 1.2.3-rc.1", s)
	}
	return v, nil
}
