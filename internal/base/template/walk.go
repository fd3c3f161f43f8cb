package template

import (
	"fmt"
	"io"
	"reflect"
	"text/template/parse"
)

// run is one execution.
type run struct {
	of    *Template
	tree  *parse.Tree // that which is executed now
	w     io.Writer
	vars  []variable // those of inner blocks last
	depth int        // of templates in each other
}

type variable struct {
	name  string
	value reflect.Value
}

// maxDepth bounds how deep templates are executed in each other: a stack that overflows ends the process.
const maxDepth = 10_000

// flow is how a block ended.
type flow int

const (
	toEnd flow = iota
	broke
	continued
)

// fail says what is wrong at a node.
func (r *run) fail(n parse.Node, format string, args ...any) error {
	place, context := r.tree.ErrorContext(n)
	reason := fmt.Errorf(format, args...)
	return fmt.Errorf("template: %s: executing %q at <%s>: %w", place, r.tree.Name, context, reason)
}

// scope begins a block; what it returns ends it: its variables are gone.
func (r *run) scope() (end func()) {
	at := len(r.vars)
	return func() { r.vars = r.vars[:at] }
}

func (r *run) set(n parse.Node, name string, v reflect.Value) error {
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			r.vars[i].value = v
			return nil
		}
	}
	return r.fail(n, "undefined variable: %s", name)
}

func (r *run) variable(n parse.Node, name string) (reflect.Value, error) {
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			return r.vars[i].value, nil
		}
	}
	return reflect.Value{}, r.fail(n, "undefined variable: %s", name)
}

// walk executes a node.
func (r *run) walk(dot reflect.Value, n parse.Node) (flow, error) {
	switch n := n.(type) {
	case *parse.ActionNode:
		// Its variables stay until the end of the block. One that declares some prints nothing.
		v, err := r.pipeline(dot, n.Pipe)
		if err == nil && len(n.Pipe.Decl) == 0 {
			err = r.print(n, v)
		}
		return toEnd, err
	case *parse.TextNode:
		_, err := r.w.Write(n.Text)
		return toEnd, err
	case *parse.ListNode:
		for _, one := range n.Nodes {
			if f, err := r.walk(dot, one); f != toEnd || err != nil {
				return f, err
			}
		}
		return toEnd, nil
	case *parse.IfNode:
		return r.branch(dot, &n.BranchNode, false)
	case *parse.WithNode:
		return r.branch(dot, &n.BranchNode, true)
	case *parse.RangeNode:
		return r.loop(dot, n)
	case *parse.TemplateNode:
		return toEnd, r.template(dot, n)
	case *parse.CommentNode:
		return toEnd, nil
	case *parse.BreakNode:
		return broke, nil
	case *parse.ContinueNode:
		return continued, nil
	}
	return toEnd, r.fail(n, "unknown node: %s", n)
}

// branch executes an if, or a with, which are the same but for the dot.
func (r *run) branch(dot reflect.Value, n *parse.BranchNode, with bool) (flow, error) {
	defer r.scope()()
	v, err := r.pipeline(dot, n.Pipe)
	if err != nil {
		return toEnd, err
	}
	is, ok := isTrue(plain(v))
	switch {
	case !ok:
		return toEnd, r.fail(n, "if/with can't use %v", v)
	case is && with:
		return r.walk(v, n.List)
	case is:
		return r.walk(dot, n.List)
	case n.ElseList != nil:
		return r.walk(dot, n.ElseList)
	}
	return toEnd, nil
}

// loop executes a range.
func (r *run) loop(dot reflect.Value, n *parse.RangeNode) (flow, error) {
	defer r.scope()()
	v, err := r.pipeline(dot, n.Pipe)
	if err != nil {
		return toEnd, err
	}
	v, _ = indirect(v)
	rounds, err := r.rounds(n, v)
	if err != nil {
		return toEnd, err
	}
	empty := true
	for at, element := range rounds {
		empty = false
		f, err := r.round(n, at, element)
		if err != nil {
			return toEnd, err
		}
		if f == broke {
			break
		}
	}
	if empty && n.ElseList != nil {
		return r.walk(dot, n.ElseList)
	}
	return toEnd, nil
}

// rounds are the elements of what is ranged over, with their indexes or keys.
func (r *run) rounds(n *parse.RangeNode, v reflect.Value) (func(func(at, element reflect.Value) bool), error) {
	switch {
	case !v.IsValid(): // nil: as an empty map
		return func(func(_, _ reflect.Value) bool) {}, nil
	case v.CanInt(), v.CanUint():
		if len(n.Pipe.Decl) > 1 {
			return nil, r.fail(n, "can't use %v to iterate over more than one variable", v)
		}
		return func(yield func(_, _ reflect.Value) bool) {
			for i := range v.Seq() {
				if !yield(reflect.Value{}, i) {
					return
				}
			}
		}, nil
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		return func(yield func(_, _ reflect.Value) bool) {
			for i := range v.Len() {
				if !yield(reflect.ValueOf(i), v.Index(i)) {
					return
				}
			}
		}, nil
	case v.Kind() == reflect.Map:
		return func(yield func(_, _ reflect.Value) bool) {
			for _, key := range sortedKeys(v) {
				if !yield(key, v.MapIndex(key)) {
					return
				}
			}
		}, nil
	}
	return nil, r.fail(n, "range can't iterate over %v", v)
}

// round goes round once. Its variables are the last that there are: the pipeline has declared them.
func (r *run) round(n *parse.RangeNode, at, element reflect.Value) (flow, error) {
	defer r.scope()()
	first := element
	if len(n.Pipe.Decl) > 1 {
		first = at
	}
	for i, d := range n.Pipe.Decl {
		v := element
		if i == 0 {
			v = first
		}
		if !n.Pipe.IsAssign {
			r.vars[len(r.vars)-len(n.Pipe.Decl)+i].value = v
		} else if err := r.set(n, d.Ident[0], v); err != nil {
			return toEnd, err
		}
	}
	return r.walk(element, n.List)
}

// template executes another. It inherits no variables.
func (r *run) template(dot reflect.Value, n *parse.TemplateNode) error {
	tree := r.of.trees[n.Name]
	switch {
	case tree == nil:
		return r.fail(n, "template %q not defined", n.Name)
	case r.depth == maxDepth:
		return r.fail(n, "exceeded maximum template depth (%v)", maxDepth)
	}
	dot, err := r.pipeline(dot, n.Pipe)
	if err != nil {
		return err
	}
	inner := &run{
		of:    r.of,
		tree:  tree,
		w:     r.w,
		vars:  []variable{{"$", dot}},
		depth: r.depth + 1,
	}
	_, err = inner.walk(dot, tree.Root)
	return err
}

// print writes what an action evaluates to.
func (r *run) print(n parse.Node, v reflect.Value) error {
	out, ok := printable(v)
	if !ok {
		return r.fail(n, "can't print %s of type %s", n, v.Type())
	}
	_, err := fmt.Fprint(r.w, out)
	return err
}
