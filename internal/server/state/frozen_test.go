//go:build invariants

package state

import (
	"testing"

	"berth/internal/model/node"
)

func TestAChangeInPlaceIsCaught(t *testing.T) {
	s := New()
	write(t, s, 1, func(tx *Tx) { tx.PutNode(&node.Node{ID: "n", Name: "n"}) })
	s.Snapshot().Node(nil, "n").Name = "changed by a reader"
	defer func() {
		if recover() == nil {
			t.Error("nobody noticed")
		}
	}()
	write(t, s, 2, func(tx *Tx) { tx.PutNode(&node.Node{ID: "m"}) })
}
