package functions

import "github.com/zclconf/go-cty/cty"

// MaxValue bounds the size of one named value of a document, in bytes.
const MaxValue = 1 << 20

// SizeOf estimates a value's size in bytes, giving up above limit.
func SizeOf(v cty.Value, limit int) int {
	size := 1
	if v.IsNull() || !v.IsKnown() {
		return size
	}
	switch {
	case v.Type() == cty.String:
		return size + len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && size <= limit; {
			_, ev := it.Element()
			size += SizeOf(ev, limit-size)
		}
	}
	return size
}
