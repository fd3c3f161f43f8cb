// Package reference owns how pages for users are held to what the program knows: a page names in its tables exactly
// what there is, and a test beside each list of the program compares the two.
package reference

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Page is a page for users.
type Page struct {
	t        testing.TB
	name     string
	sections []*Section
}

// Section is what stands under a heading, without what stands under the next one.
type Section struct {
	Head string
	Text string     // its lines that are in no table
	Rows [][]string // the cells of its tables, without their first lines
}

// Open reads a page of the folder docs: "reference/jobspec.md".
func Open(t testing.TB, name string) *Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{t: t, name: name}
	at := &Section{}
	inTable := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			at = &Section{Head: strings.TrimSpace(strings.TrimLeft(line, "#"))}
			p.sections = append(p.sections, at)
		case !strings.HasPrefix(line, "|"):
			inTable = false
			at.Text += line + "\n"
		case !inTable: // the names of the columns
			inTable = true
		case strings.Trim(line, "|-: ") == "":
		default:
			at.Rows = append(at.Rows, cells(line))
		}
	}
	return p
}

// root is the folder of the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "docs", "reference")); err == nil {
			return dir
		}
	}
	t.Fatal("no folder docs/reference is above the test")
	return ""
}

// cells splits a row of a table; "\|" stands for a bar.
func cells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, bar)
	out := strings.Split(line, "|")
	for i, c := range out {
		out[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}
	return out
}

// Sections are those under headings, in order.
func (p *Page) Sections() []*Section { return p.sections }

// Section is the one under a heading.
func (p *Page) Section(head string) *Section {
	p.t.Helper()
	i := slices.IndexFunc(p.sections, func(s *Section) bool { return s.Head == head })
	if i < 0 {
		p.t.Fatalf("%s has no section %q", p.name, head)
	}
	return p.sections[i]
}

// Lists are the paragraphs that consist of words in the marks of code, each a list.
func (s *Section) Lists() (out [][]string) {
	for paragraph := range strings.SplitSeq(s.Text, "\n\n") {
		var words []string
		for i, part := range strings.Split(paragraph, "`") {
			if i%2 == 1 {
				words = append(words, part)
			} else if strings.TrimSpace(part) != "" {
				words = nil
				break
			}
		}
		if len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// Rows are those of all sections.
func (p *Page) Rows() (out [][]string) {
	for _, s := range p.sections {
		out = append(out, s.Rows...)
	}
	return out
}

// Column is one of the columns of rows, without the marks of code.
func Column(rows [][]string, i int) []string {
	var out []string
	for _, r := range rows {
		if i < len(r) {
			out = append(out, Plain(r[i]))
		}
	}
	return out
}

// Plain is a cell without the marks of code.
func Plain(cell string) string { return strings.ReplaceAll(cell, "`", "") }

// Same compares what a page says of something with what there is: each thing once, none more and none less.
func (p *Page) Same(what string, said, there []string) {
	p.t.Helper()
	counts := map[string]int{}
	for _, s := range said {
		if counts[s]++; counts[s] == 2 {
			p.t.Errorf("%s names %s twice: %q", p.name, what, s)
		}
		if !slices.Contains(there, s) {
			p.t.Errorf("%s names %s that there is not: %q", p.name, what, s)
		}
	}
	for _, s := range there {
		if counts[s] == 0 {
			p.t.Errorf("%s does not name %s: %q", p.name, what, s)
		}
	}
}
