// Package findings owns in which words people read what the HCL library finds wrong with a document: the cause first,
// and the way out. Package hclfile imports it.
package findings

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth/jobspec/near"
)

// Finding is one thing that is wrong with a document. Without a place it is of the whole.
type Finding struct {
	At   *hcl.Range
	Text string
}

// reader gathers the findings of documents whose texts it knows by their names.
type reader struct {
	sources map[string][]byte
	found   []Finding
}

// Of takes over what the HCL library found, the cause first: behind a quote that is not closed everything is read as
// text, or text as everything, and what is found there is no finding; nor is what stands around characters that the
// language does not have. sources are the documents by their names.
func Of(sources map[string][]byte, diags hcl.Diagnostics) []Finding {
	r := &reader{sources: sources}
	r.read(diags)
	return r.found
}

func (r *reader) add(at hcl.Range, format string, args ...any) {
	r.found = append(r.found, Finding{At: &at, Text: fmt.Sprintf(format, args...)})
}

// Summaries by which the HCL library names what is retold here: it gives its findings no other name.
const (
	openQuote     = "Invalid multi-line string"
	openTemplate  = "Unterminated template string"
	badCharacter  = "Invalid character"
	badExpression = "Invalid expression"
	badType       = "Invalid type specification"
	noDefinition  = "Argument or block definition required"
)

// wayOut are findings that the library names without a way out.
var wayOut = map[string]string{
	"Unclosed configuration block": "this block is not closed; write } where it ends, and look whether each { behind " +
		"it has its own",
	"Missing item separator": "a comma is missing before this, or the bracket that ends the list or the map",
	"Invalid single-argument block definition": "a block on one line has one argument and its }; put each on a line " +
		"of its own",
	"Argument definition required": "a block on one line has one argument and no other block; put each on a line of " +
		"its own",
}

func (r *reader) read(diags hcl.Diagnostics) {
	strange := slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool { return d.Summary == badCharacter })
	last := 0 // line of a strange character
	for _, d := range diags {
		switch {
		case d.Severity != hcl.DiagError:
		case d.Subject != nil && (d.Summary == openQuote || d.Summary == openTemplate):
			r.open(*d.Subject)
			return
		case strange && (d.Summary != badCharacter || d.Subject == nil || d.Subject.Start.Line == last):
		default:
			if d.Subject != nil && strange {
				last = d.Subject.Start.Line
			}
			r.retell(d)
		}
	}
}

func (r *reader) retell(d *hcl.Diagnostic) {
	text := lowerFirst(strings.TrimSuffix(d.Summary, "."))
	if d.Detail != "" {
		text += ": " + strings.TrimSuffix(strings.ReplaceAll(strings.TrimSpace(d.Detail), "\n", " "), ".")
	}
	if d.Subject == nil {
		r.found = append(r.found, Finding{Text: text})
		return
	}
	at := r.sources[d.Subject.Filename]
	at = at[min(d.Subject.Start.Byte, len(at)):]
	call, unknownCall := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
	switch word := bare(d.Summary, at); {
	case word != "":
		text = fmt.Sprintf("%s is not a value; put it in quotes if it is a text: %q", word, word)
	case unknownCall:
		name := call.CalledFunctionNamespace() + call.CalledFunctionName()
		text = fmt.Sprintf("there is no function %q%s", name, near.DidYouMean(name, functionsOf(d.EvalContext)))
	case d.Summary == badType:
		text += "; there are string, number, bool, any, list(…), set(…), map(…), object({…}) and tuple([…])"
	case d.Summary == noDefinition && bytes.HasPrefix(at, []byte("}")):
		text = "there is nothing open that this } could close; take it out, or look which { is missing before it"
	case d.Summary == noDefinition && colon().Match(at):
		text = fmt.Sprintf("an argument is set with an equals sign; write %s = …", colon().FindSubmatch(at)[1])
	case wayOut[d.Summary] != "":
		text = wayOut[d.Summary]
	}
	r.add(*d.Subject, "%s", text)
}

// colon finds an argument that is written as elsewhere: name: value.
var colon = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:`)
})

func functionsOf(e *hcl.EvalContext) []string {
	var out []string
	for ; e != nil; e = e.Parent() {
		out = slices.AppendSeq(out, maps.Keys(e.Functions))
	}
	return out
}

// open says what is not closed where the library came to the end of a line or of the document inside a text: the text
// of several lines that began last, a reference, or a quote.
func (r *reader) open(at hcl.Range) {
	src := r.sources[at.Filename]
	for _, m := range slices.Backward(heredoc().FindAllSubmatchIndex(src, -1)) {
		mark := string(src[m[2]:m[3]])
		if closes(src[m[1]:], mark) {
			continue
		}
		r.add(within(at.Filename, src, m[0]), "the text of several lines that begins here is not closed; write %s "+
			"alone on a line behind its last one", mark)
		return
	}
	from := bytes.LastIndexByte(src[:min(at.Start.Byte, len(src))], '\n') + 1
	line, _, _ := bytes.Cut(src[from:], []byte("\n"))
	if i := bytes.LastIndex(line, []byte("${")); i >= 0 {
		inside, _, ended := bytes.Cut(line[i:], []byte("}"))
		if !ended || bytes.Count(inside, []byte(`"`))%2 == 1 {
			r.add(within(at.Filename, src, from+i),
				"a ${ is not closed on this line; write ${ … }, or $${ for the text itself")
			return
		}
	}
	r.add(at, "a quote on this line is not closed; close it before the line ends, or write a text of several lines as "+
		"<<EOF … EOF")
}

var heredoc = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`<<-?([A-Za-z_][A-Za-z0-9_-]*)\r?\n`)
})

// closes reports whether a line has nothing but the mark.
func closes(rest []byte, mark string) bool {
	for line := range bytes.Lines(rest) {
		if string(bytes.TrimSpace(line)) == mark {
			return true
		}
	}
	return false
}

// within is the place of a byte.
func within(file string, src []byte, at int) hcl.Range {
	from := bytes.LastIndexByte(src[:at], '\n') + 1
	line, column := 1+bytes.Count(src[:at], []byte("\n")), 1+len([]rune(string(src[from:at])))
	pos := hcl.Pos{Line: line, Column: column, Byte: at}
	return hcl.Range{Filename: file, Start: pos, End: pos}
}

// bare is the path that stands where a value should, without its quotes; empty: something else is wrong.
func bare(summary string, rest []byte) string {
	if summary != badExpression || len(rest) == 0 || rest[0] != '/' && rest[0] != '.' && rest[0] != '~' {
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
