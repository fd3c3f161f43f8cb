package variable

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/model/acl"
)

// Given paths, then those are taken that a URL, a policy and a person can name, and of those below the servers' own
// root the ones that have a meaning.
func TestWhereAVariableMayLie(t *testing.T) {
	for path, want := range map[string]string{
		"app":                          "",
		"app/db_1/~x-Y":                "",
		strings.Repeat("a", MaxPath):   "",
		"nomad/jobs":                   "",
		"nomad/jobs/web/g/t":           "",
		"nomad/job-templates/x":        "",
		"nomads":                       "",
		"":                             "no path",
		strings.Repeat("a", MaxPath+1): "at most 128",
		"a.b":                          "letters, digits",
		"a b":                          "letters, digits",
		"ä":                            "letters, digits",
		"a\n":                          "letters, digits",
		"../a":                         "letters, digits",
		"a/*":                          "letters, digits",
		"/a":                           "slash",
		"a/":                           "slash",
		"a//b":                         "slash",
		"nomad":                        "reserved",
		"nomad/x":                      "reserved",
		"nomad/jobsx":                  "reserved",
		"nomad/job-template":           "reserved",
	} {
		err := ValidPath(path)
		if err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestHowMuchAVariableHolds(t *testing.T) {
	value := strings.Repeat("v", MaxBytes-1)
	if err := ValidItems("a", map[string]string{"k": value}); err != nil {
		t.Errorf("as much as may be: %v", err)
	}
	for want, items := range map[string]map[string]string{
		"have 65537 bytes": {"k": value + "v"},
		"without a key":    {"": "v"},
	} {
		err := ValidItems("a", items)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "vv") {
			t.Errorf("%v, want %q and no value", err, want)
		}
	}
}

func TestHowLongALockMayHold(t *testing.T) {
	for name, c := range map[string]struct {
		l  Lock
		ok bool
	}{
		"the least":         {Lock{TTL: MinTTL}, true},
		"the most":          {Lock{TTL: MaxTTL, Delay: MaxTTL}, true},
		"less":              {Lock{TTL: MinTTL - 1}, false},
		"more":              {Lock{TTL: MaxTTL + 1}, false},
		"a delay back":      {Lock{TTL: MinTTL, Delay: -time.Second}, false},
		"a delay of a week": {Lock{TTL: MinTTL, Delay: 7 * 24 * time.Hour}, false},
	} {
		if err := c.l.Validate("a"); err == nil != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task reads the paths of its own job, group and itself, in its own namespace, and nothing beside and below them.
func TestWhatATaskMayRead(t *testing.T) {
	w := Workload{Namespace: "app", Job: "web", Group: "g", Task: "t"}
	mine := []string{"nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/g", "nomad/jobs/web/g/t"}
	for _, path := range append([]string{
		"nomad/jobs/web/g/t/x", "nomad/jobs/web/g/other", "nomad/jobs/web/h", "nomad/jobs/webb", "nomad/jobs/we",
		"nomad/job-templates/web", "web", "",
	}, mine...) {
		for _, c := range []acl.Capability{acl.Read, acl.List, acl.Write, acl.Destroy} {
			want := slices.Contains(mine, path) && (c == acl.Read || c == acl.List)
			if w.May("app", path, c) != want {
				t.Errorf("%s of %q: want %v", c, path, want)
			}
			if w.May("apps", path, c) || w.May("*", path, c) {
				t.Errorf("%s of %q in another namespace", c, path)
			}
		}
	}
}
