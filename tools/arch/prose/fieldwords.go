package prose

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// fieldWord is a row of the glossary's table of words of the field.
type fieldWord struct {
	say     string
	names   [][]string     // words in a row, in any name that is declared
	phrases *regexp.Regexp // in comments and messages; nil: none
	spare   *regexp.Regexp // phrases that are ordinary English; nil: none
	where   []string
	except  []string
}

// FieldWords refuses words of our own where the field has one, and words with a second meaning.
func FieldWords(r *Repo) []Finding {
	text, err := fs.ReadFile(r.FS, glossaryFile)
	if err != nil {
		return []Finding{{Path: glossaryFile, Text: err.Error()}}
	}
	words, out := parseFieldWords(string(text))
	for _, f := range slices.Concat(r.Files, r.pages()) {
		for _, w := range words {
			if reaches(w.where, w.except, f.Dir) {
				out = append(out, w.inNames(f)...)
				out = append(out, w.inTexts(f)...)
			}
		}
	}
	return out
}

// pages are the texts beside the code that people read: documents and transcripts, and the names of all files.
func (r *Repo) pages() []*File {
	var out []*File
	for _, p := range r.Texts {
		f := &File{Path: p, Dir: path.Dir(p)}
		stem, _, _ := strings.Cut(path.Base(p), ".")
		f.Names = []Name{{Text: stem}}
		transcript := strings.HasSuffix(p, ".txt") && strings.Contains(p, "/testdata/")
		if transcript || strings.HasSuffix(p, ".md") {
			text, err := fs.ReadFile(r.FS, p)
			if err != nil || p == glossaryFile || strings.HasPrefix(p, "tools/arch/testdata/") {
				continue // gone again, or it has to say the words
			}
			var lines []Text
			for i, line := range strings.Split(string(text), "\n") {
				lines = append(lines, Text{i + 1, line})
			}
			f.Comments = [][]Text{lines}
		}
		out = append(out, f)
	}
	return out
}

func (w *fieldWord) inNames(f *File) []Finding {
	var out []Finding
	for _, id := range slices.Concat(f.Names, f.Locals) {
		have := SplitWords(id.Text)
		for _, phrase := range w.names {
			if hasPhrase(have, phrase) {
				out = append(out, Finding{
					Path: f.Path,
					Line: id.Line,
					Text: fmt.Sprintf("%s says %q; say %s", id.Text, strings.Join(phrase, " "), w.say),
				})
			}
		}
	}
	return out
}

func (w *fieldWord) inTexts(f *File) []Finding {
	if w.phrases == nil {
		return nil
	}
	texts := slices.Clone(f.Comments)
	for _, s := range f.Strings {
		texts = append(texts, []Text{s})
	}
	var out []Finding
	for _, group := range texts {
		joined, starts := "", []int{}
		for _, line := range group {
			starts = append(starts, len(joined))
			joined += strings.TrimSpace(strings.TrimPrefix(line.Text, "//")) + " "
		}
		if w.spare != nil {
			joined = w.spare.ReplaceAllStringFunc(joined, func(s string) string { return strings.Repeat("_", len(s)) })
		}
		for _, at := range w.phrases.FindAllStringIndex(joined, -1) {
			n, exact := slices.BinarySearch(starts, at[0])
			if !exact {
				n--
			}
			out = append(out, Finding{
				Path: f.Path,
				Line: group[n].Line,
				Text: fmt.Sprintf("says %q; say %s", joined[at[0]:at[1]], w.say),
			})
		}
	}
	return out
}

// parseFieldWords reads the table under the heading "Words of the field": say | not, as a name | not, as a phrase |
// ordinary English | where | but not in.
func parseFieldWords(text string) ([]*fieldWord, []Finding) {
	var out []*fieldWord
	for _, row := range table(text, "words of the field") {
		if len(row.cells) != 6 {
			return nil, []Finding{{
				Path: glossaryFile,
				Line: row.line,
				Text: fmt.Sprintf("a row of words of the field has 6 cells, this has %d", len(row.cells)),
			}}
		}
		w := &fieldWord{
			say:     strings.TrimSpace(row.cells[0]),
			phrases: anyOf(row.cells[2]),
			spare:   anyOf(row.cells[3]),
			where:   list(row.cells[4]),
			except:  list(row.cells[5]),
		}
		for _, p := range phrases(row.cells[1]) {
			w.names = append(w.names, strings.Fields(p))
		}
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, []Finding{{Path: glossaryFile, Text: `has no table under a heading "Words of the field"`}}
	}
	return out, nil
}

var quoted = regexp.MustCompile("`([^`]+)`")

func phrases(cell string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

func anyOf(cell string) *regexp.Regexp {
	var out []string
	for _, p := range phrases(cell) {
		out = append(out, regexp.QuoteMeta(p))
	}
	if out == nil {
		return nil
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(out, "|") + `)\b`)
}
