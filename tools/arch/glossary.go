package arch

import (
	"fmt"
	"go/ast"
	"io/fs"
	"slices"
	"strings"
	"unicode"
)

const glossaryFile = "docs/GLOSSARY.md"

// ban is a row of the glossary's table of banned words.
type ban struct {
	line    int
	phrase  []string // words in a row
	where   []string // folder patterns
	except  []string // folder patterns
	beside  []string // words that make the phrase legal in the same identifier
	instead string
}

func checkGlossary(t *Tree) []Finding {
	text, err := fs.ReadFile(t.FS, glossaryFile)
	if err != nil {
		return []Finding{{Path: glossaryFile, Text: err.Error()}}
	}
	bans, out := parseBans(string(text))
	t.eachCode(func(f *File) {
		if f.Generated {
			return
		}
		for _, b := range bans {
			if !matchesAny(b.where, f.Pkg.Dir) || matchesAny(b.except, f.Pkg.Dir) {
				continue
			}
			for _, id := range exported(f) {
				words := splitWords(id.Name)
				if hasPhrase(words, b.phrase) && !slices.ContainsFunc(b.beside, func(w string) bool { return slices.Contains(words, w) }) {
					out = append(out, t.at(f, id, "%s says %q; say %s", id.Name, strings.Join(b.phrase, " "), b.instead))
				}
			}
		}
	})
	return out
}

// parseBans reads the table under the heading "Banned words": word | where | but not in | unless beside | say instead.
func parseBans(text string) ([]ban, []Finding) {
	var out []ban
	inside, rows := false, 0
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			inside = strings.Contains(strings.ToLower(line), "banned words")
			continue
		}
		if !inside || !strings.HasPrefix(line, "|") {
			continue
		}
		if rows++; rows <= 2 {
			continue // head and rule of the table
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 5 {
			return nil, []Finding{{Path: glossaryFile, Line: i + 1, Text: fmt.Sprintf("a row of banned words has 5 cells, this has %d", len(cells))}}
		}
		out = append(out, ban{line: i + 1, phrase: list(cells[0]), where: list(cells[1]), except: list(cells[2]), beside: list(cells[3]), instead: strings.TrimSpace(cells[4])})
	}
	if len(out) == 0 {
		return nil, []Finding{{Path: glossaryFile, Text: `has no table under a heading "Banned words"`}}
	}
	return out, nil
}

func list(cell string) []string {
	return strings.Fields(strings.NewReplacer("`", "", ",", " ", "–", " ").Replace(cell))
}

// exported lists the identifiers that a file exports: types, functions, methods, fields, constants and variables.
func exported(f *File) []*ast.Ident {
	var out []*ast.Ident
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				out = append(out, id)
			}
		}
	}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					add(s.Names...)
				case *ast.TypeSpec:
					add(s.Name)
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							add(field.Names...)
						}
						_, isFunc := n.(*ast.FuncType)
						return !isFunc
					})
				}
			}
		}
	}
	return out
}

// splitWords splits an identifier: "NodeStageVolume" is node, stage, volume; "CSIPluginID" is csi, plugin, id.
func splitWords(name string) []string {
	var out []string
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		end := i == len(runes)
		if !end {
			lowUp := unicode.IsLower(runes[i-1]) && unicode.IsUpper(runes[i])
			acronym := unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
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
