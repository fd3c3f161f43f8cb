package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// failed is why a rendering failed, without what the template has read: more people see what becomes of a task than may
// read its variables and keys, and an argument of a function stands in the words of what is wrong with it.
func (r *reading) failed(name string, err error) error {
	return fault.New(fault.Invalid, "render", name, redact.MapOf(r.values()).Scrub(err.Error()))
}

// misnamed is what is wrong with the name of a source, without what the template has read: a part of that may stand in
// err, in which nobody could find it.
func (r *reading) misnamed(s Source, err error) error {
	if at, _, _ := redact.MapOf(r.values()).Find(s.Name); err != nil && at >= 0 {
		return fmt.Errorf("a name made of what the template reads is none of a %s", s.Kind)
	}
	return err
}

// values are those that a template has been given to read, and those of the environment that it has read.
func (r *reading) values() map[string]string { return r.known.Secrets(r.env...) }

// Secrets are the values in what is known, and others, as they are and as they are quoted, for whoever keeps them out
// of texts.
func (k Known) Secrets(others ...string) map[string]string {
	out := map[string]string{}
	add := func(v string) {
		quoted := strconv.Quote(v)
		for _, form := range []string{v, quoted[1 : len(quoted)-1]} {
			out[strconv.Itoa(len(out))] = form
		}
	}
	for s, text := range k {
		switch s.Kind {
		case Variable:
			for _, v := range decoded[map[string]string](text) {
				add(v)
			}
		case ConsulKey, File:
			add(decoded[string](text))
		case ConsulKeys:
			for _, p := range decoded[[]Pair](text) {
				add(p.Value)
			}
		}
	}
	for _, v := range others {
		add(v)
	}
	return out
}

// decoded is what a source has; the zero value: it is not there, or what reads it says what is wrong.
func decoded[T any](text string) (out T) {
	if json.Unmarshal([]byte(text), &out) != nil {
		var none T
		return none
	}
	return out
}

// parsed is what becomes of a text that is read as something else: its error does not repeat the text, which may be a
// part of a secret that nobody could find in it.
func parsed[T any](v T, err error) (T, error) {
	var number *strconv.NumError
	var pattern *syntax.Error
	switch {
	case errors.As(err, &number):
		err = number.Err
	case errors.As(err, &pattern):
		err = fmt.Errorf("parse the pattern: %s", pattern.Code)
	}
	return v, err
}
