package jobspec

import (
	"bytes"

	"berth/jobspec/hclfile"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format gives a document the usual spacing and indentation. A document that is not valid HCL is an *Error and is not
// changed.
func Format(path string, src []byte) ([]byte, error) {
	r := hclfile.NewReport()
	if len(src) > hclfile.MaxSource {
		r.AddFile(path, "the document has %d bytes, more than the %d that are allowed", len(src), hclfile.MaxSource)
		return nil, r.Err()
	}
	r.AddSource(path, src)
	tokens, _ := hclsyntax.LexConfig(src, path, hcl.InitialPos) // the parser reports what the lexer finds
	if !hclfile.CheckBounds(r, tokens) {
		return nil, r.Err()
	}
	_, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	r.Diags(diags)
	if err := r.Err(); err != nil {
		return nil, err
	}
	out := hclwrite.Format(src)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	return out, nil
}
