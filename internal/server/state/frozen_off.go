//go:build !invariants

package state

// Without the tag invariants frozen objects are trusted.
func freeze(*Tx, any) {}

func verifyFrozen(*Tx) {}
