package jobspec

import (
	"errors"
	"path/filepath"
	"slices"

	"berth/jobspec/functions"
	"berth/jobspec/hclfile"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Values is a file of variables with every value that cfg gives by the environment and by files, so that whoever has
// it, the source and the single values needs nothing of the author's machine to resolve the variables again. It is
// empty when none is given; a document that is no HCL has none.
func Values(cfg ParseConfig) (string, error) {
	cfg.Vars = nil
	in, err := givenIn(&cfg)
	if err != nil {
		return "", err
	}
	out := hclwrite.NewEmptyFile()
	for _, v := range in {
		out.Body().SetAttributeValue(v.name, v.value)
	}
	return string(out.Bytes()), nil
}

// WithValues is the source with the values that cfg gives to variables as their defaults: run without any value, it
// makes the job that cfg makes. It also returns the names of these variables. A source in JSON cannot be rewritten,
// which is an error when there are values for it.
func WithValues(cfg ParseConfig) (source []byte, names []string, err error) {
	if len(cfg.Vars) == 0 && len(cfg.VarFiles) == 0 && len(cfg.Env) == 0 {
		return cfg.Source, nil, nil
	}
	if hclfile.IsJSON(cfg.Source) {
		return nil, nil, errors.New("the source is JSON")
	}
	in, err := givenIn(&cfg)
	if err != nil {
		return nil, nil, err
	}
	file, diags := hclwrite.ParseConfig(cfg.Source, cfg.Path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	for _, v := range in {
		setDefault(file.Body(), v)
		names = append(names, v.name)
	}
	return hclwrite.Format(file.Bytes()), names, nil
}

// givenIn are the declared variables that have a value from outside of the source, in order.
func givenIn(cfg *ParseConfig) ([]*variable, error) {
	if hclfile.IsJSON(cfg.Source) && !isHCLJSON(cfg.Source) {
		return nil, nil
	}
	r := hclfile.NewReport()
	doc := open(r, cfg)
	if doc == nil {
		return nil, r.Err()
	}
	in := &inputs{
		report: r,
		doc:    doc,
		cfg:    cfg,
		funcs:  &hcl.EvalContext{Functions: functions.For(filepath.Dir(cfg.Path), cfg.AllowFileFunctions)},
		vars:   map[string]*variable{},
	}
	in.declare()
	for _, v := range in.vars {
		v.from = hcl.Range{}
	}
	in.assign()
	var out []*variable
	for _, name := range in.order {
		if v := in.vars[name]; v.from != (hcl.Range{}) {
			out = append(out, v)
		}
	}
	return out, r.Err()
}

// setDefault writes the value of a variable where it is declared: in its block, or in the map form.
func setDefault(body *hclwrite.Body, v *variable) {
	for _, b := range body.Blocks() {
		switch {
		case b.Type() == "variables" && v.block == nil && b.Body().GetAttribute(v.name) != nil:
			b.Body().SetAttributeValue(v.name, v.value)
		case b.Type() == "variable" && slices.Equal(b.Labels(), []string{v.name}):
			if v.block.OpenBraceRange.Start.Line == v.block.CloseBraceRange.Start.Line {
				spread(b.Body())
			}
			b.Body().SetAttributeValue("default", v.value)
		}
	}
}

// spread gives a block that stands on one line, which holds one attribute at most, its own lines.
func spread(body *hclwrite.Body) {
	kept := map[string]hclwrite.Tokens{}
	for name, a := range body.Attributes() {
		kept[name] = a.Expr().BuildTokens(nil)
		body.RemoveAttribute(name)
	}
	body.AppendNewline()
	for name, expr := range kept {
		body.SetAttributeRaw(name, expr)
	}
}
