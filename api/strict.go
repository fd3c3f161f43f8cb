package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// maxJSONDepth bounds the nesting of a job in JSON, its free-form parts included.
const maxJSONDepth = 100

// DecodeJobStrict decodes a job in JSON: the bare job, or an object with the one member "Job". Besides the job it
// gives the paths of members that no job has and that carry something (null and empty values are forgiven); whoever
// accepts the job must refuse or name them. A member that is there twice is an error.
func DecodeJobStrict(data []byte) (*Job, []string, error) {
	var wrapped struct{ Job *Job }
	if hasMember(data, "Job") {
		unknown, err := DecodeStrict(data, &wrapped)
		if err != nil {
			return nil, nil, err
		}
		if wrapped.Job == nil {
			return nil, nil, errors.New("the member Job is null; put the job there")
		}
		for i := range unknown {
			unknown[i] = strings.TrimPrefix(unknown[i], "Job.")
		}
		return wrapped.Job, unknown, nil
	}
	job := new(Job)
	unknown, err := DecodeStrict(data, job)
	if err != nil {
		return nil, nil, err
	}
	return job, unknown, nil
}

// DecodeStrict decodes JSON into the value that dst points to and gives the paths of members that its type does not
// have. Names match as in encoding/json, without regard to case.
func DecodeStrict(data []byte, dst any) ([]string, error) {
	w := &strictWalker{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeOf(dst), "", 0); err != nil {
		return nil, err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, w.errorf("there is more text after the JSON document")
	}
	if err := json.Unmarshal(data, dst); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return w.unknown, nil
}

// hasMember reports whether data is an object with a member of that very name.
func hasMember(data []byte, name string) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return false // the strict decoder says why
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		if key == name {
			return true
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// strictWalker reads tokens beside a type and notes what the type does not have.
type strictWalker struct {
	dec     *json.Decoder
	data    []byte
	unknown []string
}

func (w *strictWalker) errorf(format string, args ...any) error {
	offset := min(int(w.dec.InputOffset()), len(w.data))
	line := 1 + bytes.Count(w.data[:offset], []byte("\n"))
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

// value reads one value whose type is t; nil means that anything goes.
func (w *strictWalker) value(t reflect.Type, path string, depth int) error {
	if depth > maxJSONDepth {
		return w.errorf("the document is nested more than %d levels deep", maxJSONDepth)
	}
	tok, err := w.dec.Token()
	if err != nil {
		return w.syntax(err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch tok {
	case json.Delim('{'):
		return w.object(t, path, depth)
	case json.Delim('['):
		var elem reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			elem = t.Elem()
		}
		for i := 0; w.dec.More(); i++ {
			if err := w.value(elem, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		_, err = w.dec.Token()
		return w.syntax(err)
	}
	return nil
}

func (w *strictWalker) syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return w.errorf("the JSON document ends in the middle")
	}
	var syn *json.SyntaxError
	if errors.As(err, &syn) {
		line := 1 + bytes.Count(w.data[:min(int(syn.Offset), len(w.data))], []byte("\n"))
		return fmt.Errorf("line %d: not valid JSON: %w", line, err)
	}
	return fmt.Errorf("not valid JSON: %w", err)
}

func (w *strictWalker) object(t reflect.Type, path string, depth int) error {
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.dec.Token()
		if err != nil {
			return w.syntax(err)
		}
		key := tok.(string)
		member := strings.TrimPrefix(path+"."+key, ".")
		typ, name, known := memberType(t, key)
		if seen[name] {
			return w.errorf("the member %s is there twice", member)
		}
		seen[name] = true
		if known {
			if err := w.value(typ, member, depth+1); err != nil {
				return err
			}
			continue
		}
		var raw json.RawMessage
		if err := w.dec.Decode(&raw); err != nil {
			return w.syntax(err)
		}
		if !emptyJSON(raw) {
			w.unknown = append(w.unknown, member)
		}
	}
	_, err := w.dec.Token()
	return w.syntax(err)
}

// memberType finds the type of a member of an object of type t, and the name under which it counts.
func memberType(t reflect.Type, key string) (reflect.Type, string, bool) {
	switch {
	case t == nil || t.Kind() == reflect.Interface:
		return nil, key, true
	case t.Kind() == reflect.Map:
		return t.Elem(), key, true
	case t.Kind() != reflect.Struct:
		return nil, key, true // the decoder says that the types do not fit
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if name != "-" && strings.EqualFold(name, key) {
			return f.Type, name, true
		}
	}
	return nil, key, false
}

// emptyJSON reports whether a value carries nothing.
func emptyJSON(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "null", `""`, "{}", "[]", "false", "0":
		return true
	}
	return false
}
