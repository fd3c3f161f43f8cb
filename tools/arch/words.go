package arch

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

const wordsFile = "tools/arch/words.txt"

// checkWords looks for the expressions of words.txt in every file of the tree.
func checkWords(t *Tree) []Finding {
	text, err := fs.ReadFile(t.FS, wordsFile)
	if err != nil {
		return []Finding{{Path: wordsFile, Text: err.Error()}}
	}
	var banned []*regexp.Regexp
	var whys []string
	for _, line := range lines(string(text)) {
		expr, why, ok := strings.Cut(line, " : ")
		re, err := regexp.Compile(strings.TrimSpace(expr))
		if !ok || err != nil {
			return []Finding{{Path: wordsFile, Text: fmt.Sprintf("%q is not `expression : reason`: %v", line, err)}}
		}
		banned, whys = append(banned, re), append(whys, why)
	}
	var out []Finding
	for _, p := range t.Texts {
		if p == wordsFile || strings.HasPrefix(p, "tools/arch/testdata/") || strings.HasSuffix(p, "go.sum") {
			continue
		}
		src, err := fs.ReadFile(t.FS, p)
		if err != nil || bytes.IndexByte(src[:min(len(src), 8000)], 0) >= 0 {
			continue // gone again, or a built program
		}
		for n, line := range bytes.Split(src, []byte("\n")) {
			for i, re := range banned {
				if hit := re.Find(line); hit != nil {
					out = append(out, Finding{Path: p, Line: n + 1, Text: fmt.Sprintf("says %q", hit), Why: whys[i]})
				}
			}
		}
	}
	return out
}

// checkFormat holds every Go file to gofmt.
func checkFormat(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		for _, f := range p.Files {
			want, err := format.Source(f.Src)
			if err != nil || !slices.Equal(want, f.Src) {
				out = append(out, Finding{Path: f.Path, Text: "is not formatted"})
			}
		}
	}
	return out
}
