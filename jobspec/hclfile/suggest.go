package hclfile

import (
	"sort"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// SortedAttrs are a body's attributes in the order of the document.
func SortedAttrs(body *hclsyntax.Body) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(body.Attributes))
	for _, a := range body.Attributes {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].NameRange.Start.Byte < out[j].NameRange.Start.Byte })
	return out
}
