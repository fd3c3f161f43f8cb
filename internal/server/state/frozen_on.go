//go:build invariants

package state

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"berth/internal/wire"
)

// hashes holds what every object looked like when it was put. Objects are dropped from it when they leave the tables.
var hashes sync.Map // pointer → [32]byte

// checkedAtOnce bounds how many objects one transaction checks beyond its own.
const checkedAtOnce = 2000

// frozen is what a transaction put.
type frozen []any

func freeze(tx *Tx, o any) { tx.frozen = append(tx.frozen, o) }

// verifyFrozen hashes what the transaction put, and hashes again what is stored: an object that changed in place since
// it was put is a defect of whoever changed it, most likely of the command that ran just now.
func verifyFrozen(tx *Tx) {
	for _, o := range tx.frozen {
		if _, again := hashes.LoadOrStore(o, hash(o)); again {
			hashes.Store(o, hash(o))
		}
	}
	view := tx.gen.snapshot()
	left := checkedAtOnce
	for _, t := range tables {
		for o := range t.each(view) {
			if left--; left < 0 {
				return
			}
			was, known := hashes.Load(o)
			if now := hash(o); known && was.([32]byte) != now {
				panic(fmt.Sprintf("state: an object of table %s was changed after it was stored (at index %d): %+v",
					t.title(), tx.stamp.Index, o))
			}
		}
	}
}

func hash(o any) [32]byte {
	data, err := wire.Encode(o)
	must(err)
	return sha256.Sum256(data)
}
