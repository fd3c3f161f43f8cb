package arch

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// waiver lets a file break a rule a number of times.
type waiver struct {
	rule, path string
	count      int
	line       int
}

// Judge checks a rule and takes away what the ratchet waives. A waiver that waives nothing, or too much, is a finding.
func Judge(t *Tree, r Rule) []Finding {
	found := r.Check(t)
	text, err := fs.ReadFile(t.FS, ratchetFile)
	if err != nil {
		return append(found, Finding{Path: ratchetFile, Text: err.Error()})
	}
	for i, raw := range strings.Split(string(text), "\n") {
		w, ok, err := parseWaiver(i+1, raw)
		switch {
		case err != nil:
			found = append(found, Finding{Path: ratchetFile, Line: i + 1, Text: err.Error()})
		case ok && w.rule == strings.ReplaceAll(r.Name, " ", "-"):
			found = w.apply(found)
		}
	}
	return found
}

// parseWaiver reads `waive rule path count : reason`.
func parseWaiver(n int, raw string) (w waiver, ok bool, err error) {
	body, reason, reasoned := strings.Cut(strings.TrimSpace(raw), " : ")
	words := strings.Fields(body)
	if len(words) == 0 || words[0] != "waive" {
		return w, false, nil
	}
	if len(words) == 4 && reasoned && strings.TrimSpace(reason) != "" {
		count, err := strconv.Atoi(words[3])
		return waiver{words[1], words[2], count, n}, true, err
	}
	return w, false, fmt.Errorf("%q is not `waive rule path count : reason`", raw)
}

func (w waiver) apply(found []Finding) []Finding {
	var here, others []Finding
	for _, f := range found {
		if f.Path == w.path {
			here = append(here, f)
		} else {
			others = append(others, f)
		}
	}
	switch {
	case len(here) > w.count:
		return found
	case len(here) < w.count:
		return append(others,
			Finding{
				Path: ratchetFile,
				Line: w.line,
				Text: fmt.Sprintf("%s breaks %q %d times now: write that here, or delete the line", w.path, w.rule,
					len(here)),
			})
	}
	return others
}
