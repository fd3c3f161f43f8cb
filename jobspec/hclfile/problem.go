package hclfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Problem is one thing that is wrong with a document, and where.
type Problem struct {
	File    string
	Line    int    // 1 for the first line; 0 when the place is not known
	Column  int    // in characters, 1 for the first
	Text    string // what is wrong and the way out
	Snippet string // the line concerned, with a mark under it
}

// String is the problem on one line, without the snippet.
func (p Problem) String() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
	case p.File != "":
		return p.File + ": " + p.Text
	default:
		return p.Text
	}
}

// Error is everything that is wrong with a document. It has at least one problem.
type Error struct {
	Problems []Problem
}

// Error lists the problems, one per line, the first with its snippet.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
		if i == 0 && p.Snippet != "" {
			b.WriteByte('\n')
			b.WriteString(p.Snippet)
		}
	}
	return b.String()
}

// Problems returns the problems in an error of this package, or nil.
func Problems(err error) []Problem {
	var e *Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}

// maxProblems bounds what one error lists: the first few are what a person can use.
const maxProblems = 20

// Report gathers problems while a document is read.
type Report struct {
	sources  map[string][]byte
	problems []Problem
	more     int
}

// NewReport makes an empty report.
func NewReport() *Report { return &Report{sources: map[string][]byte{}} }

// Failed reports whether there is a problem.
func (r *Report) Failed() bool { return len(r.problems) > 0 }

// Err is the *Error of all problems, or nil.
func (r *Report) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	out := append([]Problem(nil), r.problems...)
	if r.more > 0 {
		out = append(out, Problem{File: out[0].File, Text: fmt.Sprintf("and %d more problems", r.more)})
	}
	return &Error{Problems: out}
}

// AddSource makes a text known, so that problems can show its lines.
func (r *Report) AddSource(name string, text []byte) { r.sources[name] = text }

// Add notes a problem at a place.
func (r *Report) Add(rng hcl.Range, format string, args ...any) {
	r.put(Problem{
		File:    rng.Filename,
		Line:    rng.Start.Line,
		Column:  rng.Start.Column,
		Text:    fmt.Sprintf(format, args...),
		Snippet: snippet(r.sources[rng.Filename], rng),
	})
}

// AddFile notes a problem that has no place inside the file.
func (r *Report) AddFile(file, format string, args ...any) {
	r.put(Problem{File: file, Text: fmt.Sprintf(format, args...)})
}

func (r *Report) put(p Problem) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, p)
}

// Summaries by which the HCL library names what is retold here: it gives its findings no other name.
const (
	openQuote     = "Invalid multi-line string"
	openTemplate  = "Unterminated template string"
	badExpression = "Invalid expression"
)

// Diags takes over what the HCL library found, the cause first: behind a quote that is not closed everything is read
// as text, or text as everything, and what is found there is no finding.
func (r *Report) Diags(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject != nil && (d.Summary == openQuote || d.Summary == openTemplate) {
			r.Add(*d.Subject, "a quote on this line is not closed; close it before the line ends, or write a text of "+
				"several lines as <<EOF … EOF")
			return
		}
		if word := r.bare(d); word != "" {
			r.Add(*d.Subject, "%s is not a value; put it in quotes if it is a text: %q", word, word)
			continue
		}
		text := lowerFirst(strings.TrimSuffix(d.Summary, "."))
		if d.Detail != "" {
			text += ": " + strings.TrimSuffix(strings.ReplaceAll(strings.TrimSpace(d.Detail), "\n", " "), ".")
		}
		if d.Subject == nil {
			r.put(Problem{Text: text})
			continue
		}
		r.Add(*d.Subject, "%s", text)
	}
}

// bare is the path that stands where a value should, without its quotes; empty: something else is wrong.
func (r *Report) bare(d *hcl.Diagnostic) string {
	if d.Summary != badExpression || d.Subject == nil {
		return ""
	}
	rest := r.sources[d.Subject.Filename]
	rest = rest[min(d.Subject.Start.Byte, len(rest)):]
	if len(rest) == 0 || rest[0] != '/' && rest[0] != '.' && rest[0] != '~' {
		return ""
	}
	if end := bytes.IndexAny(rest, " \t\r\n,]}\"#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ToValidUTF8(string(rest), "?")
}

func lowerFirst(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	if second, _ := utf8.DecodeRuneInString(s[n:]); unicode.IsUpper(second) {
		return s // an abbreviation
	}
	return string(unicode.ToLower(first)) + s[n:]
}

// snippetWidth is how much of a line is shown.
const snippetWidth = 120

func snippet(src []byte, rng hcl.Range) string {
	if len(src) == 0 || rng.Start.Line == 0 {
		return ""
	}
	start := min(max(rng.Start.Byte, 0), len(src))
	from := bytes.LastIndexByte(src[:start], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[start:], '\n'); i >= 0 {
		to = start + i
	}
	line := strings.ToValidUTF8(strings.TrimRight(string(src[from:to]), "\r"), "?")
	before := strings.ToValidUTF8(string(src[from:start]), "?")
	if utf8.RuneCountInString(before) > snippetWidth {
		return ""
	}
	if runes := []rune(line); len(runes) > snippetWidth {
		line = string(runes[:snippetWidth]) + "…"
	}
	pad := strings.Map(func(c rune) rune {
		if c == '\t' {
			return '\t'
		}
		return ' '
	}, before)
	return "  " + line + "\n  " + pad + "^"
}
