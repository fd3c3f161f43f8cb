package kit

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// How tables fit a terminal, in columns of it.
const (
	leastTerminal = 30 // a narrower one is written to as if it were none: nothing fits it
	leastProse    = 24 // a sentence in a column narrower than this is a list of words
	leastName     = 10 // a name shorter than this is told from others no more
	gap           = "  "
)

// width is that of the terminal which is written to; 0 where nobody looks on, whose lines are never folded.
func (p *Printer) width() int {
	f, ok := terminal(p.w)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil || w < leastTerminal {
		return 0
	}
	return w
}

// fitted are the widths at which a table fits a terminal. Sentences are folded first, then headers, which loses
// nothing; then names are shortened, never what is typed to name the row: the first column, and identifiers. It does
// not fit where even that is too wide.
func fitted(header []string, rows [][]string, terminal int) (widths []int, fits bool) {
	widths = natural(header, rows)
	over := len(gap)*(len(header)-1) - terminal
	for _, w := range widths {
		over += w
	}
	least := make([][3]int, len(header)) // of each column, after each step
	for i, h := range header {
		least[i] = narrowest(h, rows, i)
	}
	for step := range 3 {
		for ; over > 0; over-- {
			widest := -1
			for i, w := range widths {
				if w > least[i][step] && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	return widths, over <= 0
}

// narrowest is how narrow a column may become: when sentences are folded, when the header is, too, and when names are
// shortened at last.
func narrowest(header string, rows [][]string, column int) [3]int {
	keep := column == 0 || typed(header)
	name, text := 0, 0 // the widest cells: those that are one word, and sentences
	for _, row := range rows {
		n := utf8.RuneCountInString(row[column])
		if sentence(row[column]) {
			text = max(text, n)
			continue
		}
		name = max(name, n)
		keep = keep || measured(row[column])
	}
	text = min(text, leastProse)
	least := max(name, text, longestWord(header))
	out := [3]int{max(least, utf8.RuneCountInString(header)), least, least}
	if !keep {
		out[2] = max(min(name, leastName), text, longestWord(header))
	}
	return out
}

// longestWord is the width that a text needs at least when it is folded.
func longestWord(text string) (n int) {
	for word := range strings.SplitSeq(text, " ") {
		n = max(n, utf8.RuneCountInString(word))
	}
	return n
}

// natural are the widths at which nothing is cut.
func natural(header []string, rows [][]string) []int {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = utf8.RuneCountInString(h)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// typed tells the columns whose cells are typed, or copied, to name something.
func typed(header string) bool {
	return strings.HasSuffix(header, " ID") || slices.Contains([]string{"ID", "Key", "Path", "Address"}, header)
}

// measured tells numbers and times, of which a part says something else.
func measured(cell string) bool {
	if _, err := time.Parse(time.RFC3339, cell); err == nil {
		return true
	}
	return strings.Trim(cell, "0123456789.,:%/-+ ") == ""
}

func sentence(cell string) bool {
	return strings.Contains(cell, " ")
}

// shortened leaves out the middle of a name that is too long: the beginnings of names are alike, and their ends differ.
func shortened(name string, width int) string {
	r := []rune(name)
	if len(r) <= width {
		return name
	}
	end := (width - 1) / 2
	return string(r[:width-1-end]) + "…" + string(r[len(r)-end:])
}

// cells are the lines that a cell takes in its column.
func cells(text string, width int) []string {
	if !sentence(text) {
		return []string{shortened(text, width)}
	}
	var lines []string
	for _, line := range folded(text, width, width) {
		r := []rune(line)
		for ; len(r) > width; r = r[width:] {
			lines = append(lines, string(r[:width]))
		}
		lines = append(lines, string(r))
	}
	return lines
}

// folded breaks a text at spaces into lines, the first of at most first columns and the others of at most rest. A word
// that is longer stays whole, so that it can be copied. Escape sequences of styles take no room.
func folded(text string, first, rest int) []string {
	var lines []string
	var line strings.Builder
	width, used := first, 0
	next := func() {
		lines = append(lines, line.String())
		line.Reset()
		width, used = rest, 0
	}
	for i, word := range strings.Split(text, " ") {
		wide := visible(word)
		switch {
		case i == 0:
		case used+1+wide <= width:
			line.WriteByte(' ')
			used++
		default:
			next()
		}
		line.WriteString(word)
		used += wide
	}
	next()
	return lines
}

// visible is how many columns a text takes on a terminal.
func visible(text string) int {
	n, escaped := 0, false
	for _, r := range text {
		switch {
		case escaped:
			escaped = r != 'm'
		case r == '\x1b':
			escaped = true
		default:
			n++
		}
	}
	return n
}

// fold breaks the lines of a text that are longer than the terminal, and indents what follows by what the line begins
// with and two columns more.
func fold(text string, terminal int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, ended := strings.CutSuffix(line, "\n")
		if visible(body) <= terminal || strings.Contains(body, "\r") {
			b.WriteString(line)
			continue
		}
		words := strings.TrimLeft(body, " ")
		lead := body[:len(body)-len(words)]
		if len(lead) > terminal/2 {
			lead = ""
		}
		indent := lead + gap
		lines := folded(words, terminal-len(lead), terminal-len(indent))
		b.WriteString(lead + strings.Join(lines, "\n"+indent))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
