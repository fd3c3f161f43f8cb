package hclfile

import (
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

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
