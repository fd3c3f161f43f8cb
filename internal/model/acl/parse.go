package acl

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"berth/internal/base/pattern"
)

// Document is what the text of a policy says.
type Document struct{ Rules []Rule }

// Rule is one block of it.
type Rule struct {
	Kind         Kind
	Pattern      string // empty in kinds without names
	Policy       string // the level as written; empty if there is none
	Capabilities []Capability
	Variables    []VariableRule
}

// pathBlock is the block of a VariableRule.
const pathBlock = "path"

// VariableRule is what a namespace's rule says of the variables at the paths of a pattern.
type VariableRule struct {
	Path         string
	Capabilities []Capability
}

// Gives lists the capabilities of the rule's level and those that it names, each once.
func (r *Rule) Gives() []Capability {
	var out []Capability
	for _, l := range grammarOf(r.Kind).levels {
		if l.word == r.Policy {
			out = append(out, l.gives...)
		}
	}
	for _, c := range r.Capabilities {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func grammarOf(k Kind) grammar {
	return grammars[slices.IndexFunc(grammars, func(g grammar) bool { return g.kind == k })]
}

// Finding is one thing that is wrong with a text.
type Finding struct {
	File string
	Line int // 0: of the whole
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// How much a text may make the reader do, and how much is said of one that is wrong.
const (
	maxBrackets = 10_000 // real policies have some three per rule; no text nests deeper than it has brackets
	maxFindings = 10
)

var (
	patterns = pattern.Of(`^[A-Za-z0-9._\[\]*-]{1,128}$`)
	paths    = pattern.Of(`^[A-Za-z0-9._~/*-]{1,128}$`)
)

// reader gathers what a text says and what is wrong with it.
type reader struct {
	file  string
	fresh bool // somebody writes it now
	found []Finding
}

// Parse reads the text of a policy, HCL or JSON. The name stands in the findings; if there are any, there is no
// document.
func Parse(name, text string) (*Document, []Finding) { return (&reader{file: name}).read(text) }

// ParseNew is Parse for what somebody writes now: a pattern that no name can match is a finding, too. Those that
// earlier programs stored are read, and mean what they always did: nothing.
func ParseNew(name, text string) (*Document, []Finding) {
	return (&reader{file: name, fresh: true}).read(text)
}

func (r *reader) read(text string) (*Document, []Finding) {
	body := r.open([]byte(text))
	if body == nil {
		return nil, r.found
	}
	var schema hcl.BodySchema
	for _, g := range grammars {
		block := hcl.BlockHeaderSchema{Type: string(g.kind)}
		if g.named {
			block.LabelNames = []string{"name"}
		}
		schema.Blocks = append(schema.Blocks, block)
	}
	d := &Document{}
	content := r.content(body, &schema)
	for _, b := range content.Blocks {
		d.Rules = append(d.Rules, r.rule(b, d.Rules))
	}
	if len(d.Rules) == 0 && len(r.found) == 0 {
		r.found = append(r.found, Finding{
			File: r.file,
			Text: "it has no rule, so it would give nothing; write one, such as " +
				`namespace "default" { policy = "read" }`,
		})
	}
	if len(r.found) > 0 {
		return nil, r.found
	}
	return d, nil
}

// open reads the syntax; nil if it cannot.
func (r *reader) open(src []byte) hcl.Body {
	brackets := 0
	for _, c := range src {
		if strings.ContainsRune("{[(", rune(c)) {
			brackets++
		}
	}
	switch {
	case len(src) > MaxRules:
		r.found = append(r.found, Finding{
			File: r.file,
			Text: fmt.Sprintf("it has %d bytes, at most %d are allowed; make several policies of it", len(src),
				MaxRules),
		})
		return nil
	case brackets > maxBrackets:
		r.found = append(r.found, Finding{
			File: r.file,
			Text: fmt.Sprintf("it has more than %d brackets; make several policies of it", maxBrackets),
		})
		return nil
	}
	read := func() (*hcl.File, hcl.Diagnostics) { return hclsyntax.ParseConfig(src, r.file, hcl.InitialPos) }
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		read = func() (*hcl.File, hcl.Diagnostics) { return json.Parse(src, r.file) }
	}
	f, diags := read()
	if r.took(diags) {
		return nil
	}
	return f.Body
}

func (r *reader) add(at hcl.Range, format string, args ...any) {
	if len(r.found) < maxFindings {
		r.found = append(r.found, Finding{r.file, at.Start.Line, fmt.Sprintf(format, args...)})
	}
}

// took takes over the findings of the library, and reports whether there was one.
func (r *reader) took(diags hcl.Diagnostics) bool {
	for _, d := range diags {
		var at hcl.Range
		if d.Subject != nil {
			at = *d.Subject
		}
		r.add(at, "%s: %s", d.Summary, strings.ReplaceAll(d.Detail, "\n", " "))
	}
	return diags.HasErrors()
}

func (r *reader) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(schema)
	r.took(diags)
	return content
}

// rule reads one block; before are those that stand before it.
func (r *reader) rule(b *hcl.Block, before []Rule) Rule {
	g := grammarOf(Kind(b.Type))
	out := Rule{Kind: g.kind}
	schema := hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "policy"}}}
	if len(g.capabilities) > 0 {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: "capabilities"})
	}
	if g.kind == Namespace {
		schema.Blocks = []hcl.BlockHeaderSchema{{Type: "variables"}}
	}
	if g.named {
		out.Pattern = r.pattern(b, patterns())
	} else if slices.ContainsFunc(before, func(o Rule) bool { return o.Kind == g.kind }) {
		r.add(b.DefRange, "there is a rule for %s already; make one of both", g.kind)
	}
	content := r.content(b.Body, &schema)
	out.Policy = r.level(content, g)
	out.Capabilities = r.capabilities(content, b, g.capabilities)
	for _, v := range content.Blocks {
		out.Variables = append(out.Variables, r.variables(v)...)
	}
	if len(content.Attributes)+len(content.Blocks) == 0 {
		r.add(b.DefRange, `this rule gives nothing and takes nothing; write policy = "read", or policy = "deny"`)
	}
	return out
}

func (r *reader) pattern(b *hcl.Block, allowed *regexp.Regexp) string {
	name := b.Labels[0]
	if !allowed.MatchString(name) {
		r.add(b.DefRange, "%q is no name of a %s, and no pattern of names; they have at most %d letters, digits, "+
			"dashes and dots, and a pattern has stars", name, b.Type, maxName)
		return name
	}
	if why := matchesNone(b.Type, name); r.fresh && why != nil {
		r.add(b.DefRange, "no %s can match %q: %s. In a pattern a star stands for any characters, and nothing else is "+
			"special; write a rule for each name, or a pattern with stars", b.Type, name, why)
	}
	return name
}

func (r *reader) level(content *hcl.BodyContent, g grammar) string {
	a := content.Attributes["policy"]
	if a == nil {
		return ""
	}
	var word string
	if r.took(gohcl.DecodeExpression(a.Expr, nil, &word)) {
		return ""
	}
	var words []string
	for _, l := range g.levels {
		words = append(words, l.word)
	}
	if !slices.Contains(words, word) {
		r.add(a.Expr.Range(), "%s has no policy %q; there are %s", g.kind, word, strings.Join(words, ", "))
	}
	return word
}

func (r *reader) capabilities(content *hcl.BodyContent, b *hcl.Block, known []Capability) []Capability {
	a := content.Attributes["capabilities"]
	if a == nil {
		return nil
	}
	var names []Capability
	if r.took(gohcl.DecodeExpression(a.Expr, nil, &names)) {
		return nil
	}
	for _, c := range names {
		if !slices.Contains(known, c) {
			r.add(a.Expr.Range(), "%s has no capability %q; there are %s", b.Type, c, listed(known))
		}
	}
	return names
}

func listed(known []Capability) string {
	var words []string
	for _, c := range known {
		words = append(words, string(c))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// variables reads the paths of a block.
func (r *reader) variables(b *hcl.Block) []VariableRule {
	var out []VariableRule
	content := r.content(b.Body, &hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: pathBlock, LabelNames: []string{"path"}}},
	})
	for _, p := range content.Blocks {
		path := r.pattern(p, paths())
		inside := r.content(p.Body, &hcl.BodySchema{
			Attributes: []hcl.AttributeSchema{{Name: "capabilities", Required: true}},
		})
		out = append(out, VariableRule{path, r.capabilities(inside, p, ofVariables)})
	}
	return out
}
