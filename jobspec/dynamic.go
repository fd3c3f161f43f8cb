package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// expand lists the blocks of a body, with every dynamic block replaced by what it makes.
func (d *decoder) expand(b *hclsyntax.Body, sc *scope) []item {
	out := make([]item, 0, len(b.Blocks))
	for _, blk := range b.Blocks {
		if blk.Type == "dynamic" && !sc.literal && !sc.quotedOnly {
			out = append(out, d.dynamic(blk, sc)...)
			continue
		}
		if !d.count(blk.DefRange()) {
			return nil
		}
		out = append(out, item{typ: blk.Type, labels: blk.Labels, body: blk.Body, scope: sc, rng: blk.DefRange(), labelR: blk.LabelRanges})
	}
	return out
}

func (d *decoder) count(rng hcl.Range) bool {
	d.blocks++
	if d.blocks == maxBlocks+1 {
		d.report.add(rng, "the document has more than %d blocks, the dynamic ones included", maxBlocks)
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

func (d *decoder) dynamicParts(blk *hclsyntax.Block) (dynamicParts, bool) {
	p := dynamicParts{}
	if len(blk.Labels) != 1 {
		d.report.add(blk.DefRange(), "a dynamic block has one label, the type of the blocks that it makes")
		return p, false
	}
	p.typ, p.iterator = blk.Labels[0], blk.Labels[0]
	ok := true
	for _, a := range sortedAttrs(blk.Body) {
		switch a.Name {
		case "for_each":
			p.forEach = a.Expr
		case "labels":
			p.labels = a.Expr
		case "iterator":
			name := hcl.ExprAsKeyword(a.Expr)
			if name == "" || name == "var" || name == "local" {
				d.report.add(a.Expr.Range(), "the iterator must be a plain name other than var and local")
				ok = false
			}
			p.iterator = name
		default:
			d.report.add(a.NameRange, "a dynamic block has no attribute %q; there are for_each, iterator and labels", a.Name)
			ok = false
		}
	}
	for _, inner := range blk.Body.Blocks {
		if inner.Type != "content" || p.content != nil || len(inner.Labels) > 0 {
			d.report.add(inner.DefRange(), "a dynamic block holds one block: content { … }")
			return p, false
		}
		p.content = inner
	}
	if p.forEach == nil || p.content == nil {
		d.report.add(blk.DefRange(), "the dynamic block %q needs for_each and content", p.typ)
		return p, false
	}
	return p, ok
}

func (d *decoder) dynamic(blk *hclsyntax.Block, sc *scope) []item {
	p, ok := d.dynamicParts(blk)
	if !ok {
		return nil
	}
	each, ok := sc.value(d.report, d.doc, p.forEach)
	if !ok {
		return nil
	}
	if each.IsNull() || !each.CanIterateElements() {
		d.report.add(p.forEach.Range(), "for_each must be a list or a map")
		return nil
	}
	var out []item
	for it := each.ElementIterator(); it.Next(); {
		if !d.count(blk.DefRange()) {
			return nil
		}
		key, val := it.Element()
		if each.Type().IsSetType() {
			key = val
		}
		inner := sc.with(p.iterator, cty.ObjectVal(map[string]cty.Value{"key": key, "value": val}))
		made := item{typ: p.typ, body: p.content.Body, scope: inner, rng: blk.DefRange()}
		if p.labels != nil && !d.dynamicLabels(&made, p.labels) {
			return nil
		}
		out = append(out, made)
	}
	return out
}

// dynamicLabels evaluates the labels of one made block.
func (d *decoder) dynamicLabels(it *item, e hclsyntax.Expression) bool {
	v, ok := it.scope.value(d.report, d.doc, e)
	if !ok {
		return false
	}
	if v.IsNull() || !isList(v.Type()) {
		d.report.add(e.Range(), "labels must be a list of texts")
		return false
	}
	for li := v.ElementIterator(); li.Next(); {
		_, lv := li.Element()
		text, err := "", error(nil)
		if !lv.IsNull() {
			text, err = toText(lv)
		}
		if text == "" || err != nil {
			d.report.add(e.Range(), "labels must be a list of texts that are not empty")
			return false
		}
		it.labels = append(it.labels, text)
		it.labelR = append(it.labelR, e.Range())
	}
	if len(it.labels) > 4 {
		d.report.add(e.Range(), "the block %q has too many labels", it.typ)
		return false
	}
	return true
}
