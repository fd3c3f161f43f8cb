package jobspec

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format gives a document the usual spacing and indentation. A document that is not valid HCL is an *Error and is not
// changed.
func Format(path string, src []byte) ([]byte, error) {
	r := newReport()
	if len(src) > MaxSource {
		r.addFile(path, "the document has %d bytes, more than the %d that are allowed", len(src), MaxSource)
		return nil, r.err()
	}
	r.sources[path] = src
	tokens, _ := hclsyntax.LexConfig(src, path, hcl.InitialPos) // the parser reports what the lexer finds
	if !checkBounds(r, tokens) {
		return nil, r.err()
	}
	_, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	r.diags(diags)
	if err := r.err(); err != nil {
		return nil, err
	}
	out := hclwrite.Format(src)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	return out, nil
}
