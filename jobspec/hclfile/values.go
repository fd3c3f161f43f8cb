package hclfile

import (
	"encoding"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var durationType = reflect.TypeFor[time.Duration]()

// SetValue puts an HCL value into a Go value. Null leaves it as it is.
func SetValue(dst reflect.Value, v cty.Value, k Kind) error {
	if v.IsNull() {
		return nil
	}
	if dst.Kind() == reflect.Pointer {
		elem := reflect.New(dst.Type().Elem())
		if err := SetValue(elem.Elem(), v, k); err != nil {
			return err
		}
		dst.Set(elem)
		return nil
	}
	if dst.Type() == durationType {
		d, err := toDuration(v)
		if err != nil {
			return err
		}
		dst.SetInt(int64(d))
		return nil
	}
	if k == KindBytes {
		n, err := toBytes(v)
		if err != nil {
			return err
		}
		return setInt(dst, big.NewInt(n))
	}
	if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, err := ToText(v)
		if err != nil {
			return err
		}
		return u.UnmarshalText([]byte(text))
	}
	return setPlain(dst, v)
}

func setPlain(dst reflect.Value, v cty.Value) error {
	switch dst.Kind() {
	case reflect.String:
		text, err := ToText(v)
		if err != nil {
			return err
		}
		dst.SetString(text)
		return nil
	case reflect.Bool:
		b, err := convert.Convert(v, cty.Bool)
		if err != nil {
			return fmt.Errorf("must be true or false, not %s", Describe(v))
		}
		dst.SetBool(b.True())
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := toInteger(v)
		if err != nil {
			return err
		}
		return setInt(dst, n)
	case reflect.Float32, reflect.Float64:
		n, err := convert.Convert(v, cty.Number)
		if err != nil {
			return fmt.Errorf("must be a number, not %s", Describe(v))
		}
		f, _ := n.AsBigFloat().Float64()
		dst.SetFloat(f)
		return nil
	case reflect.Slice:
		return setSlice(dst, v)
	case reflect.Map:
		return setMap(dst, v)
	case reflect.Interface:
		plain, err := toPlain(v)
		if err != nil {
			return err
		}
		dst.Set(reflect.ValueOf(plain))
		return nil
	}
	return fmt.Errorf("cannot be written as a value; write it as a block")
}

func setSlice(dst reflect.Value, v cty.Value) error {
	if !isList(v.Type()) {
		return fmt.Errorf("must be a list, not %s; put it in brackets: [ … ]", Describe(v))
	}
	out := reflect.MakeSlice(dst.Type(), 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		i, ev := it.Element()
		if ev.IsNull() {
			return fmt.Errorf("element %s is null", i.AsBigFloat().Text('f', 0))
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		if err := SetValue(elem, ev, KindAttr); err != nil {
			return fmt.Errorf("element %d: %w", out.Len(), err)
		}
		out = reflect.Append(out, elem)
	}
	dst.Set(out)
	return nil
}

func setMap(dst reflect.Value, v cty.Value) error {
	if !isMap(v.Type()) {
		return fmt.Errorf("must be a map of names and values, not %s", Describe(v))
	}
	out := reflect.MakeMap(dst.Type())
	for it := v.ElementIterator(); it.Next(); {
		key, ev := it.Element()
		if ev.IsNull() {
			continue // null is unset
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		if err := SetValue(elem, ev, KindAttr); err != nil {
			return fmt.Errorf("%q: %w", key.AsString(), err)
		}
		out.SetMapIndex(reflect.ValueOf(key.AsString()).Convert(dst.Type().Key()), elem)
	}
	dst.Set(out)
	return nil
}

func isList(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }
func isMap(t cty.Type) bool  { return t.IsObjectType() || t.IsMapType() }

// Describe names a value for a message: its kind, and a scalar itself.
func Describe(v cty.Value) string {
	switch t := v.Type(); {
	case t == cty.String:
		return fmt.Sprintf("the text %q", shorten(v.AsString()))
	case t == cty.Number:
		return "the number " + v.AsBigFloat().Text('g', 10)
	case t == cty.Bool:
		return fmt.Sprint(v.True())
	case isList(t):
		return "a list"
	case isMap(t):
		return "a map"
	default:
		return typeexpr.TypeString(t)
	}
}

func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// ToText is a value as text; numbers and truth values have one.
func ToText(v cty.Value) (string, error) {
	out, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", fmt.Errorf("must be a text, not %s", Describe(v))
	}
	return out.AsString(), nil
}

func toInteger(v cty.Value) (*big.Int, error) {
	n, err := convert.Convert(v, cty.Number)
	if err != nil || n.IsNull() {
		way := ""
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() && v.AsString() != "" && isDigit(v.AsString()[0]) {
			way = "; write the number alone, without a unit"
		}
		return nil, fmt.Errorf("must be a whole number, not %s%s", Describe(v), way)
	}
	i, accuracy := n.AsBigFloat().Int(nil)
	if i == nil || accuracy != big.Exact {
		return nil, fmt.Errorf("must be a whole number, not %s", Describe(n))
	}
	return i, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func setInt(dst reflect.Value, n *big.Int) error {
	if dst.CanInt() {
		if !n.IsInt64() || dst.OverflowInt(n.Int64()) {
			return fmt.Errorf("the number %s is out of range: %d bits", shorten(n.String()), dst.Type().Bits())
		}
		dst.SetInt(n.Int64())
		return nil
	}
	if !dst.CanUint() {
		return errors.New("cannot hold a number")
	}
	if !n.IsUint64() || dst.OverflowUint(n.Uint64()) {
		return fmt.Errorf("the number %s is out of range: not negative, %d bits", shorten(n.String()),
			dst.Type().Bits())
	}
	dst.SetUint(n.Uint64())
	return nil
}

// toDuration reads a text with units, or a number of nanoseconds.
func toDuration(v cty.Value) (time.Duration, error) {
	if v.Type() == cty.String {
		text := strings.TrimSpace(v.AsString())
		if _, err := strconv.ParseInt(text, 10, 64); err == nil && text != "0" {
			return 0, fmt.Errorf("the duration %q has no unit; write %q for seconds", text, text+"s")
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration; write one like \"30s\", \"5m\" or \"1h30m\"", shorten(text))
		}
		return d, nil
	}
	n, err := toInteger(v)
	if err != nil {
		return 0, fmt.Errorf("must be a duration like \"30s\", not %s", Describe(v))
	}
	if !n.IsInt64() {
		return 0, fmt.Errorf("the duration %s is out of range", shorten(n.String()))
	}
	return time.Duration(n.Int64()), nil
}

// toPlain turns a value into what JSON would decode to, but keeps whole numbers whole.
func toPlain(v cty.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	switch t := v.Type(); {
	case t == cty.String:
		return v.AsString(), nil
	case t == cty.Bool:
		return v.True(), nil
	case t == cty.Number:
		f := v.AsBigFloat()
		if i, accuracy := f.Int64(); accuracy == big.Exact {
			return int(i), nil
		}
		out, _ := f.Float64()
		return out, nil
	case isList(t):
		out := make([]any, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, ev := it.Element()
			p, err := toPlain(ev)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
		return out, nil
	case isMap(t):
		out := make(map[string]any, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			k, ev := it.Element()
			p, err := toPlain(ev)
			if err != nil {
				return nil, err
			}
			out[k.AsString()] = p
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be used here", typeexpr.TypeString(v.Type()))
}
