package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/jobspec/functions"
	"berth/jobspec/hclfile"
	"berth/jobspec/near"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is one declaration of an input.
type variable struct {
	name     string
	block    *hclsyntax.Block // nil in the map form
	rng      hcl.Range
	typ      cty.Type
	defaults *typeexpr.Defaults
	value    cty.Value // NilVal until one is known
	from     hcl.Range // where the value was given
	asked    bool      // somebody gave a value or a type; what is wrong with it has been said
}

// inputs resolves variables and locals of a document.
type inputs struct {
	report *hclfile.Report
	doc    *hclfile.Source
	cfg    *ParseConfig
	funcs  *hcl.EvalContext
	vars   map[string]*variable
	order  []string
	lost   bool // a file of values could not be read
}

// newScope reads the variable, variables and locals blocks and gives back what expressions of the job may use.
func newScope(r *hclfile.Report, doc *hclfile.Source, cfg *ParseConfig, base *hcl.EvalContext) *hclfile.Scope {
	in := &inputs{
		report: r,
		doc:    doc,
		cfg:    cfg,
		funcs:  base,
		vars:   map[string]*variable{},
	}
	in.declare()
	in.assign()
	sizes := map[string]int{}
	values := map[string]cty.Value{}
	for _, name := range in.order {
		v := in.vars[name]
		if v.value == cty.NilVal {
			if !v.asked && !in.lost {
				r.Add(v.rng,
					"the variable %q has no value and no default; give one with -var %s=…, a -var-file or NOMAD_VAR_%s",
					name, name, name)
			}
			v.value = cty.DynamicVal
		}
		values[name] = v.value
		in.measure("var."+name, v.value, v.rng, sizes)
	}
	ctx := base.NewChild()
	ctx.Variables = map[string]cty.Value{"var": cty.ObjectVal(values), "local": cty.EmptyObjectVal}
	s := &hclfile.Scope{Ctx: ctx, Known: map[string]bool{"var": true, "local": true}, Sizes: sizes}
	if r.Failed() {
		return nil
	}
	in.validate(s)
	in.locals(s)
	if r.Failed() {
		return nil
	}
	return s
}

func (in *inputs) measure(name string, v cty.Value, rng hcl.Range, sizes map[string]int) {
	size := functions.SizeOf(v, functions.MaxValue)
	if size > functions.MaxValue {
		in.report.Add(rng, "%s is larger than %d bytes", name, functions.MaxValue)
	}
	sizes[name] = size
}

func (in *inputs) declare() {
	for _, b := range in.doc.Body.Blocks {
		switch b.Type {
		case "variable":
			in.declareBlock(b)
		case "variables":
			in.declareMap(b)
		}
	}
}

func (in *inputs) add(v *variable) bool {
	if old, dup := in.vars[v.name]; dup {
		in.report.Add(v.rng, "the variable %q is declared twice, first on line %d", v.name, old.rng.Start.Line)
		return false
	}
	in.vars[v.name] = v
	in.order = append(in.order, v.name)
	return true
}

// variableAttrs are the attributes of a variable block.
var variableAttrs = []string{"type", "default", "description", "sensitive"}

func (in *inputs) declareBlock(b *hclsyntax.Block) {
	if len(b.Labels) != 1 || !hclsyntax.ValidIdentifier(b.Labels[0]) {
		in.report.Add(b.DefRange(), "a variable block has one label, a name of letters, digits, - and _")
		return
	}
	v := &variable{name: b.Labels[0], block: b, rng: b.DefRange(), typ: cty.DynamicPseudoType}
	if !in.add(v) {
		return
	}
	for _, a := range hclfile.SortedAttrs(b.Body) {
		if !slices.Contains(variableAttrs, a.Name) {
			in.report.Add(a.NameRange, "a variable has no attribute %q; there are %s and the block validation", a.Name,
				strings.Join(variableAttrs, ", "))
		}
	}
	for _, inner := range b.Body.Blocks {
		if inner.Type != "validation" {
			in.report.Add(inner.DefRange(), "a variable has no block %q; there is validation", inner.Type)
		}
	}
	if a := b.Body.Attributes["type"]; a != nil {
		typ, defaults, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
		in.report.Diags(diags)
		if diags.HasErrors() {
			v.asked = true
			return
		}
		v.typ, v.defaults = typ, defaults
	}
	if a := b.Body.Attributes["default"]; a != nil {
		v.asked = true
		if val, ok := in.constant().Value(in.report, in.doc, a.Expr); ok {
			in.set(v, val, a.Expr.Range())
		}
	}
}

func (in *inputs) declareMap(b *hclsyntax.Block) {
	for _, a := range hclfile.SortedAttrs(b.Body) {
		v := &variable{name: a.Name, rng: a.NameRange, typ: cty.DynamicPseudoType, asked: true}
		if !in.add(v) {
			continue
		}
		if val, ok := in.constant().Value(in.report, in.doc, a.Expr); ok {
			in.set(v, val, a.Expr.Range())
		}
	}
	for _, inner := range b.Body.Blocks {
		in.report.Add(inner.DefRange(), "variables holds name = default pairs, no blocks")
	}
}

// constant is the scope of defaults and variable files: functions, but no references.
func (in *inputs) constant() *hclfile.Scope {
	return &hclfile.Scope{Ctx: in.funcs, Known: map[string]bool{}, Literal: true}
}

// set gives a variable a value, converted to its type.
func (in *inputs) set(v *variable, val cty.Value, rng hcl.Range) {
	if v.defaults != nil && !val.IsNull() {
		val = v.defaults.Apply(val)
	}
	out, err := convert.Convert(val, v.typ)
	if err != nil {
		in.report.Add(rng, "the value of the variable %q does not fit its type %s: %s", v.name,
			typeexpr.TypeString(v.typ), err)
		return
	}
	v.value, v.from = out, rng
}

// assign applies the environment, then the files, then the single values; later ones win.
func (in *inputs) assign() {
	for _, kv := range in.cfg.Env {
		name, text, ok := strings.Cut(kv, "=")
		name, isVar := strings.CutPrefix(name, "NOMAD_VAR_")
		if v := in.vars[name]; ok && isVar && v != nil {
			in.setText(v, text, "NOMAD_VAR_"+name)
		}
	}
	for _, f := range in.cfg.VarFiles {
		in.assignFile(f)
	}
	for _, name := range slices.Sorted(maps.Keys(in.cfg.Vars)) {
		v := in.vars[name]
		if v == nil {
			if in.cfg.Strict {
				in.report.AddFile("-var "+name, "the job file declares no variable %q%s", name, in.suggest(name))
			}
			continue
		}
		in.setText(v, in.cfg.Vars[name], "-var "+name)
	}
}

func (in *inputs) suggest(name string) string { return near.DidYouMean(name, in.order) }

// setText gives a variable a value that was written as text outside of any file: a plain text where the variable is
// one, else an HCL expression.
func (in *inputs) setText(v *variable, text, source string) {
	v.asked = true
	asText := v.typ == cty.String
	if v.typ == cty.DynamicPseudoType {
		asText = v.value == cty.NilVal || v.value.Type() == cty.String
	}
	if asText || v.typ == cty.Number || v.typ == cty.Bool {
		in.set(v, cty.StringVal(text), hcl.Range{Filename: source})
		return
	}
	if len(text) > hclfile.MaxSource {
		in.report.AddFile(source, "the value has more than %d bytes", hclfile.MaxSource)
		return
	}
	in.report.AddSource(source, []byte(text))
	// the parser reports what the lexer finds
	tokens, _ := hclsyntax.LexExpression([]byte(text), source, hcl.InitialPos)
	if !hclfile.CheckBounds(in.report, tokens) {
		return
	}
	e, diags := hclsyntax.ParseExpression([]byte(text), source, hcl.InitialPos)
	in.report.Diags(diags)
	if diags.HasErrors() {
		return
	}
	doc := &hclfile.Source{Path: source, Bytes: []byte(text)}
	if val, ok := in.constant().Value(in.report, doc, e); ok {
		in.set(v, val, e.Range())
	}
}

func (in *inputs) assignFile(f VarFile) {
	src, was := f.Source, in.lost
	if src == nil {
		var err error
		in.lost = true // until it is read
		if !in.cfg.AllowFileFunctions {
			in.report.AddFile(f.Path, "variable files cannot be read here")
			return
		}
		if src, err = functions.ReadFile(f.Path, hclfile.MaxSource); err != nil {
			in.report.AddFile(f.Path, "%s", err)
			return
		}
	}
	doc := hclfile.Open(in.report, f.Path, src, hclfile.MaxSource, hclfile.QuotedNames{})
	if in.lost = was || doc == nil; doc == nil {
		return
	}
	for _, b := range doc.Body.Blocks {
		in.report.Add(b.DefRange(), "a variable file holds name = value pairs, no blocks")
	}
	for _, a := range hclfile.SortedAttrs(doc.Body) {
		v := in.vars[doc.AttrName(a)]
		if v == nil {
			if in.cfg.Strict {
				in.report.Add(a.NameRange, "the job file declares no variable %q%s", a.Name, in.suggest(a.Name))
			}
			continue
		}
		v.asked = true
		if val, ok := in.constant().Value(in.report, doc, a.Expr); ok {
			in.set(v, val, a.Expr.Range())
		}
	}
}

// validate runs the validation blocks; they may use var only.
func (in *inputs) validate(s *hclfile.Scope) {
	for _, name := range in.order {
		v := in.vars[name]
		if v.block == nil {
			continue
		}
		for _, b := range v.block.Body.Blocks {
			in.validateOne(s, v, b)
		}
	}
}

func (in *inputs) validateOne(s *hclfile.Scope, v *variable, b *hclsyntax.Block) {
	for _, a := range hclfile.SortedAttrs(b.Body) {
		if a.Name != "condition" && a.Name != "error_message" {
			in.report.Add(a.NameRange, "validation has no attribute %q; there are condition and error_message", a.Name)
		}
	}
	cond, message := b.Body.Attributes["condition"], b.Body.Attributes["error_message"]
	if cond == nil || message == nil {
		in.report.Add(b.DefRange(), "validation needs condition and error_message")
		return
	}
	got, ok := s.Value(in.report, in.doc, cond.Expr)
	if !ok {
		return
	}
	got, err := convert.Convert(got, cty.Bool)
	if err != nil || got.IsNull() {
		in.report.Add(cond.Expr.Range(), "the condition must be true or false")
		return
	}
	if got.True() {
		return
	}
	text, ok := s.Value(in.report, in.doc, message.Expr)
	if !ok {
		return
	}
	text, err = convert.Convert(text, cty.String)
	if err != nil || text.IsNull() {
		in.report.Add(message.Expr.Range(), "the error_message must be a text")
		return
	}
	where := v.from
	if where.Filename == "" || where.Start.Line == 0 {
		in.report.Add(b.DefRange(), "the value of the variable %q%s is refused: %s", v.name, given(where),
			text.AsString())
		return
	}
	in.report.Add(where, "the value of the variable %q is refused: %s", v.name, text.AsString())
}

func given(where hcl.Range) string {
	if where.Filename == "" {
		return ""
	}
	return fmt.Sprintf(" (from %s)", where.Filename)
}
