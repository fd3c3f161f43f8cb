package kit

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// None stands in cells and values that are empty.
const None = "<none>"

// Table writes rows under a header, aligned to the left with two spaces between columns. On a terminal that is too
// narrow, sentences are folded within their columns and names are shortened; where even that does not fit, each row is
// written as a list of keys with values.
func (p *Printer) Table(header []string, rows [][]string) {
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
		}
	}
	widths := natural(header, clean)
	if terminal := p.width(); terminal > 0 {
		var fits bool
		if widths, fits = fitted(header, clean, terminal); !fits {
			p.records(header, clean)
			return
		}
	}
	p.row(header, widths, p.Bold)
	for _, row := range clean {
		p.row(row, widths, plainly)
	}
}

// row writes a row, which takes as many lines as its longest cell does.
func (p *Printer) row(row []string, widths []int, style func(string) string) {
	lines, high := make([][]string, len(row)), 0
	for i, cell := range row {
		lines[i] = cells(cell, widths[i])
		high = max(high, len(lines[i]))
	}
	for n := range high {
		line := make([]string, len(row))
		for i := range row {
			if n < len(lines[i]) {
				line[i] = lines[i][n]
			}
		}
		text := aligned(line, widths)
		if n > 0 {
			text = strings.TrimRight(text, " ")
		}
		p.Text(style(text) + "\n")
	}
}

func plainly(text string) string { return text }

// records writes each row of a table as a list, with an empty line between them.
func (p *Printer) records(header []string, rows [][]string) {
	for n, row := range rows {
		if n > 0 {
			p.Text("\n")
		}
		list := make(Pairs, len(header))
		for i, h := range header {
			list[i] = [2]string{h, row[i]}
		}
		p.Pairs(list)
	}
}

func aligned(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString(gap)
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

// Pairs writes keys and values, the values in one column, within which they are folded on a terminal.
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
		key := kv[0] + strings.Repeat(" ", width-utf8.RuneCountInString(kv[0])) + " = "
		indent := utf8.RuneCountInString(key)
		rest := p.width() - indent
		switch {
		case rest+indent <= 0 || utf8.RuneCountInString(value) <= rest:
			p.Text(key + value + "\n")
		case rest >= leastProse:
			p.Text(key + strings.Join(folded(value, rest, rest), "\n"+strings.Repeat(" ", indent)) + "\n")
		default:
			p.Printf("%s%s\n", key, value)
		}
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
