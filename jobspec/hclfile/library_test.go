package hclfile

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// made is a block that a dynamic block made.
type made struct {
	labels []string
	attrs  map[string]cty.Value
}

func byOurs(t *testing.T, src string) ([]made, bool) {
	t.Helper()
	r := NewReport()
	doc := Open(r, "d.hcl", []byte(src), MaxSource, nil)
	if doc == nil {
		return nil, false
	}
	d := NewDecoder(r, doc, nil)
	scope := &Scope{Ctx: &hcl.EvalContext{Variables: map[string]cty.Value{}}, Known: map[string]bool{}}
	var out []made
	for _, it := range d.Expand(doc.Body, scope) {
		m := made{labels: it.Labels, attrs: map[string]cty.Value{}}
		for _, a := range SortedAttrs(it.Body) {
			v, ok := it.Scope.Value(r, doc, a.Expr)
			if !ok {
				return nil, false
			}
			m.attrs[a.Name] = v
		}
		out = append(out, m)
	}
	return out, !r.Failed()
}

func byDynblock(src string, labels []string) ([]made, bool) {
	f, diags := hclsyntax.ParseConfig([]byte(src), "d.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, false
	}
	ctx := &hcl.EvalContext{}
	schema := &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "item", LabelNames: labels}}}
	content, diags := dynblock.Expand(f.Body, ctx).Content(schema)
	if diags.HasErrors() {
		return nil, false
	}
	var out []made
	for _, b := range content.Blocks {
		inner, diags := b.Body.Content(
			&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "key"}, {Name: "value"}}})
		m := made{labels: b.Labels, attrs: map[string]cty.Value{}}
		for name, a := range inner.Attributes {
			v, more := a.Expr.Value(ctx)
			diags = append(diags, more...)
			m.attrs[name] = v
		}
		if diags.HasErrors() {
			return nil, false
		}
		out = append(out, m)
	}
	return out, true
}

// Given a dynamic block over a list or a map, when ours and hcl/ext/dynblock expand it, then both make the same blocks.
// Ours stays: what only a node can resolve is put back as text before an expression is evaluated,
// which needs its syntax, and the blocks that a document makes are counted (docs/adr/0027).
func FuzzDynamicBlocksAgainstTheLibrary(f *testing.F) {
	f.Add("a,b", "it.key", `"${it.value}-${it.key}"`, false, true)
	f.Add("", "it.value", "it", false, false)
	f.Add("x=1,y=2", `upper("a")`, "item.value", true, false)
	f.Add("a", "other.value", "null", true, true)
	f.Fuzz(func(t *testing.T, list, value, label string, asMap, labelled bool) {
		if strings.ContainsAny(value+label, "#/{}\n<\x00") {
			return // what would be more than an expression, and functions of neither scope
		}
		if strings.ContainsAny(value+label, "()?$%") && value != "it.key" {
			return // references that are left to a node have no like in the library
		}
		src := dynamicSource(strings.Split(list, ","), value, label, asMap, labelled)
		var names []string
		if labelled {
			names = []string{"name"}
		}
		ours, ok := byOurs(t, src)
		theirs, fine := byDynblock(src, names)
		if !ok || !fine {
			return // each refuses a little more than the other
		}
		if len(ours) != len(theirs) {
			t.Fatalf("%s\nours %v, the library's %v", src, ours, theirs)
		}
		for i := range ours {
			if strings.Join(ours[i].labels, ",") != strings.Join(theirs[i].labels, ",") ||
				!equalAttrs(ours[i].attrs, theirs[i].attrs) {
				t.Errorf("%s\nours %#v, the library's %#v", src, ours[i], theirs[i])
			}
		}
	})
}

func equalAttrs(a, b map[string]cty.Value) bool {
	for name, v := range a {
		if !v.RawEquals(b[name]) {
			return false
		}
	}
	return len(a) == len(b)
}

func dynamicSource(items []string, value, label string, asMap, labelled bool) string {
	vals, keyed := []cty.Value{}, map[string]cty.Value{}
	for _, it := range items {
		k, v, _ := strings.Cut(it, "=")
		vals, keyed[k] = append(vals, cty.StringVal(it)), cty.StringVal(v)
	}
	each := cty.TupleVal(vals)
	if asMap {
		each = cty.ObjectVal(keyed)
	}
	src := "dynamic \"item\" {\n  iterator = it\n  for_each = " + string(hclwrite.TokensForValue(each).Bytes()) + "\n"
	if labelled {
		src += "  labels = [" + label + "]\n"
	}
	return src + "  content {\n    key = it.key\n    value = " + value + "\n  }\n}\n"
}

// Given any bytes, when ours and hcl/json read them as an object of plain values, then they give the same values. Ours
// stays: it gives the same form as HCL, guided by the struct that a file is for, which one decoder reads; members that
// are there twice and deep nesting are refused, and a text with ${…} is never evaluated (docs/adr/0027).
func FuzzJSONAgainstTheLibrary(f *testing.F) {
	f.Add([]byte(`{"a": 1, "b": [true, null, {"c": "${x}"}], "d": {"e": 1e3, "e2": -0.5}}`))
	f.Add([]byte(`{"a": 1, "a": 2}`))
	f.Add([]byte(`[{"a": 1}]`))
	f.Add([]byte(`{"a": "\u00e9\ud83d\ude00"} `))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReport()
		doc := OpenJSON(r, "d.json", data, MaxSource, reflect.TypeFor[struct{}]())
		file, diags := hcljson.Parse(data, "d.json")
		if doc == nil || diags.HasErrors() {
			return // each refuses a little more than the other: see the table
		}
		attrs, diags := file.Body.JustAttributes()
		if diags.HasErrors() {
			return
		}
		for name, a := range doc.Body.Attributes {
			got, _ := a.Expr.Value(nil)
			theirs := attrs[name]
			if theirs == nil {
				if name != "//" { // a comment to the library
					t.Errorf("%s: the library has no %q", data, name)
				}
				continue
			}
			want, diags := theirs.Expr.Value(nil)
			if !diags.HasErrors() && !got.RawEquals(want) {
				t.Errorf("%s: %q is %#v, by the library %#v", data, name, got, want)
			}
		}
	})
}

// The cases that decided.
func TestWhereTheLibrariesOfHCLDiffer(t *testing.T) {
	for src, read := range map[string][2]bool{ // by ours, by hcl/json
		`{"a": 1, "a": 2}`: {false, true},
		`[{"a": 1}]`:       {false, true},
		`{"a": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: {false, true},
		`{"a": 1} x`: {false, false},
		`{"a": 1}`:   {true, true},
	} {
		doc := OpenJSON(NewReport(), "d.json", []byte(src), MaxSource, reflect.TypeFor[struct{}]())
		_, diags := hcljson.Parse([]byte(src), "d.json")
		if got := [2]bool{doc != nil, !diags.HasErrors()}; got != read {
			t.Errorf("%.40s: read by ours and the library: %v, want %v", src, got, read)
		}
	}
	many := dynamicSource(make([]string, maxBlocks+1), "it.key", "", false, false)
	if _, ok := byOurs(t, many); ok {
		t.Error("a document may make any number of blocks")
	}
	if blocks, ok := byDynblock(many, nil); !ok || len(blocks) != maxBlocks+1 {
		t.Errorf("the library bounds what a document makes, at %d: look again", len(blocks))
	}
	kept := dynamicSource([]string{"a"}, `"${attr.kernel.name}"`, "", false, false)
	if blocks, ok := byOurs(t, kept); !ok || blocks[0].attrs["value"].AsString() != "${attr.kernel.name}" {
		t.Errorf("what a node resolves is not left to it: %v", blocks)
	}
	if _, ok := byDynblock(kept, nil); ok {
		t.Error("the library leaves what it cannot resolve: look again")
	}
}
