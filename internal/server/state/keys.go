package state

import "berth/internal/server/state/filing"

// Key is how objects are filed.
type Key = filing.Key

// KeyOf builds a key from its parts.
func KeyOf[T ~string](parts ...T) Key { return filing.KeyOf(parts...) }

// theCluster is the key of what there is once.
var theCluster = KeyOf("cluster")

func number(n uint64) string { return filing.Number(n) }
