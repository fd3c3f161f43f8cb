package filter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/model/job"
	"berth/internal/model/node"
)

// holds reports what an operator says of a version; a condition or a version that cannot be read holds never.
func holds(t testing.TB, operand, condition, version string) bool {
	t.Helper()
	test, err := NewTest(operand, ParseTarget(condition))
	return err == nil && test(version, true, condition, true)
}

// The cases in which hashicorp/go-version and the comparison that stood here before it gave different answers, or were
// likely to. The operator version is documented as what that library does.
func TestVersionsAreThoseOfGoVersion(t *testing.T) {
	for _, c := range []struct {
		condition, version string
		want               bool
	}{
		{">= 1.4, < 2", "1.4.2", true},
		{"~> 1.4.0", "1.4.9", true},
		{"~> 1.4.0", "1.5.0", false},
		{"~> 1.4", "1.10.0", true},
		{"~> 1.4", "2.0.0", false},
		{"~> 1", "2.0.0", true}, // the last number may rise; before: only 1.x
		{"1.4", "1.4.0", true},
		{"= v1.4.0", "1.4", true},
		{">= 1.0", " 1.2 ", true},                  // nodes report what programs print
		{">= 1.0", "2.0.0-beta", false},            // says nothing of prereleases
		{">= 1.0.0-beta", "1.0.0-rc.1", true},      // prereleases of one release are ordered
		{">= 1.0.0-beta", "2.0.0-rc.1", false},     // those of another are not meant; before: they were
		{">= 1.0.0-beta", "2.0.0", true},           // a release is
		{"< 1.0.0-rc.10", "1.0.0-rc.9", true},      // numbers count as numbers
		{"!= 1.0.0", "1.0.0-beta", true},           //
		{"= 1.0.0", "1.0.0beta", false},            // a prerelease without a dash is read; before: no version
		{"!= 1.0.0", "1.0.0beta", true},            //
		{"= 1.0.0+build1", "1.0.0+build2", true},   // metadata does not order
		{"= 1.2.3.4", "1.2.3.4", true},             // more than three numbers
		{"= 01.2.3", "1.2.3", true},                //
		{">= 1.0", "1.0-", false},                  // before: 1.0
		{">= 1.0", "", false},                      //
		{">= 1.0", "latest", false},                //
		{">= x", "1.0", false},                     //
		{">= 1.0,", "1.0", false},                  //
		{"= 99999999999999999999", "1.0.0", false}, //
	} {
		if got := holds(t, "version", c.condition, c.version); got != c.want {
			t.Errorf("version %q of %q: %t", c.condition, c.version, got)
		}
	}
}

// The order of semver.org, section 11, and what is a version by its grammar.
func TestSemverIsThatOfSemverOrg(t *testing.T) {
	chain := []string{"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1.0.0", "1.0.1-0", "1.0.1", "1.2.0", "2.0.0"}
	for i, a := range chain {
		for j, b := range chain {
			for op, want := range map[string]bool{"<": i < j, "<=": i <= j, "=": i == j, "!=": i != j, ">=": i >= j,
				">": i > j} {
				if got := holds(t, "semver", op+" "+b, a); got != want {
					t.Errorf("semver %s %s of %s: %t", op, b, a, got)
				}
			}
		}
	}
	if !holds(t, "semver", "1.0.0+b1", "1.0.0+b2") || !holds(t, "semver", " >=1.0.0 , <2.0.0", "1.5.0") {
		t.Error("metadata orders, or conditions are not joined")
	}
	for _, bad := range []string{"1.0", "v1.0.0", "1", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3.4", "", "1.2.x"} {
		if holds(t, "semver", ">= 0.0.0", bad) || holds(t, "semver", bad, "1.0.0") {
			t.Errorf("%q is taken for a semantic version", bad)
		}
	}
}

// Given two releases, when they are compared, then exactly what their numbers say holds, by both operators.
func FuzzReleasesAreOrderedByTheirNumbers(f *testing.F) {
	f.Add(uint16(1), uint16(2), uint16(3), uint16(1), uint16(10), uint16(0))
	f.Add(uint16(0), uint16(0), uint16(0), uint16(0), uint16(0), uint16(0))
	f.Add(uint16(1), uint16(65535), uint16(0), uint16(1), uint16(65535), uint16(1))
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g uint16) {
		left, right := fmt.Sprintf("%d.%d.%d", a, b, c), fmt.Sprintf("%d.%d.%d", d, e, g)
		order := slices.Compare([]uint16{a, b, c}, []uint16{d, e, g})
		for _, operand := range []string{"version", "semver"} {
			for _, op := range []string{"<", "<=", "=", "!=", ">=", ">"} {
				if got := holds(t, operand, op+right, left); got != ordered(op, order) {
					t.Errorf("%s %s%s of %s: %t", operand, op, right, left, got)
				}
			}
		}
		pessimistic := order >= 0 && a == d && b == e
		if got := holds(t, "version", "~>"+right, left); got != pessimistic {
			t.Errorf("version ~>%s of %s: %t", right, left, got)
		}
	})
}

// Given any texts, when they are a condition and a version, then nothing panics and the answer is the same each time.
func FuzzVersions(f *testing.F) {
	f.Add("~> 1.2.3-beta+x, != 1", "v1.2.4~rc")
	f.Add(">=,", "1..2")
	f.Fuzz(func(t *testing.T, condition, version string) {
		for _, operand := range []string{"version", "semver"} {
			test, err := NewTest(operand, ParseTarget(condition))
			if err != nil {
				continue
			}
			first := test(version, true, condition, true)
			again := test(version, true, condition, true)
			if first != again {
				t.Errorf("%s %q of %q: two answers", operand, condition, version)
			}
		}
	})
}

func BenchmarkVersionOfManyNodes(b *testing.B) {
	match, err := compileVersions(">= 1.4, < 2")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		match("1.4.2")
	}
}

// Given a kernel's version, which by the operator version is a pre-release, when it refuses the node, then the reason
// says so and what to write; of a version without one it says nothing.
func TestAVersionThatIsLeftOutAsAPrereleaseIsExplained(t *testing.T) {
	c := NewConstraints("global")
	c.add([]*job.Constraint{{LTarget: "${attr.kernel.version}", Operand: "version", RTarget: ">= 4.0"}})
	for version, want := range map[string]bool{"6.1.0-amd64": true, "3.9.0": false} {
		n := &node.Node{ID: "n", Attributes: map[string]string{"kernel.version": version}}
		_, hint := c.Explain(n)
		if got := strings.Contains(hint, "pre-release") && strings.Contains(hint, "semver"); got != want {
			t.Errorf("%s: %q", version, hint)
		}
	}
}
