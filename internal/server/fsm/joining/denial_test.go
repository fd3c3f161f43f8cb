package joining_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/trust"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/testkit/localstate"
)

// TestARenewalKnowsWhoWasDenied: given a node that asked for a certificate before it was denied, when its command comes
// after that in the log, then it is refused; so is its key under another id, one that it had before and a new one with
// a good token, and another key under its id. Another node is let in. Allowed, it is let in as before.
func TestARenewalKnowsWhoWasDenied(t *testing.T) {
	c := localstate.New(t)
	tok := token(t)
	admission(t, c, tok, 9)
	deny := &joining.Deny{Node: "a", By: "ann", Reason: "stolen"}
	allow := &joining.Allow{Node: "a", By: "ann", Reason: "found"}
	if !deny.Releases() {
		t.Error("with a disk that is nearly full nobody is denied")
	}
	if !(&joining.Join{Role: trust.Node, ID: "a", Key: "ka"}).Releases() || join("a", "ka", tok).Releases() {
		t.Error("a renewal is new work, or who joins is none")
	}
	denied := func(err error) bool { return isDenied(err) }
	fine := func(err error) bool { return err == nil }
	unknown := func(err error) bool { return fault.Has(err, fault.NotFound) }
	for _, step := range []struct {
		what string
		cmd  fsm.Command
		want func(error) bool
	}{
		{"a node", join("a", "ka", tok), fine},
		{"its key under another id", join("b", "ka", tok), fine},
		{"another node", join("c", "kc", tok), fine},
		{"who is none is denied", &joining.Deny{Node: "x", Reason: "r"}, unknown},
		{"who is not denied is allowed", allow, unknown},
		{"it is denied", deny, fine},
		{"the answer was lost", deny, fine},
		{"it renews", join("a", "ka", tok), denied},
		{"its key under the other id", join("b", "ka", tok), denied},
		{"its key under a new id", join("d", "ka", tok), denied},
		{"a new key under its id", join("a", "kd", tok), denied},
		{"the other node renews", join("c", "kc", tok), fine},
		{"it is allowed", allow, fine},
		{"it renews again", join("a", "ka", tok), fine},
		{"the other id again", join("b", "ka", tok), fine},
	} {
		_, _, err := c.Propose(t.Context(), step.cmd)
		if !step.want(err) {
			t.Errorf("%s: %v", step.what, err)
		}
		cmd, ok := step.cmd.(*joining.Join)
		if !ok {
			continue
		}
		s := c.Store.Snapshot()
		who := trust.Peer{Principal: trust.Principal{Role: trust.Node, ID: cmd.ID}, Key: cmd.Key}
		if got := joining.Refuses(s, who); got != isDenied(err) {
			t.Errorf("%s: its certificate is refused: %t", step.what, got)
		}
		if cmd.ID == "a" && (joining.Denied(s, nil, ids.Node("a")) != nil) != isDenied(err) {
			t.Errorf("%s: its calls are not judged as its certificate is", step.what)
		}
	}
	if c.Store.Snapshot().Member(nil, trust.Node, "d") != nil {
		t.Error("a denied key has joined")
	}
}

// isDenied reports the refusal of a node because it is denied.
func isDenied(err error) bool {
	return fault.Has(err, fault.Denied) && strings.Contains(err.Error(), "it is denied since ")
}
