package serving_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// TestAStreamEndsWithItsCallersRights: given a session in a task, when its caller's token expires, is deleted, or loses
// the policy or the rule that gives the right, then the stream ends, with the refusal; a change of something else, and
// what is for root on a server, ends none.
func TestAStreamEndsWithItsCallersRights(t *testing.T) {
	secret := redact.New("4b1d0f0e-0000-4000-8000-000000000001")
	token := func() *acl.Token {
		return &acl.Token{
			Accessor:   "t",
			SecretHash: acl.HashSecret(secret),
			Type:       acl.ClientToken,
			Policies:   []string{"p"},
			Expires:    time.Now().Add(time.Hour),
		}
	}
	reads := `namespace "app" { capabilities = ["read-logs"] }`
	for name, c := range map[string]struct {
		who   wire.Person
		then  func(tx *state.Tx)
		rests time.Duration
		ends  bool
	}{
		"nothing":             {then: func(*state.Tx) {}},
		"its token expires":   {then: func(*state.Tx) {}, rests: time.Hour, ends: true},
		"its token is gone":   {then: func(tx *state.Tx) { tx.DeleteACLToken("t") }, ends: true},
		"its policy is gone":  {then: func(tx *state.Tx) { tx.DeleteACLPolicy("p") }, ends: true},
		"another policy":      {then: func(tx *state.Tx) { tx.PutACLPolicy(&acl.Policy{Name: "q", Rules: reads}) }},
		"root, of all tokens": {who: wire.Person{Local: true}, then: func(tx *state.Tx) { tx.DeleteACLToken("t") }},
		"its rule is another": {then: func(tx *state.Tx) {
			tx.PutACLPolicy(&acl.Policy{Name: "p", Rules: `namespace "app" { policy = "deny" }`})
		}, ends: true},
		"its token loses the policy": {then: func(tx *state.Tx) {
			now := token()
			now.Policies = nil
			tx.PutACLToken(now)
		}, ends: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := state.New()
			write := func(fn func(tx *state.Tx)) {
				t.Helper()
				st := state.Stamp{Index: store.Snapshot().Index() + 1, Time: time.Now()}
				if err := store.Write(st, func(tx *state.Tx) error { fn(tx); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			write(func(tx *state.Tx) {
				tx.PutACLToken(token())
				tx.PutACLPolicy(&acl.Policy{Name: "p", Rules: reads})
				tx.PutAlloc(&alloc.Alloc{ID: "a", Namespace: "app", Job: "j"})
			})
			who := c.who
			if !who.Local {
				who.Token = secret
			}
			said, _ := metadata.FromOutgoingContext(wire.For(t.Context(), who)) // as it comes in at the server
			ctx, err := serving.Judge(metadata.NewIncomingContext(t.Context(), said), store, wire.AllocLogs.Name(),
				&wire.AllocLogsRequest{AgentRef: wire.AgentRef{Alloc: "a"}, Task: "t"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			standing, end := serving.Standing(ctx, store)
			defer end()
			synctest.Wait()
			if standing.Err() != nil {
				t.Errorf("%s: it ends at once: %v", name, context.Cause(standing))
			}
			write(c.then)
			time.Sleep(c.rests)
			synctest.Wait()
			if ended := standing.Err() != nil; ended != c.ends ||
				ended && !fault.Has(context.Cause(standing), fault.Denied) {
				t.Errorf("%s: it has ended: %t, %v", name, ended, context.Cause(standing))
			}
		})
	}
}
