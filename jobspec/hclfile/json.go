package hclfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// jsonNode is a JSON value and its place.
type jsonNode struct {
	rng     hcl.Range
	scalar  cty.Value // when it is neither an object nor a list
	members []jsonMember
	list    []*jsonNode
	object  bool
}

// jsonMember is a member of an object.
type jsonMember struct {
	name  string
	rng   hcl.Range
	value *jsonNode
}

// IsJSON tells JSON from HCL by the first letter that is not blank.
func IsJSON(src []byte) bool {
	src = bytes.TrimSpace(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")))
	return len(src) > 0 && src[0] == '{'
}

// OpenJSON parses JSON into the same form as HCL, guided by the struct type that it is meant for: members of block
// fields become blocks, everything else attributes. Texts are plain.
func OpenJSON(r *Report, path string, src []byte, limit int, t reflect.Type) *Source {
	return openJSON(r, path, src, limit, t, false)
}

// OpenTemplates parses JSON as OpenJSON does, but texts are templates, as HCL's JSON syntax has it.
func OpenTemplates(r *Report, path string, src []byte, limit int, t reflect.Type) *Source {
	return openJSON(r, path, src, limit, t, true)
}

func openJSON(r *Report, path string, src []byte, limit int, t reflect.Type, templates bool) *Source {
	if limit <= 0 {
		limit = MaxSource
	}
	if len(src) > limit {
		r.AddFile(path, "the document has %d bytes, more than the %d that are allowed", len(src), limit)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	r.sources[path] = src
	p := &jsonParser{
		report:    r,
		path:      path,
		src:       src,
		dec:       json.NewDecoder(bytes.NewReader(src)),
		templates: templates,
	}
	p.dec.UseNumber()
	root := p.Value(0)
	if root != nil {
		if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
			p.fail("there is more text after the JSON document")
		}
	}
	if r.Failed() {
		return nil
	}
	if !root.object {
		r.Add(root.rng, "the document must be a JSON object")
		return nil
	}
	doc := &Source{Path: path, Bytes: src, keys: map[int]string{}}
	doc.Body = p.body(root, t)
	if r.Failed() {
		return nil
	}
	return doc
}

type jsonParser struct {
	report *Report
	path   string
	src    []byte
	dec    *json.Decoder

	templates bool // texts are
}

func (p *jsonParser) at(from, to int) hcl.Range {
	line := 1 + bytes.Count(p.src[:from], []byte("\n"))
	lineStart := bytes.LastIndexByte(p.src[:from], '\n') + 1
	start := hcl.Pos{Line: line, Column: 1 + utf8.RuneCount(p.src[lineStart:from]), Byte: from}
	return hcl.Range{
		Filename: p.path,
		Start:    start,
		End:      hcl.Pos{Line: line, Column: start.Column + to - from, Byte: to},
	}
}

func (p *jsonParser) fail(format string, args ...any) {
	at := min(int(p.dec.InputOffset()), len(p.src))
	p.report.Add(p.at(at, at), format, args...)
}

// token reads one token with its place.
func (p *jsonParser) token() (json.Token, hcl.Range, bool) {
	from := int(p.dec.InputOffset())
	for from < len(p.src) && bytes.IndexByte([]byte(" \t\r\n,:"), p.src[from]) >= 0 {
		from++
	}
	tok, err := p.dec.Token()
	if err == nil {
		return tok, p.at(from, int(p.dec.InputOffset())), true
	}
	var syn *json.SyntaxError
	switch {
	case errors.As(err, &syn):
		at := min(int(syn.Offset), len(p.src))
		p.report.Add(p.at(at, at), "not valid JSON: %s", err)
	default:
		p.fail("the JSON document ends in the middle")
	}
	return nil, hcl.Range{}, false
}

func (p *jsonParser) Value(depth int) *jsonNode {
	tok, rng, ok := p.token()
	if !ok {
		return nil
	}
	if depth > maxDepth {
		p.report.Add(rng, "the document is nested more than %d levels deep; flatten it", maxDepth)
		return nil
	}
	n := &jsonNode{rng: rng}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			return p.listValue(n, depth)
		}
		return p.objectValue(n, depth)
	case string:
		n.scalar = cty.StringVal(t)
	case bool:
		n.scalar = cty.BoolVal(t)
	case json.Number:
		f, _, err := big.ParseFloat(t.String(), 10, 512, big.ToNearestEven)
		if err != nil {
			p.report.Add(rng, "the number %s cannot be read", shorten(t.String()))
			return nil
		}
		n.scalar = cty.NumberVal(f)
	default:
		n.scalar = cty.NullVal(cty.DynamicPseudoType)
	}
	return n
}

func (p *jsonParser) listValue(n *jsonNode, depth int) *jsonNode {
	n.list = []*jsonNode{}
	for p.dec.More() {
		v := p.Value(depth + 1)
		if v == nil {
			return nil
		}
		n.list = append(n.list, v)
	}
	_, _, ok := p.token()
	if !ok {
		return nil
	}
	return n
}

func (p *jsonParser) objectValue(n *jsonNode, depth int) *jsonNode {
	n.object = true
	seen := map[string]bool{}
	for p.dec.More() {
		tok, rng, ok := p.token()
		if !ok {
			return nil
		}
		name := tok.(string)
		if seen[name] {
			p.report.Add(rng, "the member %q is there twice", name)
			return nil
		}
		seen[name] = true
		v := p.Value(depth + 1)
		if v == nil {
			return nil
		}
		n.members = append(n.members, jsonMember{name: name, rng: rng, value: v})
	}
	_, _, ok := p.token()
	if !ok {
		return nil
	}
	return n
}

// toValue is the node as one value.
func (n *jsonNode) toValue() cty.Value {
	switch {
	case n.object:
		vals := make(map[string]cty.Value, len(n.members))
		for _, m := range n.members {
			vals[m.name] = m.value.toValue()
		}
		return cty.ObjectVal(vals)
	case n.list != nil:
		vals := make([]cty.Value, len(n.list))
		for i, e := range n.list {
			vals[i] = e.toValue()
		}
		return cty.TupleVal(vals)
	}
	return n.scalar
}

// expr is the node as an expression.
func (p *jsonParser) expr(n *jsonNode) hclsyntax.Expression {
	switch {
	case !p.templates:
		return &hclsyntax.LiteralValueExpr{Val: n.toValue(), SrcRange: n.rng}
	case n.object:
		e := &hclsyntax.ObjectConsExpr{SrcRange: n.rng, OpenRange: n.rng}
		for _, m := range n.members {
			e.Items = append(e.Items, hclsyntax.ObjectConsItem{
				KeyExpr:   &hclsyntax.LiteralValueExpr{Val: cty.StringVal(m.name), SrcRange: m.rng},
				ValueExpr: p.expr(m.value),
			})
		}
		return e
	case n.list != nil:
		e := &hclsyntax.TupleConsExpr{SrcRange: n.rng, OpenRange: n.rng}
		for _, v := range n.list {
			e.Exprs = append(e.Exprs, p.expr(v))
		}
		return e
	case !n.scalar.IsNull() && n.scalar.Type() == cty.String:
		return p.template(n)
	}
	return &hclsyntax.LiteralValueExpr{Val: n.scalar, SrcRange: n.rng}
}

// template parses a text as HCL's JSON syntax has it. Its places are those of the file, unless an escape has moved
// them.
func (p *jsonParser) template(n *jsonNode) hclsyntax.Expression {
	text := []byte(n.scalar.AsString())
	at, file := n.rng.Start, p.path
	at.Byte, at.Column = at.Byte+1, at.Column+1 // behind the quote
	if !bytes.HasPrefix(p.src[at.Byte:], append(text, '"')) {
		file = fmt.Sprintf("%s:%d:%d", p.path, at.Line, at.Column)
		at = hcl.InitialPos
		p.report.AddSource(file, text)
	}
	tokens, _ := hclsyntax.LexTemplate(text, file, at) // the parser reports what the lexer finds
	if !CheckBounds(p.report, tokens) {
		return &hclsyntax.LiteralValueExpr{Val: n.scalar, SrcRange: n.rng}
	}
	e, diags := hclsyntax.ParseTemplate(text, file, at)
	p.report.Diags(diags)
	return e
}

// body makes an HCL body of an object.
func (p *jsonParser) body(n *jsonNode, t reflect.Type) *hclsyntax.Body {
	b := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: n.rng}
	s := SchemaOf(t)
	for _, m := range n.members {
		f := s.Fields[m.name]
		if f == nil || f.Kind != KindBlock || (!m.value.object && m.value.list == nil) {
			b.Attributes[m.name] = &hclsyntax.Attribute{Name: m.name, NameRange: m.rng, SrcRange: m.rng,
				Expr: p.expr(m.value)}
			continue
		}
		elem := f.Type
		for elem.Kind() != reflect.Struct {
			elem = elem.Elem()
		}
		labels := 0
		for _, l := range SchemaOf(elem).Labels {
			if l.Kind == KindLabel {
				labels++
			}
		}
		p.addBlocks(b, m, m.value, elem, nil, labels)
	}
	return b
}

// addBlocks makes blocks of an object, of a list of them, or of objects keyed by label.
func (p *jsonParser) addBlocks(
	b *hclsyntax.Body, m jsonMember, v *jsonNode, elem reflect.Type, labels []jsonMember, more int,
) {
	switch {
	case v.list != nil:
		for _, e := range v.list {
			p.addBlocks(b, m, e, elem, labels, more)
		}
	case !v.object:
		p.report.Add(v.rng, "%s must be an object or a list of objects", m.name)
	case more > 0:
		for _, inner := range v.members {
			p.addBlocks(b, m, inner.value, elem, append(labels[:len(labels):len(labels)], inner), more-1)
		}
	default:
		blk := &hclsyntax.Block{Type: m.name, TypeRange: m.rng, OpenBraceRange: v.rng, Body: p.body(v, elem)}
		if len(labels) == 0 {
			blk.TypeRange = v.rng
		}
		for _, l := range labels {
			blk.Labels = append(blk.Labels, l.name)
			blk.LabelRanges = append(blk.LabelRanges, l.rng)
		}
		b.Blocks = append(b.Blocks, blk)
	}
}
