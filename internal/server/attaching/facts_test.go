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
)

var disk = volume.StagingKey{Plugin: "disk", ExternalID: "vol-1"}

// with is a state with some records.
func with(t *testing.T, put func(*state.Tx)) *state.Snap {
	t.Helper()
	c := localstate.New(t)
	if err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error { put(tx); return nil }); err != nil {
		t.Fatal(err)
	}
	return c.Store.Snapshot()
}

func attachment(on ids.Node, is volume.Presence) *volume.Attachment {
	return &volume.Attachment{
		Volume:      volume.ID{Namespace: ids.DefaultNamespace, ID: "v"},
		Node:        on,
		Plugin:      disk.Plugin,
		ExternalID:  disk.ExternalID,
		StorageNode: "host-1",
		Presence:    is,
	}
}

// Given a volume that is attached to a node which has a mount of its plugin that nobody can name, then it counts as in
// use there, so that it is not detached; a mount of another plugin says nothing.
func TestAMountThatNobodyNamesKeepsItsPluginsVolumesAttached(t *testing.T) {
	for of, want := range map[ids.Plugin]bool{disk.Plugin: true, "another": false} {
		s := with(t, func(tx *state.Tx) {
			tx.PutAttachment(attachment("n1", volume.Present))
			tx.PutInventoryHead(&state.InventoryHead{
				Node:    "n1",
				Unknown: []volume.UnknownMount{{Path: "/mnt", Dir: ids.Segment(string(of))}},
			})
		})
		if f, _ := attaching.Facts(s, disk); f.OnNode["n1"] != want {
			t.Errorf("with a mount of plugin %s it is in use there: %v", of, f.OnNode["n1"])
		}
	}
}

// Given a volume that was forgotten by force, then its provider and its home are known, of what is left of it.
func TestAForgottenVolumeKeepsItsProviderAndItsHome(t *testing.T) {
	s := with(t, func(tx *state.Tx) {
		tx.PutTombstone(&volume.Tombstone{StagingKey: disk, Provider: "of old", HomeNode: "n1"})
	})
	if got := attaching.ProviderOf(s, nil, disk); got != "of old" {
		t.Errorf("its provider is %q", got)
	}
	if got := attaching.HomeOf(s, disk); got != "n1" {
		t.Errorf("its home is %q", got)
	}
}

// Given attachments of one volume to nodes that are one for the provider, then the other one counts also while it is
// not certain, and not when there is none.
func TestAnAttachmentThatMayBeThereIsTheSame(t *testing.T) {
	for is, want := range map[volume.Presence]bool{
		volume.Present:   true,
		volume.Uncertain: true,
		volume.Absent:    false,
	} {
		s := with(t, func(tx *state.Tx) {
			tx.PutAttachment(attachment("n1", volume.Present))
			tx.PutAttachment(attachment("n2", is))
		})
		if other := attaching.Same(s, attachment("n1", volume.Present)); (other != nil) != want {
			t.Errorf("one that is %s counts: %v", is, other != nil)
		}
	}
}

// Given an attachment that was learnt from a node's report, which does not tell the use, when it is made once more,
// then in the mode that the volume is used in.
func TestALearntAttachmentIsRepeatedInTheModeOfItsVolume(t *testing.T) {
	v := &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, UID: "u"}
	v.Spec.Plugin, v.Status.ExternalID = disk.Plugin, disk.ExternalID
	v.Status.AccessMode, v.Status.AttachmentMode = volume.SingleNodeWriter, volume.FileSystem
	s := with(t, func(tx *state.Tx) {
		tx.PutVolume(v)
		tx.PutNode(&node.Node{ID: "n1"})
		tx.PutAttachment(attachment("n1", volume.Uncertain))
	})
	a := attaching.Record(s, disk, &plugin.Record{ID: disk.Plugin, NeedsAttach: true}, "n1")
	if a == nil || a.AccessMode != volume.SingleNodeWriter || a.AttachmentMode != volume.FileSystem {
		t.Errorf("it is made as %+v", a)
	}
}
