// Package jobjson owns how a job in JSON is read: in one pass, strictly, with the paths of the members that no job has.
// Readers of job files and of requests import it.
package jobjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"berth/api"
	"berth/jobspec/near"
)

// maxJSONDepth bounds the nesting of a job in JSON, its free-form parts included.
const maxJSONDepth = 100

// Decode decodes a job in JSON: the bare job, or an object with the one member "Job". Besides the job it
// gives the members that no job has and that carry something (null and empty values are forgiven); whoever
// accepts the job must refuse or name them. A member that is there twice is an error.
func Decode(data []byte) (*api.Job, []Unknown, error) {
	if !hasMember(data, "Job") {
		job := new(api.Job)
		unknown, err := decodeStrict(data, job)
		if err != nil {
			return nil, nil, err
		}
		return job, unknown, nil
	}
	var wrapped struct{ Job *api.Job }
	unknown, err := decodeStrict(data, &wrapped)
	if err != nil {
		return nil, nil, err
	}
	if wrapped.Job == nil {
		return nil, nil, errors.New("the member Job is null; put the job there")
	}
	return wrapped.Job, unknown, nil
}

// DecodeRequest decodes the body of a request that carries a job in its member "Job", such as a JobRegisterRequest.
// The job is read as by Decode, in the same reading; of the members beside it, those that nobody knows are
// ignored, as in every other request.
func DecodeRequest(data []byte, into any) ([]Unknown, error) {
	r := newStrictReader(data)
	r.lenientRoot = true
	return r.document(into)
}

func decodeStrict(data []byte, into any) ([]Unknown, error) {
	return newStrictReader(data).document(into)
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

// Unknown is a member that no job has.
type Unknown struct {
	Path string // TaskGroups[0].Nam
	// Near is the member that was probably meant; empty: none is like it, or too many were looked for already.
	Near string
}

func (u Unknown) String() string {
	if u.Near == "" {
		return u.Path
	}
	return fmt.Sprintf("%s; did you mean %q?", u.Path, u.Near)
}

// maxNamed bounds how many unknown members are compared with those that there are, and named where they are ignored.
const maxNamed = 100

// Ignored gives a sentence for each unknown member, for whoever takes the job without them.
func Ignored(unknown []Unknown) []string {
	var out []string
	for i, u := range unknown {
		if i == maxNamed {
			return append(out, fmt.Sprintf("%d more members that are not known are ignored", len(unknown)-i))
		}
		text := "the member " + u.Path + " is not known and has no effect"
		if u.Near != "" {
			text += fmt.Sprintf("; did you mean %q?", u.Near)
		}
		out = append(out, text)
	}
	return out
}

// strictReader fills a value from JSON in one reading and notes what the value's type does not have. Names match as in
// encoding/json, without regard to case.
type strictReader struct {
	dec         *json.Decoder
	data        []byte
	lenientRoot bool   // members of the document itself may be unknown
	path        []step // where the reading is
	unknown     []Unknown
	mismatch    error // the first value that does not fit its type; what is not JSON at all comes before it
}

// step is one step of a path: into a member of an object, or into an element of a list.
type step struct {
	name  string
	index int          // of an element, -1 for members
	owner reflect.Type // the struct that has the member as a field
	field string       // how the struct calls it
}

func newStrictReader(data []byte) *strictReader {
	return &strictReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
}

func (r *strictReader) document(into any) ([]Unknown, error) {
	if err := r.value(reflect.ValueOf(into).Elem()); err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, r.errorf("there is more text after the JSON document")
	}
	if r.mismatch != nil {
		return nil, fmt.Errorf("decode JSON: %w", r.mismatch)
	}
	return r.unknown, nil
}

// PlacedError is what is wrong with a document, and where.
type PlacedError struct {
	Line int // from 1
	Text string
}

func (e *PlacedError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

func (r *strictReader) errorf(format string, args ...any) error {
	return &PlacedError{Line: r.line(r.dec.InputOffset()), Text: fmt.Sprintf(format, args...)}
}

func (r *strictReader) line(offset int64) int {
	return 1 + bytes.Count(r.data[:min(int(offset), len(r.data))], []byte("\n"))
}

func (r *strictReader) syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.errorf("the JSON document ends in the middle")
	}
	var syn *json.SyntaxError
	if errors.As(err, &syn) {
		return &PlacedError{Line: r.line(syn.Offset), Text: "not valid JSON: " + err.Error()}
	}
	return fmt.Errorf("not valid JSON: %w", err)
}

// names writes the path that leads to a member: TaskGroups[0].Name.
func (r *strictReader) names() string {
	var b strings.Builder
	for i, s := range r.path {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(s.name)
	}
	return b.String()
}

// value reads one value into dst.
func (r *strictReader) value(dst reflect.Value) error {
	if len(r.path) > maxJSONDepth {
		return r.errorf("the document is nested more than %d levels deep", maxJSONDepth)
	}
	t := dst.Type()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Interface:
		return r.container(dst, t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return r.container(dst, t)
		}
	}
	if r.nested() {
		return r.container(dst, t) // by steps, whose depth is bounded
	}
	return r.fits(r.dec.Decode(dst.Addr().Interface()))
}

// nested reports whether an object or a list comes next.
func (r *strictReader) nested() bool {
	rest := bytes.TrimLeft(r.data[r.dec.InputOffset():], " \t\r\n:,")
	return len(rest) > 0 && (rest[0] == '{' || rest[0] == '[')
}

// fits notes a value that does not fit and gives back what is not JSON.
func (r *strictReader) fits(err error) error {
	var syn *json.SyntaxError
	switch {
	case err == nil:
	case errors.As(err, &syn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.syntax(err)
	case r.mismatch == nil:
		r.mismatch = r.placed(err)
	}
	return nil
}

// placed tells in the words of encoding/json where a value does not fit.
func (r *strictReader) placed(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	var fields []string
	for _, s := range r.path {
		if s.owner != nil {
			wrong.Struct, fields = s.owner.Name(), append(fields, s.field)
		}
	}
	wrong.Field = strings.Join(fields, ".")
	return wrong
}

// container reads a value that may hold others; t is the type behind the pointers of dst.
func (r *strictReader) container(dst reflect.Value, t reflect.Type) error {
	tok, err := r.dec.Token()
	if err != nil {
		return r.fits(err)
	}
	if tok == nil {
		return nil
	}
	kind := t.Kind()
	switch tok {
	case json.Delim('{'):
		if kind == reflect.Struct || kind == reflect.Map {
			return r.object(behind(dst))
		}
	case json.Delim('['):
		if kind == reflect.Slice {
			return r.list(behind(dst))
		}
	}
	if kind != reflect.Interface {
		if err := r.fits(&json.UnmarshalTypeError{Value: kindOf(tok), Type: t}); err != nil {
			return err
		}
		var skipped any
		dst = reflect.ValueOf(&skipped).Elem()
	}
	return r.free(behind(dst), tok)
}

// free reads the rest of a value of any type into an interface.
func (r *strictReader) free(dst reflect.Value, tok json.Token) error {
	switch tok {
	case json.Delim('{'):
		m := map[string]any{}
		dst.Set(reflect.ValueOf(m))
		return r.object(reflect.ValueOf(m))
	case json.Delim('['):
		list := []any{}
		err := r.list(reflect.ValueOf(&list).Elem())
		dst.Set(reflect.ValueOf(list))
		return err
	}
	dst.Set(reflect.ValueOf(tok))
	return nil
}

// behind gives the value that pointers lead to, which it makes.
func behind(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return v
}

// kindOf names a token's kind as encoding/json does.
func kindOf(tok json.Token) string {
	switch tok {
	case json.Delim('{'):
		return "object"
	case json.Delim('['):
		return "array"
	}
	switch tok.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}

func (r *strictReader) list(dst reflect.Value) error {
	dst.Set(reflect.MakeSlice(dst.Type(), 0, 0))
	for i := 0; r.dec.More(); i++ {
		dst.Set(reflect.Append(dst, reflect.Zero(dst.Type().Elem())))
		if err := r.into(step{index: i}, dst.Index(i)); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return r.syntax(err)
}

func (r *strictReader) into(s step, dst reflect.Value) error {
	r.path = append(r.path, s)
	err := r.value(dst)
	r.path = r.path[:len(r.path)-1]
	return err
}

// object reads members into a struct or a map.
func (r *strictReader) object(dst reflect.Value) error {
	if dst.Kind() == reflect.Map && dst.IsNil() {
		dst.Set(reflect.MakeMap(dst.Type()))
	}
	read := map[string]bool{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return r.syntax(err)
		}
		key := tok.(string)
		if err := r.member(dst, key, read); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return r.syntax(err)
}

func (r *strictReader) member(dst reflect.Value, key string, read map[string]bool) error {
	s := step{name: key, index: -1}
	if dst.Kind() == reflect.Map {
		if err := r.once(s, key, read); err != nil {
			return err
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		err := r.into(s, elem)
		dst.SetMapIndex(reflect.ValueOf(key).Convert(dst.Type().Key()), elem)
		return err
	}
	f, known := fieldsOf(dst.Type()).find(key)
	if !known {
		return r.unknownMember(s, fieldsOf(dst.Type()), read)
	}
	s.owner, s.field = dst.Type(), f.name
	if err := r.once(s, f.name, read); err != nil {
		return err
	}
	return r.into(s, dst.FieldByIndex(f.index))
}

// once refuses a member that was there before.
func (r *strictReader) once(s step, name string, read map[string]bool) error {
	if read[name] {
		r.path = append(r.path, s)
		return r.errorf("the member %s is there twice", r.names())
	}
	read[name] = true
	return nil
}

// unknownMember reads over a member that the struct does not have.
func (r *strictReader) unknownMember(s step, there *structFields, read map[string]bool) error {
	if err := r.once(s, s.name, read); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := r.dec.Decode(&raw); err != nil {
		return r.syntax(err)
	}
	if emptyJSON(raw) || r.lenientRoot && len(r.path) == 0 {
		return nil
	}
	r.path = append(r.path, s)
	u := Unknown{Path: strings.TrimPrefix(r.names(), "Job.")}
	if len(r.unknown) < maxNamed {
		u.Near = near.Name(s.name, there.names())
	}
	r.unknown = append(r.unknown, u)
	r.path = r.path[:len(r.path)-1]
	return nil
}

// emptyJSON reports whether a value carries nothing.
func emptyJSON(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "null", `""`, "{}", "[]", "false", "0":
		return true
	}
	return false
}
