package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"berth/internal/base/template"
)

// Formats are the flags -json and -t of commands that read.
type Formats struct {
	json     bool
	template string
}

// AddTo gives a command the flags, and returns it.
func (f *Formats) AddTo(cmd *Command) *Command {
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole object as JSON")
	cmd.Flags().StringVar(&f.template, "template", "", "print the object through this Go `template`")
	cmd.Flags().Letters("t=template")
	return cmd
}

// Wanted reports whether an object is to be printed whole.
func (f *Formats) Wanted() bool { return f.json || f.template != "" }

// Show writes what a read gave: as the flags say, or else as show does. err is what the read ended with.
func (f *Formats) Show(p *Printer, v any, err error, show func()) error {
	switch {
	case err != nil:
		return err
	case f.Wanted():
		return f.Print(p, v)
	}
	show()
	return nil
}

// Print writes an object as the flags say.
func (f *Formats) Print(p *Printer, v any) error {
	if f.json && f.template != "" {
		return fmt.Errorf("-json and -t exclude each other; give one")
	}
	plain, err := plainValue(v)
	if err != nil {
		return err
	}
	if f.json {
		return JSON(p, plain)
	}
	t, err := template.Parse("-t", f.template, template.Options{MissingIsError: true, Functions: templateFuncs})
	if err != nil {
		return fmt.Errorf("the template is not valid: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return fmt.Errorf("the template does not fit the object: %w", err)
	}
	p.Text(strings.TrimSuffix(b.String(), "\n") + "\n")
	return nil
}

// plainValue turns an object into maps and lists, whose keys are sorted when they are printed.
func plainValue(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the object cannot be encoded: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("the object cannot be encoded: %w", err)
	}
	return out, nil
}

// JSON writes a value as indented JSON.
func JSON(p *Printer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("the object cannot be encoded: %w", err)
	}
	_, err := p.Write(b.Bytes())
	return err
}

// templateFuncs are helpers under the names that users of other tools know.
var templateFuncs = template.Functions{
	"upper": strings.ToUpper, "lower": strings.ToLower, "trim": strings.TrimSpace,
	"join":      func(sep string, list []string) string { return strings.Join(list, sep) },
	"split":     func(sep, s string) []string { return strings.Split(s, sep) },
	"replace":   func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
	"contains":  func(part, s string) bool { return strings.Contains(s, part) },
	"hasPrefix": func(prefix, s string) bool { return strings.HasPrefix(s, prefix) },
	"hasSuffix": func(suffix, s string) bool { return strings.HasSuffix(s, suffix) },
	"quote":     func(s string) string { return fmt.Sprintf("%q", s) },
	"trunc": func(n int, s string) string {
		if n >= 0 && n < len(s) {
			return s[:n]
		}
		return s
	},
	"default": func(fallback, v any) any {
		if v == nil || v == "" || v == 0 || v == false {
			return fallback
		}
		return v
	},
	"toJson":       func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
	"toPrettyJson": func(v any) (string, error) { b, err := json.MarshalIndent(v, "", "  "); return string(b), err },
}
