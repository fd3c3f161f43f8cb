package nodes

import (
	"slices"
	"testing"
	"time"

	"berth/internal/model/trust"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// TestHeartbeatsTellTheServers: a node hears with each heartbeat which servers there are, and of none that was removed.
func TestHeartbeatsTellTheServers(t *testing.T) {
	h := withClaim(t)
	h.write(t, func(tx *state.Tx) {
		tx.PutMember(&trust.Member{Role: trust.Server, ID: "s1", Key: "k1", Address: "10.0.0.1:4647"})
		tx.PutMember(&trust.Member{Role: trust.Server, ID: "s2", Key: "k2", Address: "10.0.0.2:4647"})
		tx.PutMember(&trust.Member{Role: trust.Server, ID: "s3", Key: "k3", Removed: time.Unix(1, 0)})
		tx.PutMember(&trust.Member{Role: trust.Node, ID: "n1", Key: "kn"})
	})
	reply, err := h.nodeHeartbeat(t.Context(), &wire.NodeHeartbeatRequest{NodeIdentity: h.identity()})
	if err != nil {
		t.Fatal(err)
	}
	want := []trust.ServerAt{
		{Name: "s1", Address: "10.0.0.1:4647", Key: "k1"},
		{Name: "s2", Address: "10.0.0.2:4647", Key: "k2"},
	}
	if !slices.Equal(reply.Servers, want) {
		t.Errorf("the node hears of %v", reply.Servers)
	}
}
