package nodes

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/recovery"
	"berth/internal/model/volume"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// mounted is what the node says of the claimed volume when its alloc uses it.
func (h *claimed) mounted() volume.InventoryEntry {
	return volume.InventoryEntry{
		StagingKey:   volume.StagingKey{Plugin: "p", ExternalID: "x"},
		Volume:       h.key.Volume,
		Staging:      volume.Present,
		Step:         "mounted",
		Publications: []volume.InventoryPublication{h.publication(h.alloc)},
	}
}

func (h *claimed) publication(id ids.Alloc) volume.InventoryPublication {
	return volume.InventoryPublication{
		Alloc:    id,
		Epoch:    h.epoch,
		Presence: volume.Present,
		Wanted:   true,
		Path:     "/path",
		Received: lineage.Point{Incarnation: h.epoch.Incarnation, Mark: "one", Index: h.epoch.Index},
	}
}

// tells reports entries whole, taken now.
func (h *claimed) tells(t *testing.T, entries ...volume.InventoryEntry) {
	t.Helper()
	reply, err := h.nodeInventory(t.Context(), &wire.InventoryReport{
		NodeIdentity: h.identity(),
		Full:         true,
		At:           h.c.Store.Snapshot().Point(nil),
		Prev:         h.prev,
		Entries:      entries,
	})
	if err != nil || reply.Stale {
		t.Fatalf("the report is refused: %+v, %v", reply, err)
	}
	h.prev = reply.Head
}

// asks is the question of a node that holds entries, now.
func (h *claimed) asks(t *testing.T, entries ...volume.InventoryEntry) *wire.InventoryDigest {
	t.Helper()
	digest, err := wire.InventoryDigestOf(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.InventoryDigest{
		NodeIdentity: h.identity(),
		At:           h.c.Store.Snapshot().Point(nil),
		Prev:         h.prev,
		Digest:       digest,
	}
}

func (h *claimed) known(t *testing.T, d *wire.InventoryDigest) bool {
	t.Helper()
	reply, err := h.nodeInventoryKnown(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Known
}

// TestReconnectsOfANodeWriteNothing: given a node whose inventory the servers have, when it reaches them a thousand
// times, and their state goes on meanwhile, then they need no report, and the log gets no entry by it.
func TestReconnectsOfANodeWriteNothing(t *testing.T) {
	h := withClaim(t)
	h.tells(t, h.mounted())
	for i := range 1000 {
		if i%100 == 0 {
			h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New()}) // of others
		}
		before := h.c.Store.Snapshot().Index()
		if !h.known(t, h.asks(t, h.mounted())) {
			t.Fatalf("at the %dth time they want a report", i+1)
		}
		if after := h.c.Store.Snapshot().Index(); after != before {
			t.Fatalf("at the %dth time the log went from %d to %d", i+1, before, after)
		}
	}
	before := h.c.Store.Snapshot()
	h.tells(t, h.mounted()) // the report that it stands for
	after := h.c.Store.Snapshot()
	if before.Claim(nil, h.key) != after.Claim(nil, h.key) ||
		before.Volume(nil, h.key.Volume) != after.Volume(nil, h.key.Volume) {
		t.Error("the report itself changes more than when the node was heard")
	}
}

// TestADigestStandsForAReportThatChangesNothing: whatever a report would still say or be told, it is sent.
func TestADigestStandsForAReportThatChangesNothing(t *testing.T) {
	for what, differs := range map[string]func(*testing.T, *claimed) *wire.InventoryDigest{
		"it holds nothing": func(t *testing.T, h *claimed) *wire.InventoryDigest { return h.asks(t) },
		"it holds more": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			return h.asks(t, h.mounted(), volume.InventoryEntry{StagingKey: volume.StagingKey{Plugin: "p"}})
		},
		"another step": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			e := h.mounted()
			e.Step = "publishing"
			return h.asks(t, e)
		},
		"another presence": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			e := h.mounted()
			e.Publications[0].Presence = volume.Uncertain
			return h.asks(t, e)
		},
		"its answer was lost": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			d := h.asks(t, h.mounted())
			h.tells(t, h.mounted())
			return d
		},
		"the servers never heard of it": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			d := h.asks(t, h.mounted())
			h.write(t, func(tx *state.Tx) { tx.DeleteInventory(h.node) })
			return d
		},
		"a session that has not said anything": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			head := *h.c.Store.Snapshot().InventoryHead(nil, h.node)
			head.FullIndex = 0
			h.write(t, func(tx *state.Tx) { tx.PutInventoryHead(&head) })
			h.prev = h.c.Store.Snapshot().InventoryHead(nil, h.node).ModifyIndex
			return h.asks(t, h.mounted())
		},
		"a leadership that it has not reported to": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.c.Must(t, &fsm.LineageMark{Mark: "two"})
			return h.asks(t, h.mounted())
		},
		"it has seen another history": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			d := h.asks(t, h.mounted())
			d.At.Mark = "of another history"
			return d
		},
		"it has seen less than when it reported": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			d := h.asks(t, h.mounted())
			d.At.Index = h.c.Store.Snapshot().InventoryHead(nil, h.node).AllocIndex - 1
			return d
		},
		"a recovery that waits for it": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, func(tx *state.Tx) {
				tx.PutRecovery(&recovery.Record{Incarnation: "next", Nodes: []recovery.Node{{ID: h.node}}})
			})
			return h.asks(t, h.mounted())
		},
		"something is mounted that it cannot name": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			head := *h.c.Store.Snapshot().InventoryHead(nil, h.node)
			head.Unknown = []volume.UnknownMount{{Path: "/mnt"}}
			h.write(t, func(tx *state.Tx) { tx.PutInventoryHead(&head) })
			h.prev = h.c.Store.Snapshot().InventoryHead(nil, h.node).ModifyIndex
			return h.asks(t, h.mounted())
		},
		"a claim that is being released": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(),
				Allocs: []*alloc.Alloc{{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
			return h.asks(t, h.mounted())
		},
		"a claim that waits": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, h.becomes(volume.Queued))
			return h.asks(t, h.mounted())
		},
		"a claim that is newer than the report": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			c := *h.c.Store.Snapshot().Claim(nil, h.key)
			c.Alloc, c.Epoch.Index = "another", h.c.Store.Snapshot().Index()+1
			h.write(t, func(tx *state.Tx) { tx.PutClaim(&c) })
			return h.asks(t, h.mounted())
		},
		"a claim that was adopted": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			c := *h.c.Store.Snapshot().Claim(nil, h.key)
			c.Before = &volume.Epoch{Incarnation: "before", Index: 1}
			h.write(t, func(tx *state.Tx) { tx.PutClaim(&c) })
			return h.asks(t, h.mounted())
		},
		"a claim that is gone": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, func(tx *state.Tx) { tx.DeleteClaim(h.key) })
			return h.asks(t, h.mounted())
		},
		"a claim that ended by proof": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			c := *h.c.Store.Snapshot().Claim(nil, h.key)
			c.Alloc = "another"
			h.write(t, func(tx *state.Tx) { tx.ProveEnd(&c, volume.ProofAttested, "") })
			return h.asks(t, h.mounted())
		},
		"a volume that was handed over": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, h.volume(func(v *volume.Volume) { v.Status.Provider = "another" }))
			return h.asks(t, h.mounted())
		},
		"an attachment that the state does not have": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			e := h.mounted()
			e.Generation = 7
			h.write(t, h.attachment(volume.Present, false))
			h.tells(t, e)
			if !h.known(t, h.asks(t, e)) {
				t.Fatal("with its attachment, they want a report that says nothing new")
			}
			h.write(t, func(tx *state.Tx) {
				tx.DeleteAttachment(volume.AttachmentKey{StagingKey: e.StagingKey, Node: h.node})
			})
			return h.asks(t, e)
		},
		"a volume that is to grow": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, h.volume(func(v *volume.Volume) { v.Status.NodeExpandPending = true }))
			return h.asks(t, h.mounted())
		},
		"a volume that was forgotten by force": func(t *testing.T, h *claimed) *wire.InventoryDigest {
			h.write(t, func(tx *state.Tx) {
				tx.PutTombstone(&volume.Tombstone{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: "x"}})
			})
			return h.asks(t, h.mounted())
		},
	} {
		h := withClaim(t)
		h.tells(t, h.mounted())
		if !h.known(t, h.asks(t, h.mounted())) {
			t.Fatal("they want a report that says nothing new")
		}
		if d := differs(t, h); h.known(t, d) {
			t.Errorf("%s: they take its digest for a report", what)
		}
	}
}

// TestADigestOfAnotherAgentStartIsRefused as its report would be.
func TestADigestOfAnotherAgentStartIsRefused(t *testing.T) {
	h := withClaim(t)
	h.tells(t, h.mounted())
	d := h.asks(t, h.mounted())
	d.Session = "of a copy"
	if reply, err := h.nodeInventoryKnown(t.Context(), d); err == nil || reply != nil {
		t.Errorf("it is answered with %+v, %v", reply, err)
	}
}
