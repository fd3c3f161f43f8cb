package attaching_test

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
)

// Given a volume that was refused, then the question is another one when anything changes that the answer stands on,
// and the same one otherwise.
func TestWhatAnAnswerToAnAttachStandsOn(t *testing.T) {
	key := volume.StagingKey{Plugin: "disk", ExternalID: "vol-1"}
	stored := func() *volume.Volume {
		v := &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, UID: "u"}
		v.Spec.Plugin, v.Status.ExternalID = key.Plugin, key.ExternalID
		v.Status.Context, v.Spec.Secrets = map[string]string{"a": "1"}, "s1"
		return v
	}
	here := func() *node.Node {
		return &node.Node{ID: "n1", CSI: []*plugin.Instance{
			{Plugin: "disk", Role: plugin.RoleController, Alloc: "c1", Node: "n1", Provider: "p", Version: "1"},
			{Plugin: "disk", Role: plugin.RoleNode, Alloc: "c1", Node: "n1", Provider: "p", StorageNode: "host-1"},
			{Plugin: "other", Role: plugin.RoleController, Alloc: "o1", Node: "n1", Provider: "q", Version: "1"},
		}}
	}
	for _, c := range []struct {
		what    string
		change  func(v *volume.Volume, n *node.Node)
		another bool
	}{
		{"nothing", func(*volume.Volume, *node.Node) {}, false},
		{"the capacity", func(v *volume.Volume, _ *node.Node) { v.Status.Capacity = 7 }, false},
		{"another plugin", func(_ *volume.Volume, n *node.Node) { n.CSI[2].Alloc = "o2" }, false},
		{"the context", func(v *volume.Volume, _ *node.Node) { v.Status.Context = map[string]string{"a": "2"} }, true},
		{"the secrets", func(v *volume.Volume, _ *node.Node) { v.Spec.Secrets = "s2" }, true},
		{"the storage node", func(_ *volume.Volume, n *node.Node) { n.CSI[1].StorageNode = "host-2" }, true},
		{"the instance", func(_ *volume.Volume, n *node.Node) { n.CSI[0].Alloc = "c2" }, true},
		{"the version", func(_ *volume.Volume, n *node.Node) { n.CSI[0].Version = "2" }, true},
	} {
		s := localstate.New(t)
		write := func(v *volume.Volume, n *node.Node) {
			err := s.Store.Write(s.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
				tx.PutVolume(v)
				pluginjobs.Put(tx, n)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(stored(), here())
		before := attaching.Basis(s.Store.Snapshot(), nil, key, "n1")
		v, n := stored(), here()
		c.change(v, n)
		write(v, n)
		after := attaching.Basis(s.Store.Snapshot(), nil, key, "n1")
		if before == "" || (after != before) != c.another {
			t.Errorf("%s changes: from %q to %q", c.what, before, after)
		}
	}
	s := localstate.New(t)
	if got := attaching.Basis(s.Store.Snapshot(), nil, key, "n1"); got != "" {
		t.Errorf("the answer about a volume that is not there stands on %q", got)
	}
}
