package nodes

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/peer"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// token asks for a readmission of the node.
func (h *claimed) token(t *testing.T, ttl time.Duration) string {
	t.Helper()
	out, err := h.readmit(t.Context(), &wire.ReadmitRequest{Node: h.node, Reason: "checked", By: "user 0", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return out.Token.Values[wire.ReadmitToken]
}

// events is the history of the node.
func (h *claimed) events() string {
	var out []string
	for _, e := range h.c.Store.Snapshot().Node(nil, h.node).Events {
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

// TestATokenReadmitsOneAgentStart: an agent that follows nothing is a copy; with the token that a person had made it is
// the node, once, also under another secret, and who allowed it stays with the node.
func TestATokenReadmitsOneAgentStart(t *testing.T) {
	h, ears := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	ears.silent = true
	token := h.token(t, 0)
	if strings.Contains(token, h.session().Readmission.TokenHash) || h.session().Epoch != "a" {
		t.Fatalf("the state has %+v", h.session())
	}
	if !strings.HasPrefix(token, string(h.node)+".") {
		t.Errorf("the token does not name its node: %s", token)
	}
	h.starts("b", "boot", "m").refused(t, fault.Conflict, "agent of a")
	guess := h.starts("b", "boot", "m")
	guess.token = string(h.node) + ".guessed"
	guess.refused(t, fault.Conflict, "its token is unknown", "node readmit")
	stranger := h.starts("b", "boot", "m")
	stranger.who.Secret = wire.Secrets{Values: map[string]string{secretValue: "new"}}
	stranger.refused(t, fault.Denied, "secret")

	kept := h.starts("b", "boot", "m")
	kept.token, kept.who.Secret = token, stranger.who.Secret
	kept.accepted(t)
	kept.accepted(t) // the answer was lost
	if err := kept.beats(t); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"user 0 allowed: checked", "until"} {
		if !strings.Contains(h.events(), text) {
			t.Errorf("the history does not say %q:\n%s", text, h.events())
		}
	}
	if h.session().Readmission != nil {
		t.Error("the token can be used again")
	}
	again := h.starts("c", "boot", "m")
	again.token, again.who.Secret = token, kept.who.Secret
	again.refused(t, fault.Conflict, "was used")
	follows := h.starts("c", "boot", "m", "b")
	follows.who.Secret = kept.who.Secret
	follows.accepted(t)
}

// TestAReadmissionIsNoProofOfADeadBoot: a token stands for the right previous epoch and for nothing else.
func TestAReadmissionIsNoProofOfADeadBoot(t *testing.T) {
	h, ears := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	ears.silent = true
	kept := h.starts("b", "next boot", "m2")
	kept.token = h.token(t, 0)
	ears.silent = false
	kept.refused(t, fault.NotReady, "agent of a")
	ears.silent = true
	kept.accepted(t)
	if h.session().OtherBoot == nil {
		t.Error("nothing proves that the boot before is dead, and it is not in doubt")
	}
}

// TestATokenExpires: it is good for its time, and a later one takes its place.
func TestATokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ears := withAgents(t)
		h.starts("a", "boot", "m").accepted(t)
		ears.silent = true
		first, second := h.token(t, 0), h.token(t, time.Minute)
		late := h.starts("b", "boot", "m")
		late.token = first
		late.refused(t, fault.Conflict, "unknown")
		late.token = second
		time.Sleep(time.Minute)
		late.refused(t, fault.Conflict, "expired")
		late.token = h.token(t, 0)
		time.Sleep(time.Hour - time.Second)
		late.accepted(t)
	})
}

// TestWhoGetsNoToken: nobody for a node that is heard, or unknown, or without a reason.
func TestWhoGetsNoToken(t *testing.T) {
	h, ears := withAgents(t)
	ask := func(node ids.Node, reason string, ttl time.Duration, kind fault.Kind, says string) {
		t.Helper()
		_, err := h.readmit(t.Context(), &wire.ReadmitRequest{Node: node, Reason: reason, TTL: ttl})
		if !fault.Has(err, kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s that says %q", err, kind, says)
		}
	}
	ears.silent = true
	ask(h.node, "checked", 0, fault.Conflict, "registers without a token")
	h.starts("a", "boot", "m").accepted(t)
	ask(h.node, " ", 0, fault.Invalid, "reason")
	ask(h.node, "checked", 25*time.Hour, fault.Invalid, "24h")
	ask(h.node, "checked", -time.Hour, fault.Invalid, "24h")
	ask(ids.Node(ids.New()), "checked", 0, fault.NotFound, "not found")
	ears.silent = false
	ask(h.node, "checked", 0, fault.Conflict, "ask again in 19s")
	if r := h.session().Readmission; r != nil {
		t.Errorf("a token was made: %+v", r)
	}
}

// TestAWrongTokenIsWorseThanNone: in the server's own process an agent that lost its store is believed without a token,
// but not with a wrong one: somebody meant another node, or another time.
func TestAWrongTokenIsWorseThanNone(t *testing.T) {
	h, _ := withAgents(t)
	h.starts("a", "boot", "m").accepted(t)
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: wire.NewPipe().Listener().Addr()})
	own := h.starts("b", "boot", "m")
	own.start.InProcess, own.token = true, string(h.node)+".guessed"
	if err := own.registers(ctx); !fault.Has(err, fault.Conflict) || !strings.Contains(err.Error(), "token") {
		t.Errorf("it is accepted: %v", err)
	}
	own.token = ""
	if err := own.registers(ctx); err != nil {
		t.Error(err)
	}
}
