package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
)

// FieldKind is the type of a value in a task's config block.
type FieldKind uint8

// Kinds of configuration fields. A block in HCL arrives as a list of maps; labels become nested lists.
const (
	KindString FieldKind = iota
	KindBool
	KindInt
	KindStringList
	KindStringMap
	KindBlocks // list of maps, each checked against Fields
)

// Field describes one attribute or block of a config block.
type Field struct {
	Kind     FieldKind
	Required bool
	Doc      string
	Fields   Schema // of KindBlocks
}

// Schema describes a driver's config block by attribute name.
type Schema map[string]Field

// Check validates a decoded config block and names the first offence by attribute.
func (s Schema) Check(cfg map[string]any) error { return s.check("config", cfg) }

func (s Schema) check(path string, cfg map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(cfg)) {
		f, ok := s[name]
		if !ok {
			return fault.WithHint(fault.New(fault.Invalid, "", path+"."+name, "this driver has no such option"),
				"it knows "+strings.Join(slices.Sorted(maps.Keys(s)), ", "))
		}
		if cfg[name] == nil {
			continue
		}
		if err := f.check(path+"."+name, cfg[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if s[name].Required && cfg[name] == nil {
			return fault.New(fault.Invalid, "", path+"."+name, "the driver requires this option")
		}
	}
	return nil
}

func (f Field) check(path string, v any) error {
	bad := func(want string) error {
		return fault.New(fault.Invalid, "", path, fmt.Sprintf("must be %s, is %T", want, v))
	}
	switch f.Kind {
	case KindString:
		if _, ok := v.(string); !ok {
			return bad("a string")
		}
	case KindBool:
		if _, ok := v.(bool); !ok {
			return bad("a boolean")
		}
	case KindInt:
		if !isInt(v) {
			return bad("a whole number")
		}
	case KindStringList:
		list, ok := v.([]any)
		if !ok {
			return bad("a list of strings")
		}
		for i, e := range list {
			if _, ok := e.(string); !ok {
				return Field{Kind: KindString}.check(fmt.Sprintf("%s[%d]", path, i), e)
			}
		}
	case KindStringMap:
		return checkStringMap(path, v, bad)
	case KindBlocks:
		return f.checkBlocks(path, v, bad)
	}
	return nil
}

// checkStringMap accepts a map, or what a block in HCL becomes: a list of maps.
func checkStringMap(path string, v any, bad func(string) error) error {
	maps, ok := asMaps(v)
	if !ok {
		return bad("a map of strings")
	}
	for _, m := range maps {
		for k, e := range m {
			if _, ok := e.(string); !ok {
				return Field{Kind: KindString}.check(path+"."+k, e)
			}
		}
	}
	return nil
}

func (f Field) checkBlocks(path string, v any, bad func(string) error) error {
	maps, ok := asMaps(v)
	if !ok {
		return bad("a block")
	}
	for i, m := range maps {
		if err := f.Fields.check(fmt.Sprintf("%s[%d]", path, i), m); err != nil {
			return err
		}
	}
	return nil
}

func asMaps(v any) ([]map[string]any, bool) {
	switch t := v.(type) {
	case map[string]any:
		return []map[string]any{t}, true
	case []any:
		out := make([]map[string]any, 0, len(t))
		for _, e := range t {
			m, ok := e.(map[string]any)
			if !ok {
				return nil, false
			}
			out = append(out, m)
		}
		return out, true
	}
	return nil, false
}

// isInt accepts the forms a whole number takes after JSON and CBOR: floats without a fraction too.
func isInt(v any) bool {
	switch t := v.(type) {
	case int, int64, uint64, int32:
		return true
	case float64:
		return t == float64(int64(t))
	}
	return false
}
