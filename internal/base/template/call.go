package template

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// call calls a function. args are what stands in the template, the function's own name first; nil: it has none.
func (r *run) call(dot, fn reflect.Value, n parse.Node, name string, args []parse.Node, piped reflect.Value) (
	reflect.Value, error,
) {
	if len(args) > 0 {
		args = args[1:]
	}
	values, err := r.arguments(dot, fn.Type(), n, name, args, piped)
	if err != nil {
		return reflect.Value{}, err
	}
	v, err := invoke(fn, values)
	if err != nil {
		return reflect.Value{}, r.fail(n, "error calling %s: %w", name, err)
	}
	return unwrapped(v), nil
}

// arguments evaluates those of a call, as its types want them.
func (r *run) arguments(dot reflect.Value, t reflect.Type, n parse.Node, name string, args []parse.Node,
	piped reflect.Value,
) (values []reflect.Value, err error) {
	given, fixed := len(args), t.NumIn()
	if isPiped(piped) {
		given++
	}
	switch {
	case t.IsVariadic():
		if fixed--; given < fixed {
			return nil, r.fail(n, "wrong number of args for %s: want at least %d got %d", name, fixed, len(args))
		}
	case given != fixed:
		return nil, r.fail(n, "wrong number of args for %s: want %d got %d", name, fixed, given)
	}
	in := func(i int) reflect.Type {
		if i >= fixed {
			return t.In(fixed).Elem()
		}
		return t.In(i)
	}
	for i, a := range args {
		v, err := r.argument(dot, in(i), a)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	if isPiped(piped) {
		v, err := r.fit(n, piped, in(len(args)))
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// invoke calls a function; one that panics is an error.
func invoke(fn reflect.Value, args []reflect.Value) (v reflect.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); ok {
				err = e
			} else {
				err = fmt.Errorf("%v", p)
			}
		}
	}()
	out := fn.Call(args)
	if len(out) == 2 && !out[1].IsNil() {
		return out[0], out[1].Interface().(error)
	}
	return out[0], nil
}

// unwrapped is the value of a function that returns reflect's.
func unwrapped(v reflect.Value) reflect.Value {
	if v.IsValid() && v.Type() == valueType {
		return v.Interface().(reflect.Value)
	}
	return v
}

// fit is a value as a parameter of the type; no type: as it is.
func (r *run) fit(n parse.Node, v reflect.Value, t reflect.Type) (reflect.Value, error) {
	switch {
	case !v.IsValid() && t == nil:
		return reflect.ValueOf(nil), nil
	case !v.IsValid() && canBeNil(t):
		return reflect.Zero(t), nil
	case !v.IsValid():
		return v, r.fail(n, "invalid value; expected %s", t)
	case t == valueType && v.Type() != t:
		return reflect.ValueOf(v), nil
	case t == nil || v.Type().AssignableTo(t):
		return v, nil
	}
	if v.Kind() == reflect.Interface && !v.IsNil() {
		if v = v.Elem(); v.Type().AssignableTo(t) {
			return v, nil
		}
	}
	if t.Kind() == reflect.String {
		if text, ok := as[Texter](v); ok {
			return reflect.ValueOf(text.Text()).Convert(t), nil
		}
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().AssignableTo(t):
		if v.IsNil() {
			return v, r.fail(n, "dereference of nil pointer of type %s", t)
		}
		return v.Elem(), nil
	case reflect.PointerTo(v.Type()).AssignableTo(t) && v.CanAddr():
		return v.Addr(), nil
	}
	return v, r.fail(n, "wrong type for value; expected %s; got %s", t, v.Type())
}

// argument evaluates one for a parameter of the type; no type: as it is.
func (r *run) argument(dot reflect.Value, t reflect.Type, n parse.Node) (v reflect.Value, err error) {
	switch n := n.(type) {
	case *parse.DotNode:
		v = dot
	case *parse.NilNode:
		if canBeNil(t) {
			return reflect.Zero(t), nil
		}
		return v, r.fail(n, "cannot assign nil to %s", t)
	case *parse.FieldNode:
		v, err = r.chain(dot, n, dot, n.Ident, []parse.Node{n}, nonePiped)
	case *parse.VariableNode:
		v, err = r.ofVariable(dot, n, nil, nonePiped)
	case *parse.PipeNode:
		v, err = r.pipeline(dot, n)
	case *parse.IdentifierNode:
		v, err = r.function(dot, n, n, nil, nonePiped)
	case *parse.ChainNode:
		v, err = r.chained(dot, n, nil, nonePiped)
	default:
		return r.literal(t, n)
	}
	if err != nil {
		return v, err
	}
	return r.fit(n, v, t)
}

// literal is one for a parameter of the type.
func (r *run) literal(t reflect.Type, n parse.Node) (reflect.Value, error) {
	if t == nil || t.Kind() == reflect.Interface && t.NumMethod() == 0 {
		return r.constant(n)
	}
	if t == valueType {
		v, err := r.constant(n)
		return reflect.ValueOf(v), err
	}
	v := reflect.New(t).Elem()
	number, _ := n.(*parse.NumberNode)
	var expected string
	switch {
	case t.Kind() == reflect.Bool:
		if b, ok := n.(*parse.BoolNode); ok {
			v.SetBool(b.True)
			return v, nil
		}
		expected = "bool"
	case t.Kind() == reflect.String:
		if s, ok := n.(*parse.StringNode); ok {
			v.SetString(s.Text)
			return v, nil
		}
		expected = "string"
	case v.CanInt():
		if number != nil && number.IsInt {
			v.SetInt(number.Int64)
			return v, nil
		}
		expected = "integer"
	case v.CanUint():
		if number != nil && number.IsUint {
			v.SetUint(number.Uint64)
			return v, nil
		}
		expected = "unsigned integer"
	case v.CanFloat():
		if number != nil && number.IsFloat {
			v.SetFloat(number.Float64)
			return v, nil
		}
		expected = "float"
	default:
		return v, r.fail(n, "can't handle %s for arg of type %s", n, t)
	}
	return v, r.fail(n, "expected %s; found %s", expected, n)
}

// number is one where nothing says which type it is to have: an int, or a float if it is written as one.
func (r *run) number(n *parse.NumberNode) (reflect.Value, error) {
	switch {
	case n.IsComplex:
		return reflect.ValueOf(n.Complex128), nil
	case n.IsFloat && writtenAsFloat(n.Text):
		return reflect.ValueOf(n.Float64), nil
	case n.IsInt:
		return reflect.ValueOf(int(n.Int64)), nil
	}
	return reflect.Value{}, r.fail(n, "%s overflows int", n.Text)
}

// writtenAsFloat knows numbers with a point or an exponent from hexadecimal digits and characters in quotes.
func writtenAsFloat(text string) bool {
	hex := len(text) > 2 && strings.HasPrefix(strings.ToLower(text), "0x") && !strings.ContainsAny(text, "pP")
	return !hex && text[0] != '\'' && strings.ContainsAny(text, ".eEpP")
}
