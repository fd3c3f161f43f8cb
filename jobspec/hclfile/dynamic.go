package hclfile

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Expand lists the blocks of a body, with every dynamic block replaced by what it makes.
func (d *Decoder) Expand(b *hclsyntax.Body, sc *Scope) []Item {
	out := make([]Item, 0, len(b.Blocks))
	for _, blk := range b.Blocks {
		if blk.Type == "dynamic" && !sc.Literal && !sc.QuotedOnly {
			out = append(out, d.dynamic(blk, sc)...)
			continue
		}
		if !d.count(blk.DefRange()) {
			return nil
		}
		out = append(out, item(blk, sc))
	}
	return out
}

// literally lists the blocks of a body as they are written.
func (d *Decoder) literally(b *hclsyntax.Body, sc *Scope) []Item {
	out := make([]Item, 0, len(b.Blocks))
	for _, blk := range b.Blocks {
		if !d.count(blk.DefRange()) {
			return nil
		}
		out = append(out, item(blk, sc))
	}
	return out
}

func item(blk *hclsyntax.Block, sc *Scope) Item {
	return Item{
		Type:        blk.Type,
		Labels:      blk.Labels,
		Body:        blk.Body,
		Scope:       sc,
		Range:       blk.DefRange(),
		labelRanges: blk.LabelRanges,
	}
}

func (d *Decoder) count(rng hcl.Range) bool {
	d.blocks++
	if d.blocks == maxBlocks+1 {
		d.Report.Add(rng, "the document has more than %d blocks, the dynamic ones included", maxBlocks)
	}
	return d.blocks <= maxBlocks
}

// dynamicParts are the checked parts of a dynamic block.
type dynamicParts struct {
	typ      string
	iterator string
	forEach  hclsyntax.Expression
	labels   hclsyntax.Expression
	content  *hclsyntax.Block
}

func (d *Decoder) dynamicParts(blk *hclsyntax.Block) (dynamicParts, bool) {
	p := dynamicParts{}
	if len(blk.Labels) != 1 {
		d.Report.Add(blk.DefRange(), "a dynamic block has one label, the type of the blocks that it makes")
		return p, false
	}
	p.typ, p.iterator = blk.Labels[0], blk.Labels[0]
	ok := true
	for _, a := range SortedAttrs(blk.Body) {
		switch a.Name {
		case "for_each":
			p.forEach = a.Expr
		case "labels":
			p.labels = a.Expr
		case "iterator":
			name := hcl.ExprAsKeyword(a.Expr)
			if name == "" || name == "var" || name == "local" {
				d.Report.Add(a.Expr.Range(), "the iterator must be a plain name other than var and local")
				ok = false
			}
			p.iterator = name
		default:
			d.Report.Add(a.NameRange, "a dynamic block has no attribute %q; there are for_each, iterator and labels",
				a.Name)
			ok = false
		}
	}
	for _, inner := range blk.Body.Blocks {
		if inner.Type != "content" || p.content != nil || len(inner.Labels) > 0 {
			d.Report.Add(inner.DefRange(), "a dynamic block holds one block: content { … }")
			return p, false
		}
		p.content = inner
	}
	if p.forEach == nil || p.content == nil {
		d.Report.Add(blk.DefRange(), "the dynamic block %q needs for_each and content", p.typ)
		return p, false
	}
	return p, ok
}

func (d *Decoder) dynamic(blk *hclsyntax.Block, sc *Scope) []Item {
	p, ok := d.dynamicParts(blk)
	if !ok {
		return nil
	}
	each, ok := sc.Value(d.Report, d.Source, p.forEach)
	if !ok {
		return nil
	}
	if each.IsNull() || !each.CanIterateElements() {
		d.Report.Add(p.forEach.Range(), "for_each must be a list or a map")
		return nil
	}
	var out []Item
	for it := each.ElementIterator(); it.Next(); {
		if !d.count(blk.DefRange()) {
			return nil
		}
		key, val := it.Element()
		if each.Type().IsSetType() {
			key = val
		}
		inner := sc.With(p.iterator, cty.ObjectVal(map[string]cty.Value{"key": key, "value": val}))
		made := Item{Type: p.typ, Body: p.content.Body, Scope: inner, Range: blk.DefRange()}
		if p.labels != nil && !d.dynamicLabels(&made, p.labels) {
			return nil
		}
		out = append(out, made)
	}
	return out
}

// dynamicLabels evaluates the labels of one made block.
func (d *Decoder) dynamicLabels(it *Item, e hclsyntax.Expression) bool {
	v, ok := it.Scope.Value(d.Report, d.Source, e)
	if !ok {
		return false
	}
	if v.IsNull() || !isList(v.Type()) {
		d.Report.Add(e.Range(), "labels must be a list of texts")
		return false
	}
	for li := v.ElementIterator(); li.Next(); {
		_, lv := li.Element()
		text, err := "", error(nil)
		if !lv.IsNull() {
			text, err = ToText(lv)
		}
		if text == "" || err != nil {
			d.Report.Add(e.Range(), "labels must be a list of texts that are not empty")
			return false
		}
		it.Labels = append(it.Labels, text)
		it.labelRanges = append(it.labelRanges, e.Range())
	}
	if len(it.Labels) > 4 {
		d.Report.Add(e.Range(), "the block %q has too many labels", it.Type)
		return false
	}
	return true
}
