// Package configspec owns how the configuration of a plugin gets from a file to it: the description that the plugin
// gives of it, as hcldec understands it, and the values, as cty's MessagePack carries them. Package external imports
// it.
package configspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"berth/internal/base/fault"
	"berth/internal/model/taskconfig"
	"berth/pluginproto/hclspecpb"
)

// maxDepth bounds how deep a description may be nested.
const maxDepth = 64

// Spec is what a plugin takes. The zero value takes nothing.
type Spec struct {
	spec   hcldec.Spec
	fields taskconfig.Schema
}

// Read makes a Spec of a plugin's description; nil describes a plugin that takes nothing. An error names the place: the
// plugin is of no use then.
func Read(m *hclspecpb.Spec) (Spec, error) {
	if m == nil || m.GetBlock() == nil {
		return Spec{spec: hcldec.ObjectSpec{}, fields: taskconfig.Schema{}}, nil
	}
	spec, err := decode(m, "", 0)
	if err != nil {
		return Spec{}, err
	}
	out := Spec{spec: spec, fields: taskconfig.Schema{}}
	schema := hcldec.ImpliedSchema(spec)
	for _, a := range schema.Attributes {
		out.fields[a.Name] = taskconfig.Field{Required: a.Required}
	}
	for _, b := range schema.Blocks {
		out.fields[b.Type] = taskconfig.Field{}
	}
	out.learn(spec)
	return out, nil
}

// learn notes what is to be said of attributes' values beside their names.
func (s Spec) learn(spec hcldec.Spec) {
	switch t := spec.(type) {
	case hcldec.ObjectSpec:
		for _, inner := range t {
			s.learn(inner)
		}
	case hcldec.TupleSpec:
		for _, inner := range t {
			s.learn(inner)
		}
	case *hcldec.DefaultSpec:
		s.learn(t.Primary)
	case *hcldec.AttrSpec:
		f := s.fields[t.Name]
		switch {
		case t.Type == cty.String:
			f.Kind = taskconfig.Text
		case t.Type == cty.Bool:
			f.Kind = taskconfig.Boolean
		case t.Type.Equals(cty.List(cty.String)):
			f.Kind = taskconfig.Texts
		case t.Type.Equals(cty.Map(cty.String)):
			f.Kind = taskconfig.Map
		}
		s.fields[t.Name] = f
	}
}

// Schema is what servers can judge of it before a task is placed: which attributes and blocks it takes, and the values
// of those that have a simple type. The plugin judges the rest.
func (s Spec) Schema() taskconfig.Schema { return s.fields }

// Encode makes of values, as a job or a configuration has them, what the plugin reads. Texts become numbers and
// booleans where the plugin wants them; references have been replaced before, and what looks like one is text.
func (s Spec) Encode(values map[string]any) ([]byte, error) {
	if values == nil {
		values = map[string]any{}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "read", "config")
	}
	file, diags := hcljson.Parse(text, "config")
	if diags.HasErrors() {
		return nil, s.refuse(diags)
	}
	// Without a context hcldec takes every text as it is.
	v, diags := hcldec.Decode(file.Body, s.spec, nil)
	if diags.HasErrors() {
		return nil, s.refuse(diags)
	}
	out, err := msgpack.Marshal(v, hcldec.ImpliedType(s.spec))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "encode", "config")
	}
	return out, nil
}

// refuse says what hcldec found, all of it, without the places in a text that nobody wrote.
func (s Spec) refuse(diags hcl.Diagnostics) error {
	var all []string
	for _, d := range diags {
		if text := strings.TrimSuffix(d.Detail, "."); d.Severity == hcl.DiagError && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	err := fault.New(fault.Invalid, "read", "config", strings.Join(all, "; "))
	if len(s.fields) == 0 {
		return fault.WithHint(err, "the plugin takes no configuration")
	}
	return fault.WithHint(err, "the plugin takes "+strings.Join(slices.Sorted(maps.Keys(s.fields)), ", "))
}

// decode turns one description into hcldec's. name is what an attribute or a block is called that does not say it.
func decode(m *hclspecpb.Spec, name string, depth int) (hcldec.Spec, error) {
	if depth > maxDepth {
		return nil, bad(name, "it is nested deeper than "+strconv.Itoa(maxDepth))
	}
	switch b := m.GetBlock().(type) {
	case *hclspecpb.Spec_Object:
		return object(b.Object, depth)
	case *hclspecpb.Spec_Array:
		var out hcldec.TupleSpec
		for i, v := range b.Array.GetValues() {
			one, err := decode(v, strconv.Itoa(i), depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	case *hclspecpb.Spec_Attr:
		called, err := nameOf(b.Attr.GetName(), name)
		if err != nil {
			return nil, err
		}
		t, err := typeOf(b.Attr.GetType(), called)
		return &hcldec.AttrSpec{Name: called, Type: t, Required: b.Attr.GetRequired()}, err
	case *hclspecpb.Spec_Default:
		return defaulted(b.Default, name, depth)
	case *hclspecpb.Spec_Literal:
		return literal(b.Literal.GetValue(), name)
	}
	return block(m, name, depth)
}

// block turns the description of what is written as blocks into hcldec's.
func block(m *hclspecpb.Spec, implied string, depth int) (hcldec.Spec, error) {
	nested := func(n *hclspecpb.Spec, of string) (hcldec.Spec, error) {
		if n == nil || n.GetBlock() == nil {
			return nil, bad(of, "what is nested in it is missing")
		}
		return decode(n, "", depth+1)
	}
	name, err := nameOf(blockName(m), implied)
	if err != nil {
		return nil, err
	}
	switch b := m.GetBlock().(type) {
	case *hclspecpb.Spec_BlockValue:
		inner, err := nested(b.BlockValue.GetNested(), name)
		return &hcldec.BlockSpec{TypeName: name, Nested: inner, Required: b.BlockValue.GetRequired()}, err
	case *hclspecpb.Spec_BlockAttrs:
		t, err := typeOf(b.BlockAttrs.GetType(), name)
		return &hcldec.BlockAttrsSpec{TypeName: name, ElementType: t, Required: b.BlockAttrs.GetRequired()}, err
	case *hclspecpb.Spec_BlockList:
		least, most, err := bounds(name, b.BlockList.GetMinItems(), b.BlockList.GetMaxItems())
		if err != nil {
			return nil, err
		}
		inner, err := nested(b.BlockList.GetNested(), name)
		return &hcldec.BlockListSpec{TypeName: name, Nested: inner, MinItems: least, MaxItems: most}, err
	case *hclspecpb.Spec_BlockSet:
		least, most, err := bounds(name, b.BlockSet.GetMinItems(), b.BlockSet.GetMaxItems())
		if err != nil {
			return nil, err
		}
		inner, err := nested(b.BlockSet.GetNested(), name)
		return &hcldec.BlockSetSpec{TypeName: name, Nested: inner, MinItems: least, MaxItems: most}, err
	case *hclspecpb.Spec_BlockMap:
		if len(b.BlockMap.GetLabels()) == 0 {
			return nil, bad(name, "a map of blocks has no label")
		}
		inner, err := nested(b.BlockMap.GetNested(), name)
		return &hcldec.BlockMapSpec{TypeName: name, LabelNames: b.BlockMap.GetLabels(), Nested: inner}, err
	}
	return nil, bad(name, "it is of a kind that is not known")
}

// blockName is what a block is called, where its description says so itself.
func blockName(m *hclspecpb.Spec) string {
	named := m.ProtoReflect().WhichOneof(m.ProtoReflect().Descriptor().Oneofs().Get(0))
	if named == nil || named.Message() == nil {
		return ""
	}
	field := named.Message().Fields().ByName("name")
	if field == nil {
		return ""
	}
	return m.ProtoReflect().Get(named).Message().Get(field).String()
}

func object(m *hclspecpb.Object, depth int) (hcldec.Spec, error) {
	out := hcldec.ObjectSpec{}
	for name, v := range m.GetAttributes() {
		if v == nil || v.GetBlock() == nil {
			return nil, bad(name, "its description is empty")
		}
		one, err := decode(v, name, depth+1)
		if err != nil {
			return nil, err
		}
		out[name] = one
	}
	return out, nil
}

func defaulted(m *hclspecpb.Default, name string, depth int) (hcldec.Spec, error) {
	if m.GetPrimary().GetBlock() == nil || m.GetDefault().GetBlock() == nil {
		return nil, bad(name, "a default lacks its value, or what it is the default of")
	}
	primary, err := decode(m.GetPrimary(), name, depth+1)
	if err != nil {
		return nil, err
	}
	other, err := decode(m.GetDefault(), name, depth+1)
	if err != nil {
		return nil, err
	}
	return &hcldec.DefaultSpec{Primary: primary, Default: other}, nil
}

func literal(text, name string) (hcldec.Spec, error) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, bad(name, fmt.Sprintf("its literal %q can't be read: %s", text, diags.Error()))
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() {
		return nil, bad(name, fmt.Sprintf("its literal %q is no value: %s", text, diags.Error()))
	}
	return &hcldec.LiteralSpec{Value: v}, nil
}

// bounds reads how often a block can be there.
func bounds(name string, lo, hi uint64) (least, most int, err error) {
	if lo > math.MaxInt32 || hi > math.MaxInt32 || hi != 0 && lo > hi {
		return 0, 0, bad(name, fmt.Sprintf("it may be there at least %d and at most %d times", lo, hi))
	}
	return int(lo), int(hi), nil
}

func nameOf(name, implied string) (string, error) {
	if name == "" {
		name = implied
	}
	if !hclsyntax.ValidIdentifier(name) {
		return "", bad(name, "it has no name that a file could have")
	}
	return name, nil
}

func typeOf(text, name string) (cty.Type, error) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, bad(name, fmt.Sprintf("its type %q can't be read: %s", text, diags.Error()))
	}
	t, diags := typeexpr.TypeConstraint(expr)
	if diags.HasErrors() {
		return cty.NilType, bad(name, fmt.Sprintf("its type %q is none: %s", text, diags.Error()))
	}
	return t, nil
}

func bad(name, why string) error {
	return fault.New(fault.Invalid, "read", "what the plugin says of its configuration "+strconv.Quote(name), why)
}
