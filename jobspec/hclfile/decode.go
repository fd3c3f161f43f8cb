package hclfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/jobspec/near"
)

// Extra is an attribute that a type takes beside its fields, such as a constraint's shortcuts.
type Extra struct {
	Name  string
	Value cty.Value
	Range hcl.Range
}

// Special is what a type needs beside its tags.
type Special struct {
	Extras  []string // names of further attributes
	Finish  func(d *Decoder, v reflect.Value, at hcl.Range, extras []Extra)
	Refusal map[string]string // names that are written by mistake, with the way out
	// Other is what a body is decoded into in the place of v, whose labels are set; nil: v itself.
	Other func(v reflect.Value) reflect.Value
}

// Decoder fills structs from one document.
type Decoder struct {
	Report   *Report
	Source   *Source
	At       Positions // where everything was written
	specials map[reflect.Type]Special
	blocks   int
}

// NewDecoder makes a decoder of a document; specials are the types that need more than their tags.
func NewDecoder(r *Report, doc *Source, specials map[reflect.Type]Special) *Decoder {
	return &Decoder{Report: r, Source: doc, At: Positions{}, specials: specials}
}

// Item is a block after the expansion of dynamic blocks.
type Item struct {
	Type   string
	Labels []string
	Body   *hclsyntax.Body
	Scope  *Scope
	Range  hcl.Range

	labelRanges []hcl.Range
}

// Body decodes a body into the struct v; what names it in messages.
func (d *Decoder) Body(b *hclsyntax.Body, sc *Scope, v reflect.Value, what string, rng hcl.Range) {
	sp := d.specials[v.Type()]
	if sp.Other != nil {
		if other := sp.Other(v); other.IsValid() {
			d.Body(b, sc, other, what, rng)
			return
		}
	}
	s := SchemaOf(v.Type())
	var extras []Extra
	for _, a := range SortedAttrs(b) {
		name := d.Source.AttrName(a)
		switch f := s.Fields[name]; {
		case f != nil:
			d.attribute(a, name, f, sc, v)
		case contains(sp.Extras, name):
			if val, ok := sc.Value(d.Report, d.Source, a.Expr); ok {
				extras = append(extras, Extra{Name: name, Value: val, Range: a.NameRange})
			}
		default:
			d.unknown(a.NameRange, name, "attribute", s, sp, what)
		}
	}
	firsts := map[string]hcl.Range{}
	for _, it := range d.Expand(b, sc) {
		f := s.Fields[it.Type]
		if f == nil {
			d.unknown(it.Range, it.Type, "block", s, sp, what)
			continue
		}
		first, again := firsts[it.Type]
		if !again {
			firsts[it.Type] = it.Range
		}
		if again && !f.Repeatable() {
			d.Report.Add(it.Range, "%s has the block %q twice, first on line %d; it may be there once", what, it.Type,
				first.Start.Line)
			continue
		}
		d.block(it, f, v)
	}
	if sp.Finish != nil {
		sp.Finish(d, v, rng, extras)
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// Repeatable reports whether a block may be there more than once.
func (f *Field) Repeatable() bool {
	return f.Kind == KindBlock && (f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map)
}

func (d *Decoder) unknown(rng hcl.Range, name, noun string, s *Schema, sp Special, what string) {
	if way, ok := sp.Refusal[name]; ok {
		d.Report.Add(rng, "%s has no %s %q: %s", what, noun, name, way)
		return
	}
	names := append(s.Names(), sp.Extras...)
	way := near.DidYouMean(name, names)
	if inner := s.inside(name); way == "" && len(inner) > 0 {
		way = "; it belongs into " + strings.Join(inner, " or ")
	}
	if way == "" && len(names) > 0 {
		way = "; there are " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
	}
	d.Report.Add(rng, "%s has no %s %q%s", what, noun, name, way)
}

// attribute decodes name = value.
func (d *Decoder) attribute(a *hclsyntax.Attribute, name string, f *Field, sc *Scope, v reflect.Value) {
	if f.Kind == KindBlock {
		d.Report.Add(a.NameRange, "%s is a block; write %s { … } without the equals sign", name, name)
		return
	}
	val, ok := sc.Value(d.Report, d.Source, a.Expr)
	if !ok || val.IsNull() {
		return
	}
	target := v.FieldByIndex(f.index)
	if (f.Kind == KindMap || f.Kind == KindAny) && !target.IsNil() {
		d.Report.Add(a.NameRange, "%s is given twice", name)
		return
	}
	if err := SetValue(target, val, f.Kind); err != nil {
		d.Report.Add(a.Expr.Range(), "%s %s", name, err)
		return
	}
	d.At.Put(f.owner(v), f.Member(v.Type()), a.NameRange)
}

// block decodes name { … }.
func (d *Decoder) block(it Item, f *Field, v reflect.Value) {
	target := v.FieldByIndex(f.index)
	d.At.Put(f.owner(v), f.Member(v.Type()), it.Range)
	switch f.Kind {
	case KindBlock:
		d.nested(it, f, v, target)
	case KindMap, KindAny:
		if !target.IsNil() {
			d.Report.Add(it.Range, "%s is given twice", it.Type)
			return
		}
		if len(it.Labels) > 0 {
			d.Report.Add(it.Range, "the block %s has no label", it.Type)
			return
		}
		if f.Kind == KindAny {
			target.Set(reflect.ValueOf(d.free(it.Body, it.Scope)))
			return
		}
		d.mapBlock(it, target)
	default:
		d.Report.Add(it.Range, "%s is an attribute; write %s = … instead of a block", it.Type, it.Type)
	}
}

// mapBlock decodes a block of plain names and values.
func (d *Decoder) mapBlock(it Item, target reflect.Value) {
	values := map[string]cty.Value{}
	for _, a := range SortedAttrs(it.Body) {
		name := d.Source.AttrName(a)
		if _, dup := values[name]; dup {
			d.Report.Add(a.NameRange, "%s is given twice in %s", name, it.Type)
			continue
		}
		if val, ok := it.Scope.Value(d.Report, d.Source, a.Expr); ok {
			values[name] = val
			probe := reflect.New(target.Type().Elem()).Elem()
			if err := SetValue(probe, val, KindAttr); err != nil {
				d.Report.Add(a.Expr.Range(), "%s in %s %s", name, it.Type, err)
			}
		}
	}
	for _, b := range it.Body.Blocks {
		d.Report.Add(b.DefRange(), "%s holds names and values, no blocks", it.Type)
	}
	if d.Report.Failed() {
		return
	}
	if err := setMap(target, cty.ObjectVal(values)); err != nil {
		d.Report.Add(it.Range, "%s %s", it.Type, err)
	}
}

// nested decodes a block into a struct, or adds it to a list or a map of structs.
func (d *Decoder) nested(it Item, f *Field, v, target reflect.Value) {
	switch target.Kind() {
	case reflect.Pointer:
		elem := reflect.New(target.Type().Elem())
		d.Into(it, elem.Elem())
		target.Set(elem)
	case reflect.Struct:
		d.Into(it, target)
	case reflect.Slice:
		elem := d.newElement(it, target.Type().Elem())
		if target.Type().Elem().Kind() == reflect.Pointer {
			target.Set(reflect.Append(target, elem))
			return
		}
		prefix := fmt.Sprintf("%s[%d]", f.Member(v.Type()), target.Len())
		d.At.move(elem.Interface(), f.owner(v), prefix)
		target.Set(reflect.Append(target, elem.Elem()))
	case reflect.Map:
		if len(it.Labels) == 0 {
			d.Report.Add(it.Range, "the block %s needs a label: %s \"name\" { … }", it.Type, it.Type)
			return
		}
		if target.IsNil() {
			target.Set(reflect.MakeMap(target.Type()))
		}
		key := reflect.ValueOf(it.Labels[0])
		if target.MapIndex(key).IsValid() {
			d.Report.Add(it.Range, "the block %s %q is there twice", it.Type, it.Labels[0])
			return
		}
		elem := d.newElement(it, target.Type().Elem())
		if target.Type().Elem().Kind() != reflect.Pointer {
			elem = elem.Elem()
		}
		target.SetMapIndex(key, elem)
	}
}

// newElement decodes a block into a new struct and gives its address.
func (d *Decoder) newElement(it Item, t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	elem := reflect.New(t)
	d.Into(it, elem.Elem())
	return elem
}

// Into decodes a block with its labels into a struct.
func (d *Decoder) Into(it Item, v reflect.Value) {
	d.At.Put(v, "", it.Range)
	labels := SchemaOf(v.Type()).Labels
	least := 0
	for _, l := range labels {
		if l.Kind == KindLabel {
			least++
		}
	}
	switch {
	case len(it.Labels) > len(labels):
		d.Report.Add(it.labelRanges[len(labels)], "the block %s takes %s, not %d", it.Type, countLabels(len(labels)),
			len(it.Labels))
		return
	case len(it.Labels) < least:
		d.Report.Add(it.Range, "the block %s needs %s: %s \"name\" { … }", it.Type, countLabels(least), it.Type)
		return
	}
	what := it.Type
	for i, text := range it.Labels {
		if text == "" {
			d.Report.Add(it.labelRanges[i], "the label of the block %s is empty", it.Type)
		}
		v.FieldByIndex(labels[i].index).SetString(text)
		what += fmt.Sprintf(" %q", text)
	}
	d.Body(it.Body, it.Scope, v, what, it.Range)
}

func countLabels(n int) string {
	switch n {
	case 0:
		return "no label"
	case 1:
		return "one label"
	}
	return fmt.Sprintf("%d labels", n)
}

// free decodes a body of which nothing is known: attributes become values, blocks and maps become lists of maps, and
// labels become maps in between, as task drivers expect it. A block named dynamic is one like any other: it may be the
// driver's.
func (d *Decoder) free(b *hclsyntax.Body, sc *Scope) map[string]any {
	out := map[string]any{}
	for _, a := range SortedAttrs(b) {
		name := d.Source.AttrName(a)
		if _, dup := out[name]; dup {
			d.Report.Add(a.NameRange, "%s is given twice", name)
			continue
		}
		val, ok := sc.Value(d.Report, d.Source, a.Expr)
		if !ok {
			continue
		}
		plain, err := toPlain(val)
		if err != nil {
			d.Report.Add(a.Expr.Range(), "%s: %s", name, err)
			continue
		}
		out[name] = listed(plain)
	}
	lists := map[string][]any{}
	for _, it := range d.literally(b, sc) {
		if _, clash := out[it.Type]; clash && lists[it.Type] == nil {
			d.Report.Add(it.Range, "%s is there as an attribute and as a block", it.Type)
			continue
		}
		var value any = d.free(it.Body, it.Scope)
		for i := len(it.Labels) - 1; i >= 0; i-- {
			value = map[string]any{it.Labels[i]: []any{value}}
		}
		lists[it.Type] = append(lists[it.Type], value)
		out[it.Type] = lists[it.Type]
	}
	return out
}

// listed makes lists of one out of maps, and of those within.
func listed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = listed(inner)
		}
		return []any{v}
	case []any:
		for i, inner := range v {
			if m, ok := inner.(map[string]any); ok {
				for name, deeper := range m {
					m[name] = listed(deeper)
				}
				continue
			}
			v[i] = listed(inner)
		}
	}
	return v
}
