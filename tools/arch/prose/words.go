package prose

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

const wordsFile = "tools/arch/words.txt"

// Words looks for the expressions of words.txt in every file of the tree.
func Words(r *Repo) []Finding {
	text, err := fs.ReadFile(r.FS, wordsFile)
	if err != nil {
		return []Finding{{Path: wordsFile, Text: err.Error()}}
	}
	var banned []*regexp.Regexp
	var whys []string
	for _, line := range Lines(string(text)) {
		expr, why, ok := strings.Cut(line.Text, " : ")
		re, err := regexp.Compile(strings.TrimSpace(expr))
		if !ok || err != nil {
			return []Finding{{
				Path: wordsFile,
				Text: fmt.Sprintf("%q is not `expression : reason`: %v", line.Text, err),
			}}
		}
		banned, whys = append(banned, re), append(whys, why)
	}
	var out []Finding
	for _, p := range r.Texts {
		if p == wordsFile || strings.HasPrefix(p, "tools/arch/testdata/") || strings.HasSuffix(p, "go.sum") {
			continue
		}
		src, err := fs.ReadFile(r.FS, p)
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
