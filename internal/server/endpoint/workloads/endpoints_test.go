package workloads

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/trust"
	"berth/internal/model/workload"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/rights"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// leads is a cluster whose leader this is.
type leads struct{ serving.Cluster }

func (leads) Confirm(context.Context) error { return nil }

var key = workload.Key{ID: "k", Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}

type signer struct{}

func (signer) Sign(_ context.Context, _ *state.Snap, s *workload.Statement) (redact.Secret, error) {
	return key.Sign(s)
}

func world(t *testing.T) *state.Store {
	t.Helper()
	const where = "${node.datacenter}/${node.pool}/${node.class}/${job.node_pool}"
	s := state.New()
	err := s.Write(state.Stamp{Index: 1, Time: time.Now()}, func(tx *state.Tx) error {
		tx.PutSigningKey(&state.SigningKey{ID: "k", Public: key.Private.Public().(ed25519.PublicKey)})
		for _, id := range []ids.Node{"n", "m", "denied", "twice"} {
			tx.PutNode(&node.Node{
				ID:         id,
				SecretHash: wire.HashNodeSecret("secret of " + string(id)),
				Datacenter: "dc1",
				NodePool:   "gpu",
				NodeClass:  "big",
			})
		}
		tx.PutMeta(&state.Meta{Incarnation: "i"})
		denied := &trust.Member{Role: trust.Node, ID: "denied", Denied: &trust.Denial{}}
		tx.PutMember(denied)
		tx.PutSession(&node.Session{Node: "twice", Epoch: "now", Superseded: []string{"before"}})
		tx.PutJob(&job.Job{Namespace: "shop", ID: "web", NodePool: "all", TaskGroups: []*job.TaskGroup{{
			Name: "front",
			Tasks: []*job.Task{{
				Name: "app",
				Identities: []*job.WorkloadIdentity{{
					Name:        "vault",
					Audience:    []string{"vault"},
					TTL:         time.Hour,
					ExtraClaims: map[string]string{"where": where},
				}},
			}},
		}}})
		for id, change := range map[ids.Alloc]func(*alloc.Alloc){
			"runs":      func(*alloc.Alloc) {},
			"elsewhere": func(a *alloc.Alloc) { a.Node = "m" },
			"denied":    func(a *alloc.Alloc) { a.Node = "denied" },
			"twice":     func(a *alloc.Alloc) { a.Node = "twice" },
			"ended":     func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientComplete },
			"lost":      func(a *alloc.Alloc) { a.ClientStatus = alloc.ClientLost },
			"stops":     func(a *alloc.Alloc) { a.DesiredStatus = alloc.DesiredStop },
		} {
			a := &alloc.Alloc{
				ID:             id,
				Namespace:      "shop",
				Job:            "web",
				TaskGroup:      "front",
				Node:           "n",
				DesiredStatus:  alloc.DesiredRun,
				ClientStatus:   alloc.ClientRunning,
				JobCreateIndex: 1,
			}
			change(a)
			tx.PutAlloc(a)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestANodeHasIdentitiesSignedOfWhatItRuns, and of nothing else: not of what runs elsewhere, has ended or is to end.
func TestANodeHasIdentitiesSignedOfWhatItRuns(t *testing.T) {
	store := world(t)
	e := New(Config{Base: serving.Base{Store: store, Cluster: leads{}}, Signer: signer{}, Region: "global"})
	ask := func(change func(*wire.IdentitiesRequest)) (*wire.IdentitiesReply, error) {
		req := &wire.IdentitiesRequest{
			Alloc: "runs",
			Task:  "app",
			Names: []string{"default", "vault"},
		}
		req.Node, req.Secret = "n", wire.Secrets{Values: map[string]string{"id": "secret of n"}}
		if change != nil {
			change(req)
		}
		return e.identities(t.Context(), req)
	}
	reply, err := ask(nil)
	if err != nil || len(reply.Items) != 2 || reply.Items[0].Lives != 0 || reply.Items[1].Lives != time.Hour {
		t.Fatalf("%+v, %v", reply, err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(reply.Items[1].Token.Secret().Reveal(), ".")[1])
	if err != nil || !strings.Contains(string(payload), `"extra_claims":{"where":"dc1/gpu/big/all"}`) {
		t.Errorf("it says %s, %v", payload, err)
	}
	who, err := rights.WorkloadOf(store.Snapshot(), nil, reply.Items[0].Token.Secret(), time.Now())
	if err != nil || who.Job != "web" || who.Group != "front" || who.Task != "app" {
		t.Errorf("the default one is of %v, %v", who, err)
	}
	if _, err := rights.WorkloadOf(store.Snapshot(), nil, reply.Items[1].Token.Secret(), time.Now()); err == nil {
		t.Error("what is for others opens the API")
	}
	as := func(name, session string) func(*wire.IdentitiesRequest) {
		return func(r *wire.IdentitiesRequest) {
			r.Node, r.Alloc = ids.Node(name), ids.Alloc(name)
			r.Session = session
			r.Secret = wire.Secrets{Values: map[string]string{"id": "secret of " + name}}
		}
	}
	const denied, invalid = fault.Denied, fault.Invalid
	for _, c := range []struct {
		name   string
		change func(*wire.IdentitiesRequest)
		kind   fault.Kind
		says   string
	}{
		{"of another node's", func(r *wire.IdentitiesRequest) { r.Alloc = "elsewhere" }, denied, "not placed on this"},
		{"of none", func(r *wire.IdentitiesRequest) { r.Alloc = "gone" }, denied, "not placed on this"},
		{"of one that ended", func(r *wire.IdentitiesRequest) { r.Alloc = "ended" }, denied, "ended"},
		{"of one that is lost", func(r *wire.IdentitiesRequest) { r.Alloc = "lost" }, denied, "ended"},
		{"of one that is to stop", func(r *wire.IdentitiesRequest) { r.Alloc = "stops" }, denied, "is to end"},
		{"as another node", func(r *wire.IdentitiesRequest) { r.Node, r.Alloc = "m", "elsewhere" }, denied, "secret"},
		{"as a node that is denied", as("denied", ""), denied, "denied"},
		{"as a second agent", as("twice", "before"), fault.Conflict, "another agent start"},
		{"of no task", func(r *wire.IdentitiesRequest) { r.Task = "x" }, invalid, "no such task"},
		{"of no identity", func(r *wire.IdentitiesRequest) { r.Names = []string{"x"} }, invalid, `no identity "x"`},
	} {
		if reply, err := ask(c.change); !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", c.name, reply, err)
		}
	}
}
