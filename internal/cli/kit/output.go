package kit

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// None stands in cells and values that are empty.
const None = "<none>"

// Table writes rows under a header, aligned to the left with two spaces between columns.
func (p *Printer) Table(header []string, rows [][]string) {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = utf8.RuneCountInString(h)
	}
	clean := make([][]string, len(rows))
	for r, row := range rows {
		clean[r] = make([]string, len(header))
		for i := range header {
			cell := ""
			if i < len(row) {
				cell = Clean(row[i])
			}
			if cell == "" {
				cell = None
			}
			clean[r][i] = cell
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	p.Printf("%s\n", p.Bold(aligned(header, widths)))
	for _, row := range clean {
		p.Printf("%s\n", aligned(row, widths))
	}
}

func aligned(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
	}
	return b.String()
}

// List writes a table with a row for each of a list; no row is written for an object that gives none. An empty list is
// "No <what>".
func List[T any](p *Printer, list []T, what string, header []string, row func(T) []string) {
	if len(list) == 0 {
		p.Printf("No %s\n", what)
		return
	}
	rows := make([][]string, 0, len(list))
	for _, one := range list {
		if cells := row(one); cells != nil {
			rows = append(rows, cells)
		}
	}
	p.Table(header, rows)
}

// Part is List under a title; nothing at all is written of an empty list.
func Part[T any](p *Printer, title string, list []T, header []string, row func(T) []string) {
	if len(list) > 0 {
		p.Section(title)
		List(p, list, "", header, row)
	}
}

// Pairs is a list of keys with values.
type Pairs [][2]string

// Add adds a pair.
func (l *Pairs) Add(key, value string) { *l = append(*l, [2]string{key, value}) }

// AddIf adds a pair that has a value.
func (l *Pairs) AddIf(key, value string) {
	if value != "" {
		l.Add(key, value)
	}
}

// Pairs writes keys and values, the values in one column.
func (p *Printer) Pairs(list Pairs) {
	width := 0
	for _, kv := range list {
		width = max(width, utf8.RuneCountInString(kv[0]))
	}
	for _, kv := range list {
		value := Clean(kv[1])
		if value == "" {
			value = None
		}
		p.Printf("%s%s = %s\n", kv[0], strings.Repeat(" ", width-utf8.RuneCountInString(kv[0])), value)
	}
}

// Section begins a part of the output with its title.
func (p *Printer) Section(title string) { p.Printf("\n%s\n", p.Bold(title)) }

// Warn writes the warnings of an agent, one per line.
func (p *Printer) Warn(warnings string) {
	for line := range strings.SplitSeq(warnings, "\n") {
		line = strings.TrimSpace(line)
		item, starred := strings.CutPrefix(line, "* ")
		if line == "" || !starred && (strings.HasSuffix(line, "warning:") || strings.HasSuffix(line, "warnings:")) {
			continue
		}
		p.Notice("Warning: " + Clean(item))
	}
}

// Notice writes what a person should know besides.
func (p *Printer) Notice(text string) { p.Printf("%s\n", p.Yellow(text)) }

// Clean takes out what would steer a terminal or break a line.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.TrimSpace(text))
}
