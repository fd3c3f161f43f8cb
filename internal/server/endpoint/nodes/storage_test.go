package nodes

import (
	"log/slog"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/controllers"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// noSecrets is a secret store in which every entry is empty.
type noSecrets struct{}

func (noSecrets) Secrets(string) (wire.Secrets, error) { return wire.Secrets{}, nil }

// claimed are endpoints over a state in which an alloc holds a claim of a volume that needs no attachment.
type claimed struct {
	*Endpoints
	c     *localstate.Cluster
	node  ids.Node
	alloc ids.Alloc
	key   volume.ClaimKey
	epoch volume.Epoch
	prev  uint64
}

func withClaim(t *testing.T) *claimed {
	t.Helper()
	c := localstate.New(t)
	h := &claimed{c: c, node: ids.Node(ids.New()), alloc: ids.Alloc(ids.New())}
	h.Endpoints = New(Config{
		Base:        serving.Base{Store: c.Store, Cluster: leader.Alone{}},
		Proposer:    c,
		Heartbeats:  leader.Alone{},
		Controllers: controllers.New(),
		Secrets:     noSecrets{},
		Log:         slog.New(slog.DiscardHandler),
	})
	h.key = volume.ClaimKey{Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, Alloc: h.alloc}
	c.Must(t, &fsm.LineageMark{Mark: "one"})
	c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: h.node, Name: "n", SecretHash: HashSecret("s")}})
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutPlugin(&plugin.Record{ID: "p", Negotiated: true, NodeNegotiated: true})
		tx.PutVolume(&volume.Volume{ID: h.key.Volume, UID: "u", Spec: volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Must(t, &fsm.JobRegister{Seed: ids.New(),
		Job: &job.Job{
			Namespace: ids.DefaultNamespace,
			ID:        "db",
			Type:      job.TypeService,
			Priority:  50,
			TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}},
				Volumes: map[string]*job.VolumeRequest{"store": {
					Name:   "store",
					Type:   job.VolumeTypeCSI,
					Source: "v",
				}}}},
		}})
	j := c.Store.Snapshot().Job(nil, ids.DefaultNamespace, "db")
	c.Must(t, &fsm.PlanApply{
		Place: []*alloc.Alloc{{
			ID:             h.alloc,
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			JobType:        j.Type,
			TaskGroup:      "g",
			Name:           "db.g[0]",
			Node:           h.node,
		}},
		Claims: []*volume.Claim{{
			Volume:         h.key.Volume,
			Alloc:          h.alloc,
			Node:           h.node,
			Job:            j.ID,
			AccessMode:     volume.SingleNodeWriter,
			AttachmentMode: volume.FileSystem,
			State:          volume.Held,
		}}})
	h.epoch = c.Store.Snapshot().Claim(nil, h.key).Epoch
	return h
}

func (h *claimed) identity() wire.NodeIdentity {
	return wire.NodeIdentity{Node: h.node, Secret: wire.Secrets{Values: map[string]string{secretValue: "s"}}}
}

// tellsNothing reports, in order, a whole inventory without anything in it, taken at a point.
func (h *claimed) tellsNothing(t *testing.T, at lineage.Point) {
	t.Helper()
	reply, err := h.nodeInventory(t.Context(), &wire.InventoryReport{NodeIdentity: h.identity(),
		Full: true, At: at, Prev: h.prev})
	if err != nil || reply.Stale {
		t.Fatalf("the report is refused: %+v, %v", reply, err)
	}
	h.prev = reply.Head
}

// The index of another history is no place in this one: a report that was taken there was made without these claims.
func TestAReportTakenInAnotherHistoryEndsNoClaimByItsSilence(t *testing.T) {
	h := withClaim(t)
	h.c.Must(t, &fsm.AllocClientUpdate{Seed: ids.New(),
		Allocs: []*alloc.Alloc{{ID: h.alloc, Node: h.node, ClientStatus: alloc.ClientComplete}}})
	now := h.c.Store.Snapshot().Point(nil)
	for what, at := range map[string]lineage.Point{
		"of a mark that the state does not have": {
			Incarnation: now.Incarnation, Mark: "of another history", Index: now.Index + 1000},
		"of another incarnation":              {Incarnation: "another", Mark: "one", Index: now.Index + 1000},
		"of this leadership, not reached yet": {Incarnation: now.Incarnation, Mark: now.Mark, Index: now.Index + 1000},
		"of nothing":                          {},
	} {
		h.tellsNothing(t, at)
		if cl := h.c.Store.Snapshot().Claim(nil, h.key); cl == nil || cl.State != volume.Releasing {
			t.Fatalf("after a report taken at a point %s the claim is %+v", what, cl)
		}
	}
	h.tellsNothing(t, now)
	if cl := h.c.Store.Snapshot().Claim(nil, h.key); cl != nil {
		t.Errorf("the node has seen this state and holds nothing, the claim stays: %+v", cl)
	}
}

// The node keeps the point with the publication: by it the servers know later whether their silence ends the claim.
func TestAGrantSaysWhereTheStateWasWhenItWasGiven(t *testing.T) {
	h := withClaim(t)
	h.c.Must(t, &fsm.LineageMark{Mark: "two"})
	want := h.c.Store.Snapshot().Point(nil)
	reply, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: h.identity(), Alloc: h.alloc})
	if err != nil || !reply.Ready || len(reply.Grants) != 1 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if g := reply.Grants[0]; g.At != want || g.At.Mark != "two" || g.Epoch != h.epoch || g.Key.ExternalID != "x" {
		t.Errorf("%+v, want it of %+v", g, want)
	}
}

// TestAGrantGoesToTheNodeOfItsAllocAlone: given a claim that is held, when another registered node asks for it, or one
// that does not prove who it is, then it is denied: a grant carries the volume's secrets.
func TestAGrantGoesToTheNodeOfItsAllocAlone(t *testing.T) {
	h := withClaim(t)
	other := ids.Node(ids.New())
	h.c.Must(t, &fsm.NodeRegister{Node: &node.Node{ID: other, Name: "other", SecretHash: HashSecret("s")}})
	named := h.identity()
	named.Node = other
	forged := h.identity()
	forged.Secret = wire.Secrets{Values: map[string]string{secretValue: "guessed"}}
	for who, identity := range map[string]wire.NodeIdentity{"another node": named, "a forged one": forged} {
		reply, err := h.nodeGrants(t.Context(), &wire.GrantsRequest{NodeIdentity: identity, Alloc: h.alloc})
		if !fault.Has(err, fault.Denied) || reply != nil {
			t.Errorf("%s gets %+v, %v", who, reply, err)
		}
	}
}
