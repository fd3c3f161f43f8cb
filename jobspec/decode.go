package jobspec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// extra is an attribute that a type takes beside its fields, such as a constraint's shortcuts.
type extra struct {
	name  string
	value cty.Value
	rng   hcl.Range
}

// special is what a type needs beside its tags.
type special struct {
	extras  []string // names of further attributes
	finish  func(d *decoder, v reflect.Value, at hcl.Range, extras []extra)
	refusal map[string]string // names that are written by mistake, with the way out
}

// decoder fills structs from one document.
type decoder struct {
	report   *report
	doc      *document
	specials map[reflect.Type]special
	at       positions
	blocks   int
}

func newDecoder(r *report, doc *document, specials map[reflect.Type]special) *decoder {
	return &decoder{report: r, doc: doc, specials: specials, at: positions{}}
}

// item is a block after the expansion of dynamic blocks.
type item struct {
	typ    string
	labels []string
	body   *hclsyntax.Body
	scope  *scope
	rng    hcl.Range
	labelR []hcl.Range
}

// body decodes a body into the struct v; what names it in messages.
func (d *decoder) body(b *hclsyntax.Body, sc *scope, v reflect.Value, what string, rng hcl.Range) {
	s := schemaOf(v.Type())
	sp := d.specials[v.Type()]
	var extras []extra
	for _, a := range sortedAttrs(b) {
		name := d.doc.attrName(a)
		switch f := s.fields[name]; {
		case f != nil:
			d.attribute(a, name, f, sc, v)
		case contains(sp.extras, name):
			if val, ok := sc.value(d.report, d.doc, a.Expr); ok {
				extras = append(extras, extra{name: name, value: val, rng: a.NameRange})
			}
		default:
			d.unknown(a.NameRange, name, "attribute", s, sp, what)
		}
	}
	firsts := map[string]hcl.Range{}
	for _, it := range d.expand(b, sc) {
		f := s.fields[it.typ]
		if f == nil {
			d.unknown(it.rng, it.typ, "block", s, sp, what)
			continue
		}
		first, again := firsts[it.typ]
		if !again {
			firsts[it.typ] = it.rng
		}
		if again && !repeatable(f) {
			d.report.add(it.rng, "%s has the block %q twice, first on line %d; it may be there once", what, it.typ, first.Start.Line)
			continue
		}
		d.block(it, f, v)
	}
	if sp.finish != nil {
		sp.finish(d, v, rng, extras)
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

func repeatable(f *field) bool {
	return f.kind == kindBlock && (f.typ.Kind() == reflect.Slice || f.typ.Kind() == reflect.Map)
}

func (d *decoder) unknown(rng hcl.Range, name, noun string, s *schema, sp special, what string) {
	if way, ok := sp.refusal[name]; ok {
		d.report.add(rng, "%s has no %s %q: %s", what, noun, name, way)
		return
	}
	d.report.add(rng, "%s has no %s %q%s", what, noun, name, didYouMean(name, append(s.names(), sp.extras...)))
}

// attribute decodes name = value.
func (d *decoder) attribute(a *hclsyntax.Attribute, name string, f *field, sc *scope, v reflect.Value) {
	if f.kind == kindBlock {
		d.report.add(a.NameRange, "%s is a block; write %s { … } without the equals sign", name, name)
		return
	}
	val, ok := sc.value(d.report, d.doc, a.Expr)
	if !ok || val.IsNull() {
		return
	}
	target := v.FieldByIndex(f.index)
	if (f.kind == kindMap || f.kind == kindAny) && !target.IsNil() {
		d.report.add(a.NameRange, "%s is given twice", name)
		return
	}
	if err := setValue(target, val, f.kind); err != nil {
		d.report.add(a.Expr.Range(), "%s %s", name, err)
		return
	}
	d.at.put(f.owner(v), f.member(v.Type()), a.NameRange)
}

// block decodes name { … }.
func (d *decoder) block(it item, f *field, v reflect.Value) {
	target := v.FieldByIndex(f.index)
	d.at.put(f.owner(v), f.member(v.Type()), it.rng)
	switch f.kind {
	case kindBlock:
		d.nested(it, f, v, target)
	case kindMap, kindAny:
		if !target.IsNil() {
			d.report.add(it.rng, "%s is given twice", it.typ)
			return
		}
		if len(it.labels) > 0 {
			d.report.add(it.rng, "the block %s has no label", it.typ)
			return
		}
		if f.kind == kindAny {
			target.Set(reflect.ValueOf(d.free(it.body, it.scope)))
			return
		}
		d.mapBlock(it, target)
	default:
		d.report.add(it.rng, "%s is an attribute; write %s = … instead of a block", it.typ, it.typ)
	}
}

// mapBlock decodes a block of plain names and values.
func (d *decoder) mapBlock(it item, target reflect.Value) {
	values := map[string]cty.Value{}
	for _, a := range sortedAttrs(it.body) {
		name := d.doc.attrName(a)
		if _, dup := values[name]; dup {
			d.report.add(a.NameRange, "%s is given twice in %s", name, it.typ)
			continue
		}
		if val, ok := it.scope.value(d.report, d.doc, a.Expr); ok {
			values[name] = val
			probe := reflect.New(target.Type().Elem()).Elem()
			if err := setValue(probe, val, kindAttr); err != nil {
				d.report.add(a.Expr.Range(), "%s in %s %s", name, it.typ, err)
			}
		}
	}
	for _, b := range it.body.Blocks {
		d.report.add(b.DefRange(), "%s holds names and values, no blocks", it.typ)
	}
	if d.report.failed() {
		return
	}
	if err := setMap(target, cty.ObjectVal(values)); err != nil {
		d.report.add(it.rng, "%s %s", it.typ, err)
	}
}

// nested decodes a block into a struct, or adds it to a list or a map of structs.
func (d *decoder) nested(it item, f *field, v, target reflect.Value) {
	switch target.Kind() {
	case reflect.Pointer:
		elem := reflect.New(target.Type().Elem())
		d.into(it, elem.Elem())
		target.Set(elem)
	case reflect.Struct:
		d.into(it, target)
	case reflect.Slice:
		elem := d.newElement(it, target.Type().Elem())
		if target.Type().Elem().Kind() == reflect.Pointer {
			target.Set(reflect.Append(target, elem))
			return
		}
		prefix := fmt.Sprintf("%s[%d]", f.member(v.Type()), target.Len())
		d.at.move(elem.Interface(), f.owner(v), prefix)
		target.Set(reflect.Append(target, elem.Elem()))
	case reflect.Map:
		if len(it.labels) == 0 {
			d.report.add(it.rng, "the block %s needs a label: %s \"name\" { … }", it.typ, it.typ)
			return
		}
		if target.IsNil() {
			target.Set(reflect.MakeMap(target.Type()))
		}
		key := reflect.ValueOf(it.labels[0])
		if target.MapIndex(key).IsValid() {
			d.report.add(it.rng, "the block %s %q is there twice", it.typ, it.labels[0])
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
func (d *decoder) newElement(it item, t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	elem := reflect.New(t)
	d.into(it, elem.Elem())
	return elem
}

// into decodes a block with its labels into a struct.
func (d *decoder) into(it item, v reflect.Value) {
	d.at.put(v, "", it.rng)
	labels := schemaOf(v.Type()).labels
	least := 0
	for _, l := range labels {
		if l.kind == kindLabel {
			least++
		}
	}
	switch {
	case len(it.labels) > len(labels):
		d.report.add(it.labelR[len(labels)], "the block %s takes %s, not %d", it.typ, countLabels(len(labels)), len(it.labels))
		return
	case len(it.labels) < least:
		d.report.add(it.rng, "the block %s needs %s: %s \"name\" { … }", it.typ, countLabels(least), it.typ)
		return
	}
	what := it.typ
	for i, text := range it.labels {
		if text == "" {
			d.report.add(it.labelR[i], "the label of the block %s is empty", it.typ)
		}
		v.FieldByIndex(labels[i].index).SetString(text)
		what += fmt.Sprintf(" %q", text)
	}
	d.body(it.body, it.scope, v, what, it.rng)
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

// free decodes a body of which nothing is known: attributes become values, blocks become lists of maps, and labels
// become maps in between, as task drivers expect it.
func (d *decoder) free(b *hclsyntax.Body, sc *scope) map[string]any {
	out := map[string]any{}
	for _, a := range sortedAttrs(b) {
		name := d.doc.attrName(a)
		if _, dup := out[name]; dup {
			d.report.add(a.NameRange, "%s is given twice", name)
			continue
		}
		val, ok := sc.value(d.report, d.doc, a.Expr)
		if !ok {
			continue
		}
		plain, err := toPlain(val)
		if err != nil {
			d.report.add(a.Expr.Range(), "%s: %s", name, err)
			continue
		}
		out[name] = plain
	}
	lists := map[string][]any{}
	for _, it := range d.expand(b, sc) {
		if _, clash := out[it.typ]; clash && lists[it.typ] == nil {
			d.report.add(it.rng, "%s is there as an attribute and as a block", it.typ)
			continue
		}
		var value any = d.free(it.body, it.scope)
		for i := len(it.labels) - 1; i >= 0; i-- {
			value = map[string]any{it.labels[i]: []any{value}}
		}
		lists[it.typ] = append(lists[it.typ], value)
		out[it.typ] = lists[it.typ]
	}
	return out
}

// blockWord is how a block is introduced in messages.
func blockWord(typ string, labels []string) string {
	if len(labels) == 0 {
		return typ
	}
	return typ + ` "` + strings.Join(labels, `" "`) + `"`
}
