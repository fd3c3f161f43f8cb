package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/model/alloc"
	"berth/internal/model/volume"
	"berth/internal/server"
	"berth/internal/server/fsm"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// Verbs of a history: of a register that is written if it is what its writer has read, and of a volume for one writer.
const (
	readVerb = iota
	writeVerb
	takeVerb
	endVerb
)

// asked is what a caller asks of one object: the value that it expects, and the one that it brings.
type asked struct {
	verb           int
	expected, mine string
}

// heard is what it hears. Unsure: the call may have been carried out, or not, or be carried out later.
type heard struct {
	value           string // of a read
	refused, unsure bool
}

// object is how both behave when calls come one after another. Its state is the value: of a register what was written
// last, of a volume who has it, and empty at first and in between.
var object = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, in, out any) []any {
		now := state.(string)
		call := in.(asked)
		got := out.(heard)
		next := now
		fits := call.expected == now
		switch call.verb {
		case readVerb:
			if got.unsure || got.value == now {
				return []any{now}
			}
			return nil
		case writeVerb, takeVerb:
			next = call.mine
		case endVerb:
			next = ""
		}
		switch {
		case got.unsure && fits:
			return []any{now, next}
		case got.unsure, got.refused && !fits:
			return []any{now}
		case !got.refused && fits:
			return []any{next}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
}

// history is what callers asked and heard, in the order in which they did.
type history struct {
	mu  sync.Mutex
	all []porcupine.Operation
}

// add notes one call. Of one whose end is not known, the end is the end of all time.
func (h *history) add(caller int, begun time.Time, in asked, err error, value string) {
	out := heard{value: value, refused: refusal(err)}
	ended := time.Now().UnixNano()
	if err != nil && !out.refused {
		out.unsure, ended = true, 1<<62
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, porcupine.Operation{
		ClientId: caller,
		Input:    in,
		Call:     begun.UnixNano(),
		Output:   out,
		Return:   ended,
	})
}

// refusal is the answer of a call that was not carried out, as something else was before.
func refusal(err error) bool { return fault.Has(err, fault.Conflict) || fault.Has(err, fault.Busy) }

// judge finds an order in which the calls could have been carried out one after another.
func (h *history) judge(t *testing.T, what string) {
	t.Helper()
	sure := 0
	for _, op := range h.all {
		if !op.Output.(heard).unsure {
			sure++
		}
	}
	t.Logf("%s: %d calls, the end of %d is known", what, len(h.all), sure)
	if sure < 50 {
		t.Errorf("%s: too few calls were answered to say anything", what)
	}
	if !porcupine.CheckOperations(object.ToModel(), h.all) {
		t.Errorf("%s: no order of the calls explains what was answered", what)
	}
}

// cast are the servers as callers find them, while they end and begin anew.
type cast struct {
	*servers.Cluster
	mu sync.RWMutex // of who is behind each name
}

// any is one of them, as it is now.
func (c *cast) any(draw *rand.Rand) (*server.Server, wire.Conn) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m := c.Members[draw.IntN(len(c.Members))]
	return m.Server, m.Conn
}

// leader is one that takes itself for the leader, rightly or not, if one is found soon.
func (c *cast) leader(draw *rand.Rand) (*server.Server, wire.Conn) {
	s, conn := c.any(draw)
	for tries := 0; tries < 6 && !s.Leading(); tries++ {
		s, conn = c.any(draw)
	}
	return s, conn
}

// begin has a server run anew.
func (c *cast) begin(m *servers.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Start()
}

// disturb ends and cuts off whoever leads, again and again, until the rounds are over; then all servers run.
func disturb(c *cast, draw *rand.Rand, rounds int) {
	for range rounds {
		time.Sleep(time.Duration(draw.IntN(3000)) * time.Millisecond)
		m := c.Leader()
		if m == nil {
			continue
		}
		if draw.IntN(2) == 0 {
			m.Stop()
			time.Sleep(time.Duration(draw.IntN(4000)) * time.Millisecond)
			c.begin(m)
			continue
		}
		c.Cut(m)
		time.Sleep(time.Duration(draw.IntN(6000)) * time.Millisecond)
		c.Heal()
	}
}

// play has callers call, each one call after another with a pause between, until disturb has ended.
func play(t *testing.T, c *cast, seed uint64, call func(ctx context.Context, caller int, draw *rand.Rand)) {
	t.Helper()
	g, ctx := lifecycle.NewGroup(t.Context())
	for caller := range 3 {
		g.Go(fmt.Sprint("caller ", caller), func() error {
			draw := rand.New(rand.NewPCG(seed, uint64(caller)+1))
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, 2*time.Second)
				call(within, caller, draw)
				cancel()
				time.Sleep(time.Duration(50+draw.IntN(400)) * time.Millisecond)
			}
			return nil
		})
	}
	disturb(c, rand.New(rand.NewPCG(seed, 0)), 6)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// seeds of the histories that are played each time.
var seeds = []uint64{1, 2}

// Given three servers whose leader is ended and cut off again and again, when callers at all of them write a job only
// if it is what they have read, then an order of all their calls explains what each of them heard: no write is lost,
// none is made over one that its writer has not seen, and no read is older than what was answered before.
func TestChecksAndWritesHaveAnOrder(t *testing.T) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checksAndWrites(t, seed) })
		})
	}
}

func checksAndWrites(t *testing.T, seed uint64) {
	c := &cast{Cluster: servers.Start(t, 3)}
	if c.Leader() == nil {
		t.Fatal("no server leads")
	}
	var h history
	play(t, c, seed, func(ctx context.Context, caller int, draw *rand.Rand) {
		_, conn := c.any(draw)
		begun := time.Now()
		got, err := wire.JobGet.Call(ctx, conn,
			&wire.Ref[ids.Job]{Query: wire.Query{Namespace: ids.DefaultNamespace}, ID: "register"})
		var seen string
		var index uint64
		if err == nil && got.Item != nil {
			seen, index = got.Item.Job.Meta["value"], got.Item.Job.JobModifyIndex
		}
		h.add(caller, begun, asked{verb: readVerb}, err, seen)
		if err != nil {
			return
		}
		mine := jobOf("register")
		mine.Meta = map[string]string{"value": ids.New()}
		_, conn = c.any(draw)
		begun = time.Now()
		_, err = wire.JobRegister.Call(ctx, conn,
			&wire.JobRegisterRequest{Job: mine, EnforceIndex: true, ModifyIndex: index})
		h.add(caller, begun, asked{verb: writeVerb, expected: seen, mine: mine.Meta["value"]}, err, "")
	})
	h.judge(t, "writes")
}

// Given three servers whose leader is ended and cut off again and again, when plans take a volume for one writer and
// proofs end its claims, by whichever server takes itself for the leader, then an order of all of them explains what
// was answered: nobody takes it whose predecessor has not ended.
func TestClaimsHaveAnOrder(t *testing.T) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { claims(t, seed) })
		})
	}
}

func claims(t *testing.T, seed uint64) {
	c := &cast{Cluster: servers.Start(t, 3)}
	lead := c.Leader()
	a := newAgent(t, c.Cluster, lead)
	if err := a.registers(t.Context(), lead.Conn); err != nil {
		t.Fatal(err)
	}
	of := volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}
	use := volume.Capability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}
	for _, cmd := range []fsm.Command{
		&fsm.VolumePut{Volume: &volume.Volume{
			ID:     of,
			UID:    "u",
			Spec:   volume.Spec{Plugin: "p", Capabilities: []volume.Capability{use}},
			Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x"},
		}},
		&fsm.JobRegister{Job: jobOf("db"), Seed: ids.New()},
	} {
		if _, _, err := lead.Propose(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	var h history
	play(t, c, seed, func(ctx context.Context, caller int, draw *rand.Rand) {
		m, conn := c.leader(draw)
		beat := &wire.NodeHeartbeatRequest{NodeIdentity: a.NodeIdentity}
		if _, err := wire.NodeHeartbeat.Call(ctx, conn, beat); err != nil {
			return // it goes on as soon as somebody leads
		}
		claim := &volume.Claim{
			Volume:         of,
			Alloc:          ids.Alloc(ids.New()),
			Node:           a.Node,
			Job:            "db",
			AccessMode:     use.AccessMode,
			AttachmentMode: use.AttachmentMode,
			State:          volume.Held,
		}
		begun := time.Now()
		err := takes(ctx, m, claim)
		h.add(caller, begun, asked{verb: takeVerb, mine: string(claim.Alloc)}, err, "")
		if refusal(err) {
			return
		}
		time.Sleep(time.Duration(draw.IntN(500)) * time.Millisecond)
		for gone := false; !gone; time.Sleep(100 * time.Millisecond) {
			m, _ := c.leader(draw)
			gone = ends(t, m, claim, func(begun time.Time, err error) {
				h.add(caller, begun, asked{verb: endVerb, expected: string(claim.Alloc)}, err, "")
			})
		}
	})
	h.judge(t, "claims")
}

// takes commits a placement with its claim, by one server.
func takes(ctx context.Context, m *server.Server, claim *volume.Claim) error {
	j := m.Store().Snapshot().Job(nil, ids.DefaultNamespace, claim.Job)
	if j == nil {
		return fault.New(fault.Unavailable, "place", "alloc", "the server has not heard of the job yet")
	}
	_, _, err := m.Propose(ctx, &fsm.PlanApply{
		Place: []*alloc.Alloc{{
			ID:             claim.Alloc,
			Namespace:      j.Namespace,
			Job:            j.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			JobType:        j.Type,
			TaskGroup:      "g",
			Name:           "db.g[0]",
			Node:           claim.Node,
		}},
		Claims: []*volume.Claim{claim},
	})
	return err
}

// ends has a claim end by one server: its alloc first, and then by a proof. It notes the proof, the one of both that
// gives the volume free. It returns whether the claim is gone: whatever was proposed before what is committed now is
// committed already, or never will be.
func ends(t *testing.T, m *server.Server, claim *volume.Claim, note func(begun time.Time, err error)) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
	defer cancel()
	_, _, err := m.Propose(ctx, &fsm.AllocClientUpdate{Seed: ids.New(), Allocs: []*alloc.Alloc{
		{ID: claim.Alloc, Node: claim.Node, ClientStatus: alloc.ClientComplete},
	}})
	if err != nil {
		return false
	}
	stored := m.Store().Snapshot().Claim(nil, claim.Key())
	if stored == nil {
		return true
	}
	begun := time.Now()
	_, _, err = m.Propose(ctx, &fsm.ClaimProof{
		Claim:  claim.Key(),
		Epoch:  stored.Epoch,
		Proof:  volume.ProofFenced,
		Reason: "the storage keeps the node out",
	})
	note(begun, err)
	return err == nil
}
