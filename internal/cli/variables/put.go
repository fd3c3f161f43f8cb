package variables

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// maxFile bounds what is read of a file or of the standard input, in bytes: more does not fit into a variable.
const maxFile = 1 << 20

// putting is what a write says.
type putting struct {
	printing
	checking
	in      string
	force   bool
	verbose bool
}

func newPut(e *kit.Env) *kit.Command {
	p := &putting{}
	cmd := &kit.Command{
		Use:   "put [flags] <path|@file|-> [item=value...]",
		Short: "Write what a variable holds",
		Long: `Writes a variable: its path and items as arguments, or a file in HCL or JSON ("berth var init" makes
one), or the standard input by the name -. Items that are given beside a file take the place of those in it. A value
@file is what is in that file, and - what comes on the standard input; a value that begins with @ is written \@.

A variable that is there is replaced only with -check-index or -force, or by a file that has its modify_index.`,
		Example: `  berth var put app/db user=web password=@secret.txt
  berth var put -force app/db user=web
  berth var put @db.nv.hcl
  berth var get -out json app/db | berth var put -in json -`,
		Run: func(ctx context.Context, args []string) error {
			v, err := p.wanted(e, args)
			if err != nil {
				return err
			}
			var o *api.WriteOptions
			if v.Namespace != "" {
				o = &api.WriteOptions{Namespace: v.Namespace}
			}
			check := p.index()
			switch {
			case p.force && check != nil:
				return kit.Usage("-force and -check-index exclude each other; give one")
			case p.force:
			case check == nil:
				p.flag = int64(v.ModifyIndex)
				check = p.index()
			}
			path := v.Path
			v.Namespace, v.Lock = "", nil
			v, err = e.Client().Variables().Put(ctx, v, check, o)
			if err != nil {
				return p.refused(err, "write", path)
			}
			if p.verbose || p.out == asNothing && !p.formats.Wanted() {
				e.Err.Printf("Variable %q written, at index %d\n", v.Path, v.ModifyIndex)
			}
			return p.show(e, v)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.in, "in", "", "the file, or the standard input, is of this `form`: hcl or json")
	f.BoolVar(&p.force, "force", false, "write over whatever is there")
	f.Int64Var(&p.flag, "check-index", -1, "write only over the version with this `index`; 0: only if there is none")
	f.BoolVar(&p.verbose, "verbose", false, "say what was done, beside what is printed")
	return p.addTo(cmd, asNothing)
}

// wanted is the variable that is asked for.
func (p *putting) wanted(e *kit.Env, args []string) (*api.Variable, error) {
	v := &api.Variable{Items: api.Secrets{}}
	first, rest := args[0], args[1:]
	stdin := false
	name, isFile := strings.CutPrefix(first, "@")
	switch {
	case isFile || first == "-":
		if err := p.read(e, name, v); err != nil {
			return nil, err
		}
		stdin = first == "-"
	case len(rest) == 1 && rest[0] == "-":
		if err := p.read(e, "-", v); err != nil {
			return nil, err
		}
		if v.Path != "" && v.Path != first {
			return nil, kit.Usage("the file is about variable %q; give its path, or none", v.Path)
		}
		v.Path, rest = first, nil
	default:
		v.Path = first
	}
	given := map[string]bool{}
	for _, arg := range rest {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, kit.Usage("%q is no item; write item=value", arg)
		}
		if given[key] {
			return nil, kit.Usage("item %q is given twice; give it once", key)
		}
		given[key] = true
		if value == "-" && stdin {
			return nil, kit.Usage("the standard input is read once; item %q cannot be read from it, too", key)
		}
		stdin = stdin || value == "-"
		text, err := valueOf(e, value)
		if err != nil {
			return nil, err
		}
		v.Items[key] = text
	}
	if v.Path == "" {
		return nil, kit.Fail(fault.Invalid, `write path = "…" at its top`, "the file names no path")
	}
	v.Path = strings.Trim(v.Path, "/")
	return v, nil
}

// valueOf reads a value from where it says.
func valueOf(e *kit.Env, value string) (string, error) {
	if plain, ok := strings.CutPrefix(value, `\@`); ok {
		return "@" + plain, nil
	}
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile && value != "-" {
		return value, nil
	}
	text, _, err := e.ReadFile(name, "value", maxFile)
	if err == nil && !utf8.Valid(text) {
		err = kit.Fail(fault.Invalid, "encode it, for instance by base64",
			"%s holds no text in UTF-8, which values are", cmp.Or(name, "the standard input"))
	}
	return string(text), err
}

// document is a variable in a file.
type document struct {
	Namespace   string            `hcl:"namespace,optional"`
	Path        string            `hcl:"path,optional"`
	ModifyIndex uint64            `hcl:"modify_index,optional"`
	Items       map[string]string `hcl:"items"`
}

func (p *putting) read(e *kit.Env, name string, v *api.Variable) error {
	text, shown, err := e.ReadFile(name, "variable", maxFile)
	if err != nil {
		return err
	}
	form := p.in
	if form == "" && (strings.HasSuffix(name, ".json") || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))) {
		form = asJSON
	}
	var d document
	switch form {
	case asJSON:
		if err := jsonv2.Unmarshal(text, &d, jsonv2.MatchCaseInsensitiveNames(true)); err != nil { // no name twice
			return kit.Fail(fault.Invalid, `"berth var init -out json" makes one`, "%s is no variable in JSON: %v",
				shown, err)
		}
	case "", asHCL:
		f, diags := hclsyntax.ParseConfig(text, shown, hcl.InitialPos)
		if !diags.HasErrors() {
			diags = append(diags, gohcl.DecodeBody(f.Body, nil, &d)...)
		}
		if !diags.HasErrors() {
			diags = append(diags, twice(f.Body)...)
		}
		if diags.HasErrors() {
			return kit.Fail(fault.Invalid, `"berth var init" makes one`, "%s is no variable in HCL: %s", shown,
				kit.OneSentence(diags.Error()))
		}
	default:
		return kit.Usage("-in has to be hcl or json, is %q", p.in)
	}
	v.Namespace, v.Path = d.Namespace, d.Path
	v.ModifyIndex = d.ModifyIndex
	for k, text := range d.Items {
		v.Items[k] = text
	}
	return nil
}

// twice finds items that a file names again: the last one would count, and nobody would hear of the others.
func twice(body hcl.Body) (diags hcl.Diagnostics) {
	attributes, _ := body.JustAttributes() // it was decoded
	items := attributes["items"]
	if items == nil {
		return nil
	}
	pairs, _ := hcl.ExprMap(items.Expr)
	seen := map[string]bool{}
	for _, p := range pairs {
		key, bad := p.Key.Value(nil)
		if bad.HasErrors() || key.Type() != cty.String {
			continue
		}
		if seen[key.AsString()] {
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagError,
				Summary:  "item named twice",
				Detail:   fmt.Sprintf("%q is there already; name it once", key.AsString()),
				Subject:  p.Key.Range().Ptr(),
			})
		}
		seen[key.AsString()] = true
	}
	return diags
}

func newInit(e *kit.Env) *kit.Command {
	out := asHCL
	cmd := &kit.Command{
		Use:   "init [flags] [file]",
		Short: "Make a file with a variable to begin with",
		Example: `  berth var init
  berth var init -out json db.json`,
		Local: true,
		Run: func(_ context.Context, args []string) error {
			name := "spec.nv." + out
			if len(args) > 0 {
				name = args[0]
			}
			example := &api.Variable{
				Namespace: "default",
				Path:      "path/to/variable",
				Items:     api.Secrets{"key1": "value1", "key2": "value2"},
			}
			text := toHCL(example)
			switch out {
			case asHCL:
			case asJSON:
				data, err := json.MarshalIndent(map[string]any{
					"Namespace": example.Namespace, "Path": example.Path, "Items": map[string]string(example.Items),
				}, "", "  ")
				if err != nil {
					return err
				}
				text = string(data) + "\n"
			default:
				return kit.Usage("-out has to be hcl or json, is %q", out)
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				_, err = f.WriteString(text)
				if cerr := f.Close(); err == nil {
					err = cerr
				}
			}
			if err != nil {
				return fmt.Errorf("the file cannot be made: %w", err)
			}
			e.Out.Printf("A variable to begin with was written to %s\n", name)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", asHCL, "write it in this `form`: hcl or json")
	return cmd
}
