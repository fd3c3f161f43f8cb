package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/pattern"
)

// Bounds of what ${…} becomes. Each reference may stand for a text full of references: nine variables of ten references
// each are a billion times the first.
const (
	// MaxEnvString is the length of NAME=value with the byte that ends it (Linux, MAX_ARG_STRLEN).
	MaxEnvString = 128 << 10
	// MaxEnv is that of all of them together: what the kernel hands to a process under the usual limit of its stack
	// (execve(2), a quarter of 8 MiB).
	MaxEnv = 2 << 20
	// MaxExpanded is that of any other text of a job, of a template for one.
	MaxExpanded = 1 << 20
)

var reference = pattern.Of(`\$\{([^${}]+)\}`)

// Expand puts what lookup knows in the place of ${…}, up to a length; what it does not know stays as it is, because
// shells have variables too. A text without any ${ is not looked at.
func Expand(text string, lookup func(name string) (string, bool), most int) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var out strings.Builder
	add := func(s string) error {
		if out.Len()+len(s) > most {
			return fault.WithHint(fault.New(fault.Invalid, "", "",
				fmt.Sprintf("with what ${…} stands for it has more than %d bytes", most)),
				"reference fewer or shorter texts; or bring the text along as a file")
		}
		out.WriteString(s)
		return nil
	}
	for text != "" {
		at := reference().FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		value, known := lookup(strings.TrimSpace(text[at[2]:at[3]]))
		if !known {
			value = text[at[0]:at[1]]
		}
		if err := add(text[:at[0]]); err != nil {
			return "", err
		}
		if err := add(value); err != nil {
			return "", err
		}
		text = text[at[1]:]
	}
	err := add(text)
	return out.String(), err
}

// Lookup is what NAME, env["NAME"] and, of the others, attr.…, meta.… and node.… stand for.
func Lookup(name string, vars, others map[string]string) (string, bool) {
	if inner, ok := strings.CutPrefix(name, "env["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		v, found := vars[strings.Trim(inner, `"'`)]
		return v, ok && found
	}
	if v, ok := vars[name]; ok {
		return v, true
	}
	v, ok := others[name]
	return v, ok
}

// Env is an environment that grows within its bounds.
type Env struct {
	Vars map[string]string
	size int
}

// Set adds a variable, also in the place of one that there is.
func (e *Env) Set(name, value string) error {
	if e.Vars == nil {
		e.Vars = map[string]string{}
	}
	n := len(name) + len(value) + 2
	if n > MaxEnvString {
		return tooLarge(name, fmt.Sprintf("with its name it has %d bytes, a process takes %d", n, MaxEnvString))
	}
	if was, ok := e.Vars[name]; ok {
		e.size -= len(name) + len(was) + 2
	}
	if e.size += n; e.size > MaxEnv {
		return tooLarge(name,
			fmt.Sprintf("with those before it the environment has %d bytes, a process takes %d", e.size, MaxEnv))
	}
	e.Vars[name] = value
	return nil
}

// Expand adds a variable with what ${…} in its value stands for: the variables before it, and others.
func (e *Env) Expand(name, text string, others map[string]string) error {
	value, err := Expand(text, func(name string) (string, bool) { return Lookup(name, e.Vars, others) }, MaxEnvString)
	if err != nil {
		return fault.Note(err, "set", fmt.Sprintf("variable %.100q", name))
	}
	return e.Set(name, value)
}

// Copy adds variables in the order of their names.
func (e *Env) Copy(vars map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if err := e.Set(name, vars[name]); err != nil {
			return err
		}
	}
	return nil
}

func tooLarge(name, text string) error {
	return fault.WithHint(fault.New(fault.Invalid, "set", fmt.Sprintf("variable %.100q", name), text),
		"hand large texts over as files, by a template")
}

// CheckEnv refuses an environment that no process could be given, whatever the node contributes to it: each of its
// variables by name.
func (t *Task) CheckEnv() error {
	var e Env
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if err := e.Expand(name, t.Env[name], nil); err != nil {
			errs = append(errs, err)
		}
		if e.size > MaxEnv || len(errs) == maxNamed { // of all that follow the same would be said
			break
		}
	}
	return errors.Join(errs...)
}

// maxNamed is how many variables are named that no process could be given.
const maxNamed = 20
