package template

import (
	"reflect"
	"text/template/parse"
)

// pipeline evaluates commands, each of which is given what the one before it gave, and sets the variables.
func (r *run) pipeline(dot reflect.Value, n *parse.PipeNode) (v reflect.Value, err error) {
	if n == nil {
		return reflect.Value{}, nil
	}
	v = nonePiped
	for _, c := range n.Cmds {
		if v, err = r.command(dot, c, v); err != nil {
			return reflect.Value{}, err
		}
		if v.Kind() == reflect.Interface && v.NumMethod() == 0 {
			v = v.Elem()
		}
	}
	for _, d := range n.Decl {
		if !n.IsAssign {
			r.vars = append(r.vars, variable{d.Ident[0], v})
		} else if err := r.set(n, d.Ident[0], v); err != nil {
			return reflect.Value{}, err
		}
	}
	return v, nil
}

// command evaluates one. piped is what comes from the one before it, nonePiped for the first.
func (r *run) command(dot reflect.Value, n *parse.CommandNode, piped reflect.Value) (reflect.Value, error) {
	switch first := n.Args[0].(type) {
	case *parse.FieldNode:
		return r.chain(dot, first, dot, first.Ident, n.Args, piped)
	case *parse.ChainNode:
		return r.chained(dot, first, n.Args, piped)
	case *parse.IdentifierNode:
		return r.function(dot, first, n, n.Args, piped)
	case *parse.VariableNode:
		return r.ofVariable(dot, first, n.Args, piped)
	case *parse.PipeNode:
		if err := r.alone(first, n.Args, piped); err != nil {
			return reflect.Value{}, err
		}
		return r.pipeline(dot, first)
	}
	first := n.Args[0]
	if err := r.alone(first, n.Args, piped); err != nil {
		return reflect.Value{}, err
	}
	switch first := first.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return reflect.Value{}, r.fail(first, "nil is not a command")
	}
	return r.constant(first)
}

// alone refuses arguments of what takes none.
func (r *run) alone(n parse.Node, args []parse.Node, piped reflect.Value) error {
	if len(args) > 1 || isPiped(piped) {
		return r.fail(n, "can't give argument to non-function %s", args[0])
	}
	return nil
}

// constant is the value of a literal where nothing says which type it is to have.
func (r *run) constant(n parse.Node) (reflect.Value, error) {
	switch n := n.(type) {
	case *parse.BoolNode:
		return reflect.ValueOf(n.True), nil
	case *parse.StringNode:
		return reflect.ValueOf(n.Text), nil
	case *parse.NumberNode:
		return r.number(n)
	}
	return reflect.Value{}, r.fail(n, "can't evaluate command %q", n)
}

// ofVariable evaluates a variable, or fields of its value.
func (r *run) ofVariable(dot reflect.Value, n *parse.VariableNode, args []parse.Node, piped reflect.Value) (
	reflect.Value, error,
) {
	v, err := r.variable(n, n.Ident[0])
	if err != nil {
		return reflect.Value{}, err
	}
	if len(n.Ident) == 1 {
		return v, r.alone(n, args, piped)
	}
	return r.chain(dot, n, v, n.Ident[1:], args, piped)
}

// chained evaluates fields of what is in parentheses.
func (r *run) chained(dot reflect.Value, n *parse.ChainNode, args []parse.Node, piped reflect.Value) (
	reflect.Value, error,
) {
	if n.Node.Type() == parse.NodeNil {
		return reflect.Value{}, r.fail(n, "indirection through explicit nil in %s", n)
	}
	v, err := r.argument(dot, nil, n.Node)
	if err != nil {
		return reflect.Value{}, err
	}
	return r.chain(dot, n, v, n.Field, args, piped)
}

// chain evaluates fields of fields. Only the last can take arguments.
func (r *run) chain(dot reflect.Value, n parse.Node, v reflect.Value, names []string, args []parse.Node,
	piped reflect.Value,
) (_ reflect.Value, err error) {
	last := len(names) - 1
	for _, name := range names[:last] {
		if v, err = r.field(dot, n, v, name, nil, nonePiped); err != nil {
			return reflect.Value{}, err
		}
	}
	return r.field(dot, n, v, names[last], args, piped)
}

// field evaluates a member, a field of a struct, or an element of a map.
func (r *run) field(dot reflect.Value, n parse.Node, of reflect.Value, name string, args []parse.Node,
	piped reflect.Value,
) (reflect.Value, error) {
	if !of.IsValid() {
		if r.of.missingIsError {
			return reflect.Value{}, r.fail(n, "nil data; no entry for key %q", name)
		}
		return reflect.Value{}, nil
	}
	typ := of.Type()
	in, isNil := indirect(of)
	if in.Kind() == reflect.Interface && isNil {
		return reflect.Value{}, r.fail(n, "nil pointer evaluating %s.%s", typ, name)
	}
	if m, ok := member(of, name); ok {
		return r.member(dot, n, m, name, args, piped)
	}
	has := len(args) > 1 || isPiped(piped)
	switch in.Kind() {
	case reflect.Struct:
		if f, ok := in.Type().FieldByName(name); ok {
			return r.structField(n, in, f, has)
		}
	case reflect.Map:
		if key := reflect.ValueOf(name); key.Type().AssignableTo(in.Type().Key()) {
			return r.element(n, in, key, has)
		}
	case reflect.Pointer:
		if e := in.Type().Elem(); e.Kind() == reflect.Struct {
			if _, ok := e.FieldByName(name); !ok {
				break
			}
		}
		return reflect.Value{}, r.fail(n, "nil pointer evaluating %s.%s", typ, name)
	}
	return reflect.Value{}, r.fail(n, "can't evaluate field %s in type %s", name, typ)
}

// member asks a value whether it has a member beside its fields.
func member(of reflect.Value, name string) (any, bool) {
	o, ok := as[Object](of)
	if !ok {
		return nil, false
	}
	return o.Member(name)
}

// as is what a value is to Go, if it is there and such.
func as[T any](v reflect.Value) (out T, ok bool) {
	if v = held(v); v.IsValid() && v.CanInterface() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		out, ok = v.Interface().(T)
	}
	return out, ok
}

func (r *run) member(dot reflect.Value, n parse.Node, m any, name string, args []parse.Node, piped reflect.Value) (
	reflect.Value, error,
) {
	v := reflect.ValueOf(m)
	if v.Kind() == reflect.Func {
		return r.call(dot, v, n, name, args, piped)
	}
	if len(args) > 1 || isPiped(piped) {
		return reflect.Value{}, r.fail(n, "%s has arguments but cannot be invoked as function", name)
	}
	return v, nil
}

func (r *run) structField(n parse.Node, of reflect.Value, f reflect.StructField, has bool) (reflect.Value, error) {
	v, err := of.FieldByIndexErr(f.Index)
	switch {
	case !f.IsExported():
		return reflect.Value{}, r.fail(n, "%s is an unexported field of struct type %s", f.Name, of.Type())
	case err != nil:
		return reflect.Value{}, r.fail(n, "%v", err)
	case has:
		return reflect.Value{}, r.fail(n, "%s has arguments but cannot be invoked as function", f.Name)
	}
	return v, nil
}

func (r *run) element(n parse.Node, of, key reflect.Value, has bool) (reflect.Value, error) {
	if has {
		return reflect.Value{}, r.fail(n, "%s is not a method but has arguments", key)
	}
	v := of.MapIndex(key)
	if !v.IsValid() && r.of.missingIsError {
		return reflect.Value{}, r.fail(n, "map has no entry for key %q", key)
	}
	return v, nil
}

// function calls one by its name.
func (r *run) function(dot reflect.Value, n *parse.IdentifierNode, at parse.Node, args []parse.Node,
	piped reflect.Value,
) (reflect.Value, error) {
	if fn, ok := r.of.functions[n.Ident]; ok {
		return r.call(dot, fn, at, n.Ident, args, piped)
	}
	if n.Ident == "and" || n.Ident == "or" {
		return r.lazy(dot, n, args, piped)
	}
	fn, ok := builtins[n.Ident]
	if !ok {
		return reflect.Value{}, r.fail(at, "%q is not a defined function", n.Ident)
	}
	return r.call(dot, reflect.ValueOf(fn), at, n.Ident, args, piped)
}

// lazy evaluates the arguments of "and" and "or" up to the one that decides.
func (r *run) lazy(dot reflect.Value, n *parse.IdentifierNode, args []parse.Node, piped reflect.Value) (
	v reflect.Value, err error,
) {
	rest := args[min(1, len(args)):]
	if len(rest) == 0 && !isPiped(piped) {
		return reflect.Value{}, r.fail(n, "wrong number of args for %s: want at least 1 got 0", n.Ident)
	}
	for _, a := range rest {
		if v, err = r.argument(dot, valueType, a); err != nil {
			return reflect.Value{}, err
		}
		v = unwrapped(v)
		if is, _ := isTrue(plain(v)); is == (n.Ident == "or") {
			return v, nil
		}
	}
	if isPiped(piped) {
		v = piped
	}
	return v, nil
}
