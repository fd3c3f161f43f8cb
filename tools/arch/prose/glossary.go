package prose

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
)

const glossaryFile = "docs/GLOSSARY.md"

// ban is a row of the glossary's table of banned words.
type ban struct {
	phrase  []string // words in a row
	where   []string // folder patterns
	except  []string // folder patterns
	beside  []string // words that make the phrase legal in the same identifier
	instead string
}

// Glossary refuses exported identifiers with a word that the glossary bans there.
func Glossary(r *Repo) []Finding {
	text, err := fs.ReadFile(r.FS, glossaryFile)
	if err != nil {
		return []Finding{{Path: glossaryFile, Text: err.Error()}}
	}
	bans, out := parseBans(string(text))
	for _, f := range r.Files {
		if f.Test {
			continue
		}
		for _, b := range bans {
			if !reaches(b.where, b.except, f.Dir) {
				continue
			}
			for _, id := range f.Names {
				words := SplitWords(id.Text)
				legal := slices.ContainsFunc(b.beside, func(w string) bool { return slices.Contains(words, w) })
				if id.Exported && hasPhrase(words, b.phrase) && !legal {
					out = append(out, Finding{
						Path: f.Path,
						Line: id.Line,
						Text: fmt.Sprintf("%s says %q; say %s", id.Text, strings.Join(b.phrase, " "), b.instead),
					})
				}
			}
		}
	}
	return out
}

func reaches(where, except []string, dir string) bool {
	under := func(p string) bool { return Under(p, dir) }
	return slices.ContainsFunc(where, under) && !slices.ContainsFunc(except, under)
}

// parseBans reads the table under the heading "Banned words": word | where | but not in | unless beside | say instead.
func parseBans(text string) ([]ban, []Finding) {
	var out []ban
	for _, row := range table(text, "banned words") {
		if len(row.cells) != 5 {
			return nil, []Finding{{
				Path: glossaryFile,
				Line: row.line,
				Text: fmt.Sprintf("a row of banned words has 5 cells, this has %d", len(row.cells)),
			}}
		}
		out = append(out, ban{
			phrase:  list(row.cells[0]),
			where:   list(row.cells[1]),
			except:  list(row.cells[2]),
			beside:  list(row.cells[3]),
			instead: strings.TrimSpace(row.cells[4]),
		})
	}
	if len(out) == 0 {
		return nil, []Finding{{Path: glossaryFile, Text: `has no table under a heading "Banned words"`}}
	}
	return out, nil
}

// row is one row of a table.
type row struct {
	line  int
	cells []string
}

// table reads the rows of the table under a heading.
func table(text, heading string) []row {
	var out []row
	inside, rows := false, 0
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			inside = strings.Contains(strings.ToLower(line), heading)
			continue
		}
		if !inside || !strings.HasPrefix(line, "|") {
			continue
		}
		if rows++; rows <= 2 {
			continue // head and rule of the table
		}
		out = append(out, row{i + 1, strings.Split(strings.Trim(line, "|"), "|")})
	}
	return out
}

func list(cell string) []string {
	return strings.Fields(strings.NewReplacer("`", "", ",", " ", "–", " ").Replace(cell))
}

// SplitWords splits an identifier: "NodeStageVolume" is node, stage, volume; "CSIPluginID" is csi, plugin, id.
func SplitWords(name string) []string {
	var out []string
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		end := i == len(runes)
		if !end {
			lowUp := unicode.IsLower(runes[i-1]) && unicode.IsUpper(runes[i])
			acronym := unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) && i+1 < len(runes) &&
				unicode.IsLower(runes[i+1])
			end = lowUp || acronym || runes[i] == '_'
		}
		if end {
			if w := strings.ToLower(strings.Trim(string(runes[start:i]), "_")); w != "" {
				out = append(out, w)
			}
			start = i
		}
	}
	return out
}

func hasPhrase(words, phrase []string) bool {
	for i := 0; i+len(phrase) <= len(words); i++ {
		if slices.Equal(words[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return false
}
