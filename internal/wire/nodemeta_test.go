package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/model/node"
	"berth/internal/wire"
)

// What is said of a node's metadata arrives, also that a key is taken away: in a request, and in the node's store,
// which is read as strictly.
func TestAKeyThatIsTakenAwayArrives(t *testing.T) {
	one := "1"
	said := map[string]*string{"rack": &one, "old": nil}
	data, err := wire.Encode(&wire.NodeMetaRequest{Node: "n", Meta: node.MetaWordsOf(said)})
	if err != nil {
		t.Fatal(err)
	}
	var got wire.NodeMetaRequest
	if err := wire.DecodeStrict(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said, got.Meta.Map()); diff != "" {
		t.Errorf("it arrives as (-want +got)\n%s", diff)
	}
}
