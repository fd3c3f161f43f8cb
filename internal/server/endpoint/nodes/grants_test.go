package nodes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/wire"
)

// secretValue is the name of the one value in a node's identity.
const secretValue = "id"

// write changes the state in one step.
func (h *claimed) write(t *testing.T, fn func(tx *state.Tx)) {
	t.Helper()
	stamp := h.c.Store.Snapshot().Stamp()
	stamp.Index++
	if err := h.c.Store.Write(stamp, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// becomes puts a changed copy of the claim.
func (h *claimed) becomes(s volume.ClaimState) func(*state.Tx) {
	return func(tx *state.Tx) {
		c := *h.c.Store.Snapshot().Claim(nil, h.key)
		c.State, c.Since = s, time.Unix(1, 0)
		tx.PutClaim(&c)
	}
}

// plugin puts a plugin that attaches.
func (h *claimed) plugin(change func(*plugin.Record)) func(*state.Tx) {
	return func(tx *state.Tx) {
		rec := &plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true, NeedsAttach: true}
		change(rec)
		tx.PutPlugin(rec)
	}
}

// volume puts a changed copy of the volume.
func (h *claimed) volume(change func(*volume.Volume)) func(*state.Tx) {
	return func(tx *state.Tx) {
		v := *h.c.Store.Snapshot().Volume(nil, h.key.Volume)
		change(&v)
		tx.PutVolume(&v)
	}
}

// attachment puts one to the alloc's node.
func (h *claimed) attachment(is volume.Presence, detaching bool) func(*state.Tx) {
	return func(tx *state.Tx) {
		tx.PutAttachment(&volume.Attachment{
			Plugin:         "p",
			ExternalID:     "x",
			Node:           h.node,
			Presence:       is,
			Detaching:      detaching,
			Generation:     7,
			PublishContext: map[string]string{"device": "/dev/x"},
		})
	}
}

// Given an alloc whose volume lacks something, when its node asks for the grant, then the answer says what is waited
// for, or that it will never come; and once everything is there, the grant holds all that the calls need.
func TestAGrantWaitsForEverythingItStandsOn(t *testing.T) {
	for what, c := range map[string]struct {
		given func(*claimed) []func(*state.Tx)
		waits string     // the reason; empty: there is none
		fails fault.Kind // with waits empty
	}{
		"all is there": {given: func(h *claimed) []func(*state.Tx) { return nil }},
		"another holds it": {
			given: func(h *claimed) []func(*state.Tx) { return []func(*state.Tx){h.becomes(volume.Queued)} },
			waits: "waiting for the volume to be free",
		},
		"it is being released": {
			given: func(h *claimed) []func(*state.Tx) { return []func(*state.Tx){h.becomes(volume.Releasing)} },
			fails: fault.Conflict,
		},
		"its name is another volume's": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){h.volume(func(v *volume.Volume) { v.Status.ExternalID = "y" })}
			},
			fails: fault.Conflict,
		},
		"the node's part of the plugin is not known": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){h.plugin(func(r *plugin.Record) { r.NodeNegotiated = false })}
			},
			waits: `waiting for plugin "p" to be healthy`,
		},
		"the plugin serves another provider": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){
					h.plugin(func(r *plugin.Record) { r.Provider = "new" }),
					h.volume(func(v *volume.Volume) { v.Status.Provider = "old" }),
				}
			},
			waits: "provider",
		},
		"it is not attached": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){h.attachment(volume.Absent, false)}
			},
			waits: "attach",
		},
		"whether it is attached is not known": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){h.attachment(volume.Uncertain, false)}
			},
			waits: "attach",
		},
		"it is being detached": {
			given: func(h *claimed) []func(*state.Tx) {
				return []func(*state.Tx){h.attachment(volume.Present, true)}
			},
			waits: "detach",
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := withClaim(t)
			h.write(t, h.plugin(func(*plugin.Record) {}))
			h.write(t, h.attachment(volume.Present, false))
			h.write(t, h.volume(func(*volume.Volume) {}))
			for _, change := range c.given(h) {
				h.write(t, change)
			}
			reply, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc})
			switch {
			case c.fails != 0:
				if !fault.Has(err, c.fails) {
					t.Errorf("%+v, %v", reply, err)
				}
			case err != nil:
				t.Error(err)
			case c.waits != "":
				if reply.Ready || len(reply.Grants) > 0 || len(reply.Waiting) != 1 ||
					!strings.Contains(reply.Waiting[0].Reason, c.waits) {
					t.Errorf("%+v, want it to wait: %s", reply, c.waits)
				}
			case !reply.Ready || len(reply.Grants) != 1:
				t.Errorf("%+v", reply)
			case reply.Grants[0].Generation != 7 || reply.Grants[0].PublishContext["device"] != "/dev/x":
				t.Errorf("it lacks what the attachment answered: %+v", reply.Grants[0])
			}
		})
	}
}

// Given an alloc that waits and knows for what, when it asks again, then it is answered when that changes, or when its
// wait is over.
func TestANewReasonIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withClaim(t)
		h.write(t, h.becomes(volume.Queued))
		ask := func(seen string) (*wire.GrantsReply, time.Duration) {
			t.Helper()
			begun := time.Now()
			reply, err := h.nodeGrants(t.Context(),
				&wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc, Seen: seen, Wait: time.Minute})
			if err != nil || reply.Ready {
				t.Fatalf("%+v, %v", reply, err)
			}
			return reply, time.Since(begun)
		}
		first, took := ask("")
		if took != 0 {
			t.Errorf("the first reason came after %s", took)
		}
		if _, took = ask(first.Token); took != time.Minute {
			t.Errorf("the same reason came again after %s", took)
		}
		go func() {
			time.Sleep(10 * time.Second)
			h.write(t, func(tx *state.Tx) { tx.PutPlugin(&plugin.Record{ID: "p"}) })
			h.write(t, h.becomes(volume.Held))
		}()
		if next, took := ask(first.Token); took != 10*time.Second || next.Token == first.Token {
			t.Errorf("another reason came after %s: %+v", took, next)
		}
	})
}

// Given a node with a report, when somebody else reports in its name, or it reports upon another report than the last,
// then nothing of it is taken.
func TestAReportIsTakenFromItsNodeAlone(t *testing.T) {
	h := withClaim(t)
	now := h.c.Store.Snapshot().Point(nil)
	h.tellsNothing(t, now)
	forged := h.identity()
	forged.Secret = wire.Secrets{Values: map[string]string{secretValue: "guessed"}}
	reply, err := h.nodeInventory(t.Context(),
		&wire.InventoryReport{NodeIdentity: forged, Full: true, At: now, Prev: h.prev})
	if !fault.Has(err, fault.Denied) {
		t.Errorf("a forged report was answered %+v, %v", reply, err)
	}
	for _, prev := range []uint64{0, h.prev - 1, h.prev + 1} {
		reply, err := h.nodeInventory(t.Context(),
			&wire.InventoryReport{NodeIdentity: h.identity(), Full: true, At: now, Prev: prev})
		if err != nil || !reply.Stale || reply.Head != h.prev {
			t.Errorf("a report upon %d, where the last is %d, was answered %+v, %v", prev, h.prev, reply, err)
		}
	}
}

// Given a volume whose root shall belong to a group, when a node asks for the grant, then the plugin is to give it
// where it can, for a file system alone; where it cannot, and where all files are to be given, the node does.
func TestAGrantLeavesTheGroupToAPluginThatCanGiveIt(t *testing.T) {
	gid := 8765
	for what, c := range map[string]struct {
		can    bool
		mode   volume.AttachmentMode
		policy volume.OwnershipPolicy
		gid    *int
		want   string
	}{
		"a plugin that can":    {true, volume.FileSystem, volume.OwnRoot, &gid, "8765"},
		"a plugin that cannot": {false, volume.FileSystem, volume.OwnRoot, &gid, ""},
		"all files":            {true, volume.FileSystem, volume.OwnAllIfRootDiffers, &gid, ""},
		"nothing":              {true, volume.FileSystem, volume.OwnNothing, &gid, ""},
		"no group":             {true, volume.FileSystem, volume.OwnRoot, nil, ""},
		"a block device":       {true, volume.BlockDevice, volume.OwnRoot, &gid, ""},
	} {
		t.Run(what, func(t *testing.T) {
			h := withClaim(t)
			h.write(t, h.plugin(func(r *plugin.Record) { r.NodeCaps.VolumeMountGroup = c.can }))
			h.write(t, h.attachment(volume.Present, false))
			h.write(t, h.volume(func(v *volume.Volume) {
				v.Spec.Ownership = &volume.Ownership{Policy: c.policy, GID: c.gid}
			}))
			h.write(t, func(tx *state.Tx) {
				own := *h.c.Store.Snapshot().Claim(nil, h.key)
				own.AttachmentMode = c.mode
				tx.PutClaim(&own)
			})
			reply, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc})
			if err != nil || len(reply.Grants) != 1 || reply.Grants[0].MountGroup != c.want {
				t.Errorf("%+v, %v, want group %q", reply, err, c.want)
			}
		})
	}
}

// Given a volume that allocs of two nodes may share, when a node asks for the grant, then it learns whom the volume
// shall belong to, and whether another node's alloc may use it: one that was placed before, or has begun.
func TestAGrantSaysWhoseAVolumeIsAndWhetherOthersUseIt(t *testing.T) {
	for what, c := range map[string]struct {
		state  volume.ClaimState
		node   ids.Node // of the other claim
		older  bool
		status string
		shared bool
	}{
		"an older one":               {volume.Held, "elsewhere", true, alloc.ClientPending, true},
		"a newer one":                {volume.Held, "elsewhere", false, alloc.ClientPending, false},
		"a newer one that has begun": {volume.Held, "elsewhere", false, alloc.ClientRunning, true},
		"one that waits":             {volume.Queued, "elsewhere", true, alloc.ClientPending, false},
		"one of the same node":       {volume.Held, "", true, alloc.ClientRunning, false},
		"one that is being released": {volume.Releasing, "elsewhere", false, alloc.ClientComplete, true},
	} {
		t.Run(what, func(t *testing.T) {
			h := withClaim(t)
			h.write(t, h.plugin(func(*plugin.Record) {}))
			h.write(t, h.attachment(volume.Present, false))
			h.write(t, h.volume(func(v *volume.Volume) {
				v.Spec.Ownership = &volume.Ownership{Policy: volume.OwnRoot, Mode: "0700"}
			}))
			h.write(t, func(tx *state.Tx) {
				other := *h.c.Store.Snapshot().Claim(nil, h.key)
				own := *h.c.Store.Snapshot().Alloc(nil, other.Alloc)
				own.ID, own.ClientStatus = "other", c.status
				tx.PutAlloc(&own)
				other.Alloc, other.State = "other", c.state
				if c.node != "" {
					other.Node = c.node
				}
				other.Epoch.Index++
				if c.older {
					other.Epoch.Index -= 2
				}
				tx.PutClaim(&other)
			})
			reply, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc})
			if err != nil || len(reply.Grants) != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
			g := reply.Grants[0]
			if g.Shared != c.shared || g.Ownership == nil || g.Ownership.Mode != "0700" {
				t.Errorf("that others use it is %v, want %v; it shall belong to %+v", g.Shared, c.shared, g.Ownership)
			}
		})
	}
}

// deposed is a cluster whose server leads no more and has not heard of it.
type deposed struct{ leader.Alone }

func (deposed) Confirm(context.Context) error { return wire.NotLeading("s1") }

// Given a server that was deposed and does not know it, when a node asks for a grant that its state would give, then
// none is handed out: the claim may have ended since, and another node may write.
func TestADeposedLeaderGrantsNothing(t *testing.T) {
	h := withClaim(t)
	h.write(t, h.plugin(func(*plugin.Record) {}))
	h.write(t, h.attachment(volume.Present, false))
	ask := &wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc}
	if reply, err := h.nodeGrants(t.Context(), ask); err != nil || !reply.Ready {
		t.Fatalf("%+v, %v", reply, err)
	}
	h.cfg.Base.Cluster = deposed{}
	if _, err := h.nodeGrants(t.Context(), ask); !wire.IsNotLeading(err) {
		t.Errorf("it answers with %v", err)
	}
}
