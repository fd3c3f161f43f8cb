package hclfile

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The bounds of a document. Real files stay far below all of them but the first.
const (
	// MaxSource is the default bound of a document's size in bytes.
	MaxSource = 1 << 20
	maxDepth  = 64    // nested blocks, brackets and templates
	maxBlocks = 10000 // blocks after the expansion of dynamic ones
	maxOps    = 10000 // operators in a document: each may deepen an expression by one
	maxIndex  = 20000 // opening brackets in a document
)

// Source is a parsed file.
type Source struct {
	Path  string
	Bytes []byte
	Body  *hclsyntax.Body
	keys  map[int]string // real names of attributes that were quoted, by the byte at which they start
}

// QuotedNames asks for older writings to be understood: argument names in quotes, and maps as blocks on one line. Its
// keys are the names of the maps. Nil asks for none of it.
type QuotedNames map[string]bool

// Open parses HCL within the bounds.
func Open(r *Report, path string, src []byte, limit int, quoted QuotedNames) *Source {
	if limit <= 0 {
		limit = MaxSource
	}
	if len(src) > limit {
		r.AddFile(path,
			"the document has %d bytes, more than the %d that are allowed; move large data into files or templates",
			len(src), limit)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	r.sources[path] = src
	if i := bytes.IndexByte(src, 0); i >= 0 {
		r.AddFile(path, "the document is no text: byte %d of it is 0; name another file", i+1)
		return nil
	}
	tokens, _ := hclsyntax.LexConfig(src, path, hcl.InitialPos) // the parser reports what the lexer finds
	if !CheckBounds(r, tokens) {
		return nil
	}
	doc := &Source{Path: path, Bytes: src, keys: map[int]string{}}
	parsed := src
	if quoted != nil {
		parsed = doc.unquoteNames(tokens, quoted)
	}
	file, diags := hclsyntax.ParseConfig(parsed, path, hcl.InitialPos)
	r.Diags(diags)
	if diags.HasErrors() {
		return nil
	}
	doc.Body = file.Body.(*hclsyntax.Body)
	return doc
}

// CheckBounds refuses what would make the parser or the evaluator recurse too deeply.
func CheckBounds(r *Report, tokens hclsyntax.Tokens) bool {
	var depth, ops, index int
	for _, t := range tokens {
		switch {
		case t.Type == hclsyntax.TokenOBrack:
			index++
			depth++
		case slices.Contains(opening, t.Type):
			depth++
		case slices.Contains(closing, t.Type):
			depth--
		case slices.Contains(operators, t.Type):
			ops++
		}
		switch {
		case depth > maxDepth:
			r.Add(t.Range, "the document is nested more than %d levels deep; flatten it", maxDepth)
		case ops > maxOps:
			r.Add(t.Range, "the document has more than %d operators; "+outside, maxOps)
		case index > maxIndex:
			r.Add(t.Range, "the document has more than %d brackets; "+outside, maxIndex)
		default:
			continue
		}
		return false
	}
	return true
}

const outside = "compute values elsewhere and pass them as variables"

// What nests, and what computes.
var (
	opening = []hclsyntax.TokenType{
		hclsyntax.TokenOBrace,
		hclsyntax.TokenOParen,
		hclsyntax.TokenTemplateInterp,
		hclsyntax.TokenTemplateControl,
		hclsyntax.TokenOQuote,
		hclsyntax.TokenOHeredoc,
	}
	closing = []hclsyntax.TokenType{
		hclsyntax.TokenCBrace,
		hclsyntax.TokenCParen,
		hclsyntax.TokenCBrack,
		hclsyntax.TokenTemplateSeqEnd,
		hclsyntax.TokenCQuote,
		hclsyntax.TokenCHeredoc,
	}
	operators = []hclsyntax.TokenType{
		hclsyntax.TokenBang,
		hclsyntax.TokenMinus,
		hclsyntax.TokenPlus,
		hclsyntax.TokenStar,
		hclsyntax.TokenSlash,
		hclsyntax.TokenPercent,
		hclsyntax.TokenAnd,
		hclsyntax.TokenOr,
		hclsyntax.TokenQuestion,
		hclsyntax.TokenEqualOp,
		hclsyntax.TokenNotEqual,
		hclsyntax.TokenLessThan,
		hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan,
		hclsyntax.TokenGreaterThanEq,
	}
)

// unquoteNames rewrites `"name" = …` and `"name" { … }` in bodies to the unquoted form, byte for byte at the same
// place. A name that is no identifier gets a stand-in of the same length, remembered in d.keys.
func (d *Source) unquoteNames(tokens hclsyntax.Tokens, maps QuotedNames) []byte {
	out := bytes.Clone(d.Bytes)
	bodies := []bool{true} // for each open brace: is it a body (not an object)?
	itemStart, next := true, 0
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		inBody := bodies[len(bodies)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace:
			body := inBody && opensBody(tokens, i)
			if body && inlineMap(tokens, i, maps) {
				out[t.Range.Start.Byte-1] = '='
				body = false
			}
			bodies = append(bodies, body)
			itemStart = true
			continue
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl:
			bodies = append(bodies, false)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			if len(bodies) > 1 {
				bodies = bodies[:len(bodies)-1]
			}
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			itemStart = true
			continue
		case hclsyntax.TokenOQuote:
			if inBody && itemStart && quotedName(tokens, i) {
				d.standIn(out, t.Range.Start.Byte, tokens[i+2].Range.End.Byte, string(tokens[i+1].Bytes), &next)
				i += 2
			}
		}
		itemStart = false
	}
	return out
}

// opensBody tells a block's brace from an object's: what precedes is a name or a label, not an equals sign.
func opensBody(tokens hclsyntax.Tokens, brace int) bool {
	if brace == 0 {
		return false
	}
	prev := tokens[brace-1].Type
	return prev == hclsyntax.TokenIdent || prev == hclsyntax.TokenCQuote
}

// inlineMap reports whether the brace at i opens a map that was written as a block on one line: `name { a = 1, b = 2
// }`. With an equals sign in the place of the space before the brace it is an attribute.
func inlineMap(tokens hclsyntax.Tokens, i int, maps QuotedNames) bool {
	prev, name := tokens[i-1], ""
	switch {
	case prev.Type == hclsyntax.TokenIdent:
		name = string(prev.Bytes)
	case i >= 3 && tokens[i-2].Type == hclsyntax.TokenQuotedLit:
		name = string(tokens[i-2].Bytes)
	}
	if !maps[name] || tokens[i].Range.Start.Byte == prev.Range.End.Byte {
		return false
	}
	depth := 0
	for _, t := range tokens[i:] {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			depth++
		case hclsyntax.TokenCBrace:
			depth--
		case hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenEOF:
			return false
		}
		if depth == 0 {
			return true
		}
	}
	return false
}

// quotedName reports whether the token at i opens a plain quoted name that an equals sign, a colon or a block follows.
func quotedName(tokens hclsyntax.Tokens, i int) bool {
	if i+3 >= len(tokens) || tokens[i+1].Type != hclsyntax.TokenQuotedLit || tokens[i+2].Type != hclsyntax.TokenCQuote {
		return false
	}
	switch tokens[i+3].Type {
	case hclsyntax.TokenEqual, hclsyntax.TokenOBrace, hclsyntax.TokenOQuote:
		return true
	}
	return false
}

// standIn puts an identifier in the place of the quoted name in out[from:to].
func (d *Source) standIn(out []byte, from, to int, name string, next *int) {
	if hclsyntax.ValidIdentifier(name) {
		copy(out[from:to], " "+name+" ")
		return
	}
	for ; ; *next++ {
		id := fmt.Sprintf("q%x", *next)
		if len(id) > to-from {
			return // too short for a stand-in: the parser will name it
		}
		id += string(bytes.Repeat([]byte{'_'}, to-from-len(id)))
		if !bytes.Contains(d.Bytes, []byte(id)) {
			copy(out[from:to], id)
			d.keys[from] = name
			*next++
			return
		}
	}
}

// AttrName is the name of an attribute as its author wrote it.
func (d *Source) AttrName(a *hclsyntax.Attribute) string {
	if name, ok := d.keys[a.NameRange.Start.Byte]; ok {
		return name
	}
	return a.Name
}
