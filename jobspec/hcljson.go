package jobspec

import (
	"encoding/json"
	"reflect"

	"berth/jobspec/hclfile"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// jsonFile is the top of a job file in HCL's JSON syntax. Blocks of names and values have no members that are known.
type jsonFile struct {
	Jobs      []*jobBlock     `hcl:"job,block"`
	Variable  []*jsonVariable `hcl:"variable,block"`
	Variables []struct{}      `hcl:"variables,block"`
	Locals    []struct{}      `hcl:"locals,block"`
}

// jsonVariable is one declaration.
type jsonVariable struct {
	Name       string     `hcl:"name,label"`
	Validation []struct{} `hcl:"validation,block"`
}

// isHCLJSON tells HCL's JSON syntax from a job as servers take it by the member that holds the job. What is no JSON at
// all is neither.
func isHCLJSON(src []byte) bool {
	var top struct {
		Job map[string]json.RawMessage `json:"job"`
	}
	exact := map[string]json.RawMessage{}
	if json.Unmarshal(src, &exact) != nil || exact["job"] == nil {
		return false
	}
	return json.Unmarshal(exact["job"], &top.Job) == nil
}

// open parses the document in the syntax that it has.
func open(r *hclfile.Report, cfg *ParseConfig) *hclfile.Source {
	if !hclfile.IsJSON(cfg.Source) {
		return hclfile.Open(r, cfg.Path, cfg.Source, cfg.MaxSize, nil)
	}
	doc := hclfile.OpenTemplates(r, cfg.Path, cfg.Source, cfg.MaxSize, reflect.TypeFor[jsonFile]())
	if doc == nil {
		return nil
	}
	for _, b := range doc.Body.Blocks {
		if b.Type == "variable" {
			typeOfVariable(r, b)
		}
	}
	return doc
}

// typeOfVariable parses the type of a variable, which in JSON is the text of an expression.
func typeOfVariable(r *hclfile.Report, b *hclsyntax.Block) {
	a := b.Body.Attributes["type"]
	if a == nil {
		return
	}
	v, diags := a.Expr.Value(&hcl.EvalContext{})
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		r.Add(a.Expr.Range(), "the type of a variable must be a text, as in \"list(string)\"")
		delete(b.Body.Attributes, "type")
		return
	}
	e, diags := hclsyntax.ParseExpression([]byte(v.AsString()), a.Expr.Range().Filename, a.Expr.Range().Start)
	r.Diags(diags)
	if !diags.HasErrors() {
		a.Expr = e
	}
}
