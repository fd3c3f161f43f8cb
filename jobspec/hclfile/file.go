package hclfile

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// DecodeFile decodes a file of plain values, HCL2 or JSON, into the struct that dst points to, by its `hcl` tags (see
// package api). Names in quotes are allowed, as older files have them; functions, and references outside of quotes, are
// not. The error is an *Error that lists every problem with its place.
func DecodeFile(path string, src []byte, dst any) error {
	_, err := DecodeDocument(path, src, dst)
	return err
}

// Document knows where the members of a decoded file were written.
type Document struct {
	path string
	src  []byte
	at   Positions
}

// DecodeDocument is DecodeFile, for callers that check the values afterwards and want to say where they stand.
func DecodeDocument(path string, src []byte, dst any) (*Document, error) {
	r := NewReport()
	d := DecodeInto(r, path, src, dst, nil)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return &Document{path: path, src: d.Source.Bytes, at: d.At}, nil
}

// Errorf makes an error about a member of a decoded struct; owner is the struct's address, member the name of its Go
// field, "" for the block itself.
func (doc *Document) Errorf(owner any, member, format string, args ...any) error {
	p := Problem{File: doc.path, Text: fmt.Sprintf(format, args...)}
	rng, ok := doc.at[owner][member]
	if !ok {
		rng, ok = doc.at[owner][""]
	}
	if ok {
		p.Line, p.Column, p.Snippet = rng.Start.Line, rng.Start.Column, snippet(doc.src, rng)
	}
	return &Error{Problems: []Problem{p}}
}

// PlainScope is the scope of files without expressions: references are left as text where they stand in quotes.
func PlainScope() *Scope {
	return &Scope{Ctx: &hcl.EvalContext{}, Known: map[string]bool{}, QuotedOnly: true}
}

// DecodeInto decodes a file of plain values and gives the decoder, nil when the file could not be parsed. specials are
// the types that need more than their tags.
func DecodeInto(r *Report, path string, src []byte, dst any, specials map[reflect.Type]Special) *Decoder {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic("hclfile: the destination of a file must be a pointer to a struct")
	}
	var doc *Source
	if IsJSON(src) || strings.HasSuffix(path, ".json") {
		doc = OpenJSON(r, path, src, MaxSource, v.Elem().Type())
	} else {
		doc = Open(r, path, src, MaxSource, QuotedNames(MapNames(v.Elem().Type())))
	}
	if doc == nil {
		return nil
	}
	d := NewDecoder(r, doc, specials)
	d.Body(doc.Body, PlainScope(), v.Elem(), "the file", hcl.Range{Filename: path})
	return d
}
