package jobspec

import "berth/jobspec/hclfile"

// Error is everything that is wrong with a document; Problem is one thing of it, with its place.
type (
	Error    = hclfile.Error
	Problem  = hclfile.Problem
	Document = hclfile.Document
)

// MaxSource is the default bound of a document's size in bytes.
const MaxSource = hclfile.MaxSource

// Problems returns the problems in an error of this package, or nil.
func Problems(err error) []Problem { return hclfile.Problems(err) }

// DecodeFile decodes a file of plain values, HCL2 or JSON, into the struct that dst points to, by its `hcl` tags.
func DecodeFile(path string, src []byte, dst any) error { return hclfile.DecodeFile(path, src, dst) }

// DecodeDocument is DecodeFile, for callers that check the values afterwards and want to say where they stand.
func DecodeDocument(path string, src []byte, dst any) (*Document, error) {
	return hclfile.DecodeDocument(path, src, dst)
}

// ParseSize reads a size in bytes, with or without a unit.
func ParseSize(text string) (int64, error) { return hclfile.ParseSize(text) }
