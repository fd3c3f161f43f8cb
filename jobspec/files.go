package jobspec

import "berth/jobspec/hclfile"

// Error is everything that is wrong with a document; Problem is one thing of it, with its place.
type (
	Error   = hclfile.Error
	Problem = hclfile.Problem
)

// MaxSource is the default bound of a document's size in bytes.
const MaxSource = hclfile.MaxSource

// Problems returns the problems in an error of this package, or nil.
func Problems(err error) []Problem { return hclfile.Problems(err) }

// ParseSize reads a size in bytes, with or without a unit.
func ParseSize(text string) (int64, error) { return hclfile.ParseSize(text) }
