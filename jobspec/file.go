package jobspec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// DecodeFile decodes a file of plain values, HCL2 or JSON, into the struct that dst points to, by its `hcl` tags (see
// package api). Names in quotes are allowed, as older files have them; references outside of quotes and functions are not. The error is
// an *Error that lists every problem with its place.
func DecodeFile(path string, src []byte, dst any) error {
	_, err := DecodeDocument(path, src, dst)
	return err
}

// Document knows where the members of a decoded file were written.
type Document struct {
	path string
	src  []byte
	at   positions
}

// DecodeDocument is DecodeFile, for callers that check the values afterwards and want to say where they stand.
func DecodeDocument(path string, src []byte, dst any) (*Document, error) {
	r := newReport()
	d := decodeLiteral(r, path, src, dst, nil)
	if err := r.err(); err != nil {
		return nil, err
	}
	return &Document{path: path, src: d.doc.src, at: d.at}, nil
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

// plainScope is the scope of files without expressions: references are left as text where they stand in quotes.
func plainScope() *scope {
	return &scope{ctx: &hcl.EvalContext{}, known: map[string]bool{}, quotedOnly: true}
}

// decodeLiteral decodes a file of plain values.
func decodeLiteral(r *report, path string, src []byte, dst any, specials map[reflect.Type]special) *decoder {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic("jobspec: the destination of a file must be a pointer to a struct")
	}
	var doc *document
	if isJSON(src) || strings.HasSuffix(path, ".json") {
		doc = openJSON(r, path, src, MaxSource, v.Elem().Type())
	} else {
		doc = openDocument(r, path, src, MaxSource, quotedNames(mapNames(v.Elem().Type())))
	}
	if doc == nil {
		return nil
	}
	d := newDecoder(r, doc, specials)
	d.body(doc.body, plainScope(), v.Elem(), "the file", hcl.Range{Filename: path})
	return d
}
