// Package template owns the execution of templates in the language of Go's text/template, whose parser it uses, with
// the same results and the same words for what is wrong. Three things are left out: methods of values are not called
// by their names, and neither channels nor functions are ranged over. A program in which methods are found by name has
// to keep every exported method of every type that it has, whether anything calls it or not: a tenth of its size. What
// a value offers besides its fields it says itself (Object).
package template

import (
	"fmt"
	"io"
	"reflect"
	"text/template/parse"
)

// Object is a value that has members besides its fields. One that is a function is called with the arguments that
// follow its name, as a method would be.
type Object interface {
	// Member returns a member; false: it has none of that name, which may be a field.
	Member(name string) (any, bool)
}

// Texter is a value that is a text wherever a function takes one.
type Texter interface {
	Text() string
}

// Functions are those of templates, by their names. Each returns one value, or one and an error. The last argument of a
// pipeline's function is what was piped.
type Functions map[string]any

// Options are how a template is read.
type Options struct {
	Left, Right    string // delimiters; empty: {{ and }}
	MissingIsError bool   // a key that a map lacks is an error, not a value that is not there
	Functions      Functions
}

// Template is one that was parsed, with those that it defines. It may be executed by several at once.
type Template struct {
	name           string
	trees          map[string]*parse.Tree
	functions      map[string]reflect.Value
	missingIsError bool
}

// Parse reads a template. Its error names the place.
func Parse(name, text string, o Options) (*Template, error) {
	t := &Template{
		name:           name,
		functions:      map[string]reflect.Value{},
		missingIsError: o.MissingIsError,
	}
	known := map[string]any{}
	for name, fn := range o.Functions {
		v := reflect.ValueOf(fn)
		if err := callable(name, v); err != nil {
			return nil, err
		}
		t.functions[name], known[name] = v, fn
	}
	trees, err := parse.Parse(name, text, o.Left, o.Right, known, builtins)
	if err != nil {
		return nil, err
	}
	t.trees = trees
	return t, nil
}

// Execute renders the template with data as its dot. What was written when an error is met stays written.
func (t *Template) Execute(w io.Writer, data any) error { return t.execute(w, t.name, data) }

// ExecuteNamed renders one that the template defines; false: it defines none of that name.
func (t *Template) ExecuteNamed(w io.Writer, name string, data any) (bool, error) {
	if t.trees[name] == nil {
		return false, nil
	}
	return true, t.execute(w, name, data)
}

func (t *Template) execute(w io.Writer, name string, data any) error {
	dot := reflect.ValueOf(data)
	tree := t.trees[name]
	if tree == nil || tree.Root == nil {
		return fmt.Errorf("template: %s: %q is an incomplete or empty template", name, name)
	}
	r := &run{
		of:   t,
		tree: tree,
		w:    w,
		vars: []variable{{"$", dot}},
	}
	_, err := r.walk(dot, tree.Root)
	return err
}

// callable refuses what is no function, or returns what none may.
func callable(name string, v reflect.Value) error {
	if v.Kind() != reflect.Func {
		return fmt.Errorf("value for %s not a function", name)
	}
	switch typ := v.Type(); {
	case typ.NumOut() == 1, typ.NumOut() == 2 && typ.Out(1) == errorType:
		return nil
	case typ.NumOut() == 2:
		return fmt.Errorf("invalid function signature for %s: second return value should be error; is %s",
			name, typ.Out(1))
	default:
		return fmt.Errorf("function %s has %d return values; should be 1 or 2", name, typ.NumOut())
	}
}
