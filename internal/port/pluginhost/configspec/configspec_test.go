package configspec_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"berth/internal/base/fault"
	"berth/internal/model/taskconfig"
	"berth/internal/port/pluginhost/configspec"
	pb "berth/pluginproto/hclspecpb"
)

func attr(name, of string) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Attr{Attr: &pb.Attr{Name: name, Type: of}}}
}

func object(m map[string]*pb.Spec) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Object{Object: &pb.Object{Attributes: m}}}
}

func literal(text string) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Literal{Literal: &pb.Literal{Value: text}}}
}

func or(primary *pb.Spec, text string) *pb.Spec {
	return &pb.Spec{Block: &pb.Spec_Default{Default: &pb.Default{Primary: primary, Default: literal(text)}}}
}

// all has each of the ten kinds of descriptions.
var all = object(map[string]*pb.Spec{
	"image":   attr("", "string"), // its name is implied
	"count":   or(attr("count", "number"), "3"),
	"labels":  attr("labels", "list(map(string))"),
	"options": attr("options", "map(string)"),
	"any":     attr("any", "any"),
	"kind":    literal(`"fixed"`),
	"pair": {Block: &pb.Spec_Array{Array: &pb.Array{Values: []*pb.Spec{
		attr("first", "bool"), attr("second", "list(string)"),
	}}}},
	"auth": {Block: &pb.Spec_BlockValue{BlockValue: &pb.Block{Name: "auth", Nested: object(map[string]*pb.Spec{
		"user": attr("user", "string"),
	})}}},
	"env": {Block: &pb.Spec_BlockAttrs{BlockAttrs: &pb.BlockAttrs{Name: "env", Type: "string"}}},
	"mount": {Block: &pb.Spec_BlockList{BlockList: &pb.BlockList{Name: "mount", MaxItems: 2,
		Nested: object(map[string]*pb.Spec{"target": attr("target", "string")})}}},
	"tag": {Block: &pb.Spec_BlockSet{BlockSet: &pb.BlockSet{Name: "tag",
		Nested: object(map[string]*pb.Spec{"name": attr("name", "string")})}}},
	"port": {Block: &pb.Spec_BlockMap{BlockMap: &pb.BlockMap{Name: "port", Labels: []string{"label"},
		Nested: object(map[string]*pb.Spec{"to": attr("to", "number")})}}},
})

func read(t *testing.T, m *pb.Spec) configspec.Spec {
	t.Helper()
	s, err := configspec.Read(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Given a description of every kind, when a task's config is encoded by it, then a plugin that knows its own types
// reads what was written: texts become what is wanted, blocks what their kind makes of them, and nothing is evaluated
// that looks like a reference.
func TestEveryKindOfDescriptionIsRead(t *testing.T) {
	got, err := read(t, all).Encode(map[string]any{
		"image":   "redis:${x}",
		"labels":  []any{map[string]any{"a": "b"}},
		"options": map[string]any{"k": "v"},
		"any":     []any{"sh", 1.0},
		"first":   "true",
		"second":  []any{"x"},
		"auth":    []any{map[string]any{"user": "u"}},
		"env":     []any{map[string]any{"K": "V"}},
		"mount":   []any{map[string]any{"target": "/a"}, map[string]any{"target": "/b"}},
		"tag":     []any{map[string]any{"name": "t"}},
		"port":    []any{map[string]any{"http": []any{map[string]any{"to": "80"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	block := cty.Object(map[string]cty.Type{"target": cty.String})
	v, err := msgpack.Unmarshal(got, cty.Object(map[string]cty.Type{
		"image":   cty.String,
		"count":   cty.Number,
		"labels":  cty.List(cty.Map(cty.String)),
		"options": cty.Map(cty.String),
		"any":     cty.DynamicPseudoType,
		"kind":    cty.String,
		"pair":    cty.Tuple([]cty.Type{cty.Bool, cty.List(cty.String)}),
		"auth":    cty.Object(map[string]cty.Type{"user": cty.String}),
		"env":     cty.Map(cty.String),
		"mount":   cty.List(block),
		"tag":     cty.Set(cty.Object(map[string]cty.Type{"name": cty.String})),
		"port":    cty.Map(cty.Object(map[string]cty.Type{"to": cty.Number})),
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]cty.Value{
		"image":   cty.StringVal("redis:${x}"),
		"count":   cty.NumberIntVal(3),
		"labels":  cty.ListVal([]cty.Value{cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")})}),
		"options": cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v")}),
		"any":     cty.TupleVal([]cty.Value{cty.StringVal("sh"), cty.NumberIntVal(1)}),
		"kind":    cty.StringVal("fixed"),
		"pair":    cty.TupleVal([]cty.Value{cty.True, cty.ListVal([]cty.Value{cty.StringVal("x")})}),
		"auth":    cty.ObjectVal(map[string]cty.Value{"user": cty.StringVal("u")}),
		"env":     cty.MapVal(map[string]cty.Value{"K": cty.StringVal("V")}),
		"mount": cty.ListVal([]cty.Value{
			cty.ObjectVal(map[string]cty.Value{"target": cty.StringVal("/a")}),
			cty.ObjectVal(map[string]cty.Value{"target": cty.StringVal("/b")}),
		}),
		"tag": cty.SetVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("t")})}),
		"port": cty.MapVal(map[string]cty.Value{
			"http": cty.ObjectVal(map[string]cty.Value{"to": cty.NumberIntVal(80)}),
		}),
	} {
		if is := v.GetAttr(name); !is.RawEquals(want) {
			t.Errorf("%s is %#v, not %#v", name, is, want)
		}
	}
}

// Given an attribute of any type, when it is encoded, then its type goes with it, as cty has it: other encodings of
// MessagePack do not.
func TestAnyValueCarriesItsType(t *testing.T) {
	got, err := read(t, object(map[string]*pb.Spec{"a": attr("a", "any")})).Encode(map[string]any{"a": "x"})
	if err != nil {
		t.Fatal(err)
	}
	// {"a": [bin "\"string\"", "x"]}
	if want := "81a16192c40822737472696e6722a178"; hex.EncodeToString(got) != want {
		t.Errorf("%x, not %s", got, want)
	}
}

func TestWhatIsSaidOfValuesBeforeATaskIsPlaced(t *testing.T) {
	want := map[string]taskconfig.Field{
		"image":   {Kind: taskconfig.Text},
		"count":   {},
		"labels":  {},
		"options": {Kind: taskconfig.Map},
		"any":     {},
		"first":   {Kind: taskconfig.Boolean},
		"second":  {Kind: taskconfig.Texts},
		"auth":    {},
		"env":     {},
		"mount":   {},
		"tag":     {},
		"port":    {},
	}
	got := read(t, all).Schema()
	for name, f := range got {
		if w, known := want[name]; !known || w.Kind != f.Kind {
			t.Errorf("%s: %+v, not %+v", name, f, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d, not %d", len(got), len(want))
	}
}

// Given a config that a plugin does not take, when it is encoded, then the error says all that is wrong and what there
// is instead.
func TestWhatAPluginDoesNotTakeIsRefused(t *testing.T) {
	required := &pb.Spec{Block: &pb.Spec_Attr{Attr: &pb.Attr{Name: "command", Type: "string", Required: true}}}
	s := read(t, object(map[string]*pb.Spec{"command": required, "port": attr("port", "number")}))
	for name, c := range map[string]struct {
		values map[string]any
		say    []string
	}{
		"a name it does not have": {map[string]any{"command": "x", "comand": "y"},
			[]string{`"comand"`, "command, port"}},
		"nothing":    {nil, []string{`"command"`, "required"}},
		"no number":  {map[string]any{"command": "x", "port": "http"}, []string{`"port"`, "number"}},
		"two things": {map[string]any{"port": "http", "a": 1}, []string{`"a"`, `"command"`}},
	} {
		_, err := s.Encode(c.values)
		if !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range c.say {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %s", name, err, text)
			}
		}
	}
	if _, err := read(t, nil).Encode(map[string]any{"a": 1}); err == nil ||
		!strings.Contains(err.Error(), "takes no configuration") {
		t.Errorf("a plugin that takes nothing: %v", err)
	}
	if got, err := read(t, nil).Encode(nil); err != nil || fmt.Sprintf("%x", got) != "80" {
		t.Errorf("nothing for a plugin that takes nothing: %x, %v", got, err)
	}
}

// Given a description that makes no sense, when it is read, then the plugin is refused with the place.
func TestADescriptionThatMakesNoSenseIsRefused(t *testing.T) {
	deep := attr("a", "string")
	for range 100 {
		deep = object(map[string]*pb.Spec{"a": deep})
	}
	list := func(lo, hi uint64, nested *pb.Spec) *pb.Spec {
		return &pb.Spec{Block: &pb.Spec_BlockList{BlockList: &pb.BlockList{Name: "l", MinItems: lo, MaxItems: hi,
			Nested: nested}}}
	}
	for name, m := range map[string]*pb.Spec{
		"no type":             attr("a", ""),
		"another type":        attr("a", "strin"),
		"no name":             {Block: &pb.Spec_BlockValue{BlockValue: &pb.Block{Nested: attr("a", "string")}}},
		"a name with a blank": object(map[string]*pb.Spec{"x": attr("a b", "string")}),
		"nothing nested":      list(0, 0, nil),
		"less than nothing":   list(3, 2, attr("a", "string")),
		"too many":            list(1<<63, 0, attr("a", "string")),
		"an empty member":     object(map[string]*pb.Spec{"x": {}}),
		"half a default":      {Block: &pb.Spec_Default{Default: &pb.Default{Primary: attr("a", "string")}}},
		"no literal":          or(attr("a", "string"), "("),
		"a reference":         or(attr("a", "string"), "x"),
		"no label": {Block: &pb.Spec_BlockMap{BlockMap: &pb.BlockMap{Name: "m",
			Nested: attr("a", "string")}}},
		"too deep": deep,
	} {
		if _, err := configspec.Read(m); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
