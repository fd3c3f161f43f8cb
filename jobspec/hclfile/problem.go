package hclfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"berth/jobspec/findings"
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

// Diags takes over what the HCL library found.
func (r *Report) Diags(diags hcl.Diagnostics) {
	for _, f := range findings.Of(r.sources, diags) {
		if f.At == nil {
			r.put(Problem{Text: f.Text})
			continue
		}
		r.Add(*f.At, "%s", f.Text)
	}
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
