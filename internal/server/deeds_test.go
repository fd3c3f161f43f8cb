package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/trust"
	"berth/internal/server/endpoint/serving"
	"berth/internal/wire"
)

// deeds keeps what is recorded, with how it ended.
type deeds struct {
	all  []string
	fail error // of the next record
}

func (d *deeds) record(deed serving.Deed) (func(error) error, error) {
	if d.fail != nil {
		return nil, d.fail
	}
	at := len(d.all)
	d.all = append(d.all, deed.Who+"|"+deed.From+"|"+deed.Method+"|"+string(deed.Namespace)+"|"+deed.Object)
	return func(err error) error {
		d.all[at] += "|done"
		if err != nil {
			d.all[at] = strings.TrimSuffix(d.all[at], "|done") + "|" + err.Error()
		}
		return nil
	}, nil
}

// TestWhatPersonsDoByNodesIsRecordedWhereItComesIn: given a person's call that changes something, then the server to
// which the connection of another agent brings it records it before it is done, with the token, the agent and the
// object, and does not do what it cannot record. What the server's own surface asks for is recorded there, what another
// server passes on is by that one, and reads are not.
func TestWhatPersonsDoByNodesIsRecordedWhereItComesIn(t *testing.T) {
	kept := &deeds{}
	id := ids.New()
	s, here, there := serves(t, Config{Record: kept.record},
		trust.Principal{Role: trust.Node, ID: id}, trust.Principal{Role: trust.Server, ID: "s2"})
	node, server := there[0], there[1]
	local := wire.For(t.Context(), wire.Person{Local: true, Name: "uid 0"})
	first, err := wire.ACLBootstrap.Call(local, here, &wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.For(t.Context(), wire.Person{Token: first.Secret.Secret()})
	put := &wire.ACLPolicyPutRequest{Name: "dev", Rules: `namespace "default" { policy = "read" }`}
	for _, c := range []struct {
		what string
		ctx  context.Context
		conn wire.Conn
		want string // empty: it is not recorded
	}{
		{"the server's own surface", manager, here, ""},
		{"another server", metadata.AppendToOutgoingContext(manager, "berth-relayed-by", "s2"), server, ""},
		{"a node", manager, node, "|ACL.PolicyPut||dev|done"},
		{"a node, with a token that nobody knows",
			wire.For(t.Context(), wire.Person{Token: redact.New("guess")}), node, "ACL token not found"},
	} {
		kept.all = nil
		_, err := wire.ACLPolicyPut.Call(c.ctx, c.conn, put)
		switch {
		case len(kept.all) == 0 && c.want == "" && err == nil:
		case len(kept.all) != 1 || c.want == "" || !strings.Contains(kept.all[0], c.want) ||
			!strings.Contains(kept.all[0], id):
			t.Errorf("%s: %q, %v", c.what, kept.all, err)
		case err == nil && !strings.Contains(kept.all[0], first.Token.Token.Accessor):
			t.Errorf("%s: %q does not say who", c.what, kept.all)
		}
		if strings.Contains(strings.Join(kept.all, ""), "guess") {
			t.Errorf("%s: a secret is recorded: %q", c.what, kept.all)
		}
	}
	kept.all = nil
	if _, err := wire.ACLPolicyList.Call(manager, node, &wire.ACLPolicyListRequest{}); err != nil || len(kept.all) > 0 {
		t.Errorf("a read: %q, %v", kept.all, err)
	}
	kept.fail = fault.Wrap(errors.New("no space left on device"), fault.Internal, "write", "the record")
	put.Name = "unrecorded"
	_, err = wire.ACLPolicyPut.Call(manager, node, put)
	if err == nil || !strings.Contains(err.Error(), "no space left") ||
		s.Store().Snapshot().ACLPolicy(nil, put.Name) != nil {
		t.Errorf("what cannot be recorded is done: %v", err)
	}
}
