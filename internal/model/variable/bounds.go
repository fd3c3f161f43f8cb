package variable

import (
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Bounds are how much the variables of a namespace may be together. Zero is none.
type Bounds struct {
	Number int
	Bytes  int // as they are sealed
}

// Usual are the bounds where nothing is configured: what they let in takes some 200 MiB of a server's memory.
var Usual = Bounds{Number: 10_000, Bytes: 64 << 20}

// Taken is how much the variables of a namespace are together.
type Taken struct{ Number, Bytes int }

// Admit refuses what does not fit beside what is there. A write that takes no more than what it replaces fits always:
// who is over a bound that was lowered can still change what he has.
func (b Bounds) Admit(ns ids.Namespace, path string, before, after Taken) error {
	refuse := func(what, bound, setting string) error {
		return fault.WithHint(fault.New(fault.Invalid, "write", Name(path), fmt.Sprintf("the variables of namespace "+
			"%q would be %s, at most %s are allowed", ns, what, bound)),
			"delete some of them, use another namespace, or have the servers' configuration allow more: "+setting)
	}
	switch {
	case b.Number > 0 && after.Number > b.Number && after.Number > before.Number:
		return refuse(fmt.Sprint(after.Number), fmt.Sprint(b.Number), "max_variables")
	case b.Bytes > 0 && after.Bytes > b.Bytes && after.Bytes > before.Bytes:
		return refuse(fmt.Sprintf("%d bytes", after.Bytes), fmt.Sprint(b.Bytes), "max_variables_mb")
	}
	return nil
}
