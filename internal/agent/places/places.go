// Package places owns where the files of an agent's configuration say what: so that whoever reads that a value is wrong
// finds it. Only package agent imports it.
package places

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/jobspec/hclfile"
)

// Places has for each setting and block, as words of files ("client max_kill_timeout", "plugin \"exec\" config"), where
// it was written last: "file:line:column".
type Places map[string]string

// Read takes in what a file says. The struct has the places of its members in at.
func (p Places) Read(at hclfile.Positions, file any) { p.walk(at, reflect.ValueOf(file), "") }

// Forget drops a setting that something else than a file has the last word on.
func (p Places) Forget(setting string) { delete(p, setting) }

func (p Places) walk(at hclfile.Positions, v reflect.Value, path string) {
	if v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return
	}
	t := v.Elem().Type()
	for member, rng := range at[v.Interface()] {
		name := path
		if f, known := t.FieldByName(member); known {
			name = joined(path, tagged(f))
		}
		p[name] = fmt.Sprintf("%s:%d:%d", rng.Filename, rng.Start.Line, rng.Start.Column)
	}
	for i := range t.NumField() {
		name, inner := tagged(t.Field(i)), v.Elem().Field(i)
		switch {
		case t.Field(i).Anonymous:
			p.walk(at, inner.Addr(), path)
		case name == "":
		case inner.Kind() == reflect.Pointer:
			p.walk(at, inner, joined(path, name))
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Pointer:
			for j := range inner.Len() {
				p.walk(at, inner.Index(j), joined(path, name+label(inner.Index(j))))
			}
		}
	}
}

// tagged is a member's name in files; empty: it has none there.
func tagged(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
	return name
}

// label is that of a block, in front of which a space stands.
func label(block reflect.Value) string {
	t := block.Elem().Type()
	for i := range t.NumField() {
		if strings.HasSuffix(t.Field(i).Tag.Get("hcl"), ",label") {
			return " " + strconv.Quote(block.Elem().Field(i).String())
		}
	}
	return ""
}

func joined(path, name string) string { return strings.TrimPrefix(path+" "+name, " ") }

// Note puts before an error where that is written which it is about, before each of several. What no file says stays as
// it is.
func (p Places) Note(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, one := range many.Unwrap() {
			out = append(out, p.Note(one))
		}
		return errors.Join(out...)
	}
	var f *fault.Error
	for at := err; errors.As(at, &f); at = f.Err {
		if f.Subject == "" {
			continue
		}
		if place := p.find(f.Subject); place != "" {
			return fault.Note(err, place, "")
		}
		return err
	}
	return err
}

// shorter are words that subjects leave out of a setting.
var shorter = strings.NewReplacer("client host_volume", "host_volume", " config ", " ", " reserved reserved_ports",
	" reserved_ports")

// find gives the place of the longest setting with which a subject begins.
func (p Places) find(subject string) (place string) {
	longest := 0
	for setting, at := range p {
		for _, s := range []string{setting, shorter.Replace(setting)} {
			rest, begins := strings.CutPrefix(subject, s)
			if begins && len(s) > longest && (rest == "" || rest[0] == ' ') {
				place, longest = at, len(s)
			}
		}
	}
	return place
}
