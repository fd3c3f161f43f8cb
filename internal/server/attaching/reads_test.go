package attaching_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/attaching"
	"berth/internal/server/state"
	"berth/internal/testkit/pluginjobs"
)

func registered() *volume.Volume {
	v := &volume.Volume{ID: volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}, UID: "u"}
	v.Spec.Plugin, v.Spec.Secrets = disk.Plugin, "s1"
	v.Status = volume.Status{
		Phase:          volume.PhaseReady,
		ExternalID:     disk.ExternalID,
		AccessMode:     volume.SingleNodeWriter,
		AttachmentMode: volume.FileSystem,
		MountOptions:   &volume.MountOptions{FSType: "ext4"},
		Context:        map[string]string{"a": "1"},
		Provider:       "of now",
		HomeNode:       "n2",
	}
	return v
}

func staged(on ids.Node, is volume.Presence) (ids.Node, volume.InventoryEntry) {
	return on, volume.InventoryEntry{StagingKey: disk, Staging: is, Generation: 7}
}

// older puts the state back to a schema before one.
func older(tx *state.Tx, schema uint64) {
	m := *tx.Meta(nil)
	m.Schema = schema - 1
	tx.PutMeta(&m)
}

var needs = &plugin.Record{ID: disk.Plugin, Negotiated: true, NeedsAttach: true}

// Given a volume with all that decides over its attachments, then all of it is read; of one that is not there nothing
// new is attached.
func TestWhatDecidesOverAttachmentsIsRead(t *testing.T) {
	claim := &volume.Claim{
		Volume:     registered().ID,
		Plugin:     disk.Plugin,
		ExternalID: disk.ExternalID,
		Alloc:      "a",
		Node:       "n1",
		State:      volume.Held,
	}
	put := func(v *volume.Volume, rec *plugin.Record) *state.Snap {
		return with(t, func(tx *state.Tx) {
			if v != nil {
				tx.PutVolume(v)
			}
			if rec != nil {
				tx.PutPlugin(rec)
			}
			tx.PutClaim(claim)
			tx.PutAttachment(attachment("n1", volume.Present))
			tx.PutInventoryEntry(staged("n2", volume.Uncertain))
			on, quiet := staged("n3", volume.Absent)
			tx.PutInventoryEntry(on, quiet)
		})
	}
	many := registered()
	many.Status.AccessMode = volume.MultiNodeMultiWriter
	for name, c := range map[string]struct {
		v                          *volume.Volume
		rec                        *plugin.Record
		known, needsAttach, single bool
	}{
		"one for a single node": {registered(), needs, true, true, true},
		"one for many":          {many, needs, true, true, false},
		"attached by nobody":    {registered(), &plugin.Record{ID: disk.Plugin, Negotiated: true}, true, false, true},
		"not negotiated":        {registered(), &plugin.Record{ID: disk.Plugin, NeedsAttach: true}, false, true, true},
		"of no plugin":          {registered(), nil, false, false, true},
		"one that is not there": {nil, needs, true, false, false},
	} {
		f, rec := attaching.Facts(put(c.v, c.rec), disk)
		if f.Known != c.known || f.NeedsAttach != c.needsAttach || f.SingleNode != c.single {
			t.Errorf("%s: %+v", name, f)
		}
		if len(f.Claims) != 1 || f.Claims[0].Alloc != "a" || len(f.Attachments) != 1 || f.Attachments[0].Node != "n1" ||
			!f.OnNode["n2"] || f.OnNode["n3"] || f.OnNode["n1"] {
			t.Errorf("%s: %+v, on nodes %v", name, f, f.OnNode)
		}
		if (rec != nil) != (c.v != nil && c.rec != nil) {
			t.Errorf("%s: the plugin is %+v", name, rec)
		}
	}
}

// Given a volume that is registered, then its record says its home and its provider, whatever is left of another one.
func TestARegisteredVolumeSaysItsProviderAndItsHome(t *testing.T) {
	s := with(t, func(tx *state.Tx) {
		tx.PutVolume(registered())
		tx.PutTombstone(&volume.Tombstone{StagingKey: disk, Provider: "of old", HomeNode: "n1"})
	})
	if p, h := attaching.ProviderOf(s, nil, disk), attaching.HomeOf(s, disk); p != "of now" || h != "n2" {
		t.Errorf("its provider is %q, its home %q", p, h)
	}
	other := volume.StagingKey{Plugin: disk.Plugin, ExternalID: "other"}
	if p, h := attaching.ProviderOf(s, nil, other), attaching.HomeOf(s, other); p != "" || h != "" {
		t.Errorf("of one that nobody knows the provider is %q, the home %q", p, h)
	}
}

// A node's word counts for itself from the schema on that bounds it, and for all before.
func TestANodesWordIsBoundedBySchema(t *testing.T) {
	if on := attaching.Bounded(with(t, func(*state.Tx) {}), "n1"); on != "n1" {
		t.Errorf("it counts for %q", on)
	}
	s := with(t, func(tx *state.Tx) { older(tx, attaching.Schema) })
	if on := attaching.Bounded(s, "n1"); on != "" {
		t.Errorf("before, it counts for %q", on)
	}
}

// host is a node with an instance of the plugin, by which the provider knows it.
func host(id ids.Node, storage string) *node.Node {
	return &node.Node{ID: id, Status: node.StatusReady, CSI: []*plugin.Instance{
		{Plugin: disk.Plugin, Role: plugin.RoleController, Node: id, StorageNode: "of a controller"},
		{Plugin: disk.Plugin, Role: plugin.RoleNode, Node: id, StorageNode: storage},
		{Plugin: "other", Role: plugin.RoleNode, Node: id, StorageNode: "of another plugin"},
	}}
}

// Given a volume and a node, then a new attachment has all that its making and its undoing need, of the volume, of its
// plugin and of the node; what is known of an earlier one that failed counts on. Without all of that there is none, nor
// beside one to the same node by another name.
func TestANewAttachmentHasAllThatItsUndoNeeds(t *testing.T) {
	reader := registered()
	reader.Status.AccessMode = volume.MultiNodeReader
	readOnly := *needs
	readOnly.Controller.AttachReadOnly = true
	failed := attachment("n1", volume.Absent)
	failed.LastError = "no"
	failed.Tries, failed.NextTry = 3, time.Unix(99, 0).UTC()
	puts := func(a *volume.Attachment) func(*state.Tx) { return func(tx *state.Tx) { tx.PutAttachment(a) } }
	same := attachment("n2", volume.Present)
	before := func(tx *state.Tx) {
		tx.PutAttachment(same)
		older(tx, attaching.Schema)
	}
	for name, c := range map[string]struct {
		v       *volume.Volume
		rec     *plugin.Record
		storage string
		put     func(tx *state.Tx)
		made    bool
	}{
		"new":                        {registered(), needs, "host-1", nil, true},
		"after one that failed":      {registered(), needs, "host-1", puts(failed), true},
		"for readers":                {reader, &readOnly, "host-1", nil, true},
		"for readers, and not":       {reader, needs, "host-1", nil, true},
		"no volume":                  {nil, needs, "host-1", nil, false},
		"no plugin":                  {registered(), nil, "host-1", nil, false},
		"no node":                    {registered(), needs, "", nil, false},
		"a node that is not known":   {registered(), needs, " ", nil, false},
		"beside the same":            {registered(), needs, "host-1", puts(same), false},
		"beside the same, as before": {registered(), needs, "host-1", before, true},
	} {
		s := with(t, func(tx *state.Tx) {
			if c.v != nil {
				tx.PutVolume(c.v)
			}
			switch c.storage {
			case "":
			case " ":
				pluginjobs.Put(tx, host("n1", ""))
			default:
				pluginjobs.Put(tx, host("n1", c.storage))
			}
			if c.put != nil {
				c.put(tx)
			}
		})
		a := attaching.Record(s, disk, c.rec, "n1")
		if (a != nil) != c.made {
			t.Errorf("%s: %+v", name, a)
		}
		if a == nil {
			continue
		}
		want := &volume.Attachment{
			Volume:         c.v.ID,
			UID:            "u",
			Node:           "n1",
			Plugin:         disk.Plugin,
			ExternalID:     disk.ExternalID,
			AccessMode:     c.v.Status.AccessMode,
			AttachmentMode: volume.FileSystem,
			MountOptions:   c.v.Status.MountOptions,
			VolumeContext:  c.v.Status.Context,
			Secrets:        "s1",
			StorageNode:    "host-1",
			ReadOnly:       name == "for readers",
		}
		if name == "after one that failed" {
			want.ModifyIndex = s.Attachment(nil, a.Key()).ModifyIndex
			want.LastError = failed.LastError
			want.Tries, want.NextTry = failed.Tries, failed.NextTry
		}
		if !reflect.DeepEqual(a, want) {
			t.Errorf("%s: it is\n%+v, want\n%+v", name, a, want)
		}
	}
}

// Given an attachment that is there, then its record is a copy with the use as it was made, and learns it of the volume
// alone where it does not say it.
func TestTheRecordOfAnAttachmentThatIsThere(t *testing.T) {
	old := attachment("n1", volume.Present)
	old.AccessMode, old.AttachmentMode = volume.MultiNodeReader, volume.BlockDevice
	s := with(t, func(tx *state.Tx) {
		tx.PutVolume(registered())
		tx.PutAttachment(old)
		tx.PutAttachment(attachment("n2", volume.Uncertain))
	})
	a := attaching.Record(s, disk, nil, "n1")
	if a == nil || a.AccessMode != volume.MultiNodeReader || a.AttachmentMode != volume.BlockDevice ||
		a.MountOptions != nil || a == s.Attachment(nil, a.Key()) {
		t.Errorf("it is %+v", a)
	}
	if b := attaching.Record(s, disk, nil, "n2"); b == nil || b.MountOptions == nil {
		t.Errorf("one that does not say its use is %+v", b)
	}
}

// Given what a node reports to have staged, then an attachment that the state lacks is made of it, as Uncertain and
// with its generation, unless there is one, the node is another machine, the claim ended by proof, or the plugin
// attaches nothing.
func TestAnAttachmentThatTheStateLacksIsLearntOfItsNode(t *testing.T) {
	_, entry := staged("n1", volume.Present)
	_, quiet := staged("n1", volume.Absent)
	quietUnattached := quiet
	quietUnattached.Generation = 0
	proof := func(id string) *volume.ClaimProof {
		p := &volume.ClaimProof{Node: "n1"}
		p.StagingKey, p.Alloc = disk, "a"
		p.ExternalID = id
		return p
	}
	moved := &node.Session{
		Node:      "n1",
		Machine:   node.Machine{Boot: "b2", Product: "2", ID: "2"},
		OtherBoot: &node.OtherBoot{Machine: node.Machine{Boot: "b1", Product: "1", ID: "1"}},
	}
	there := attachment("n1", volume.Absent)
	known := func(tx *state.Tx) { tx.PutAttachment(there) }
	proven := func(id string) func(*state.Tx) { return func(tx *state.Tx) { tx.PutClaimProof(proof(id)) } }
	for name, c := range map[string]struct {
		e      volume.InventoryEntry
		rec    *plugin.Record
		put    func(tx *state.Tx)
		learnt bool
	}{
		"staged":                   {entry, needs, nil, true},
		"released, of one":         {quiet, needs, nil, true},
		"released, of none":        {quietUnattached, needs, nil, false},
		"no plugin":                {entry, nil, nil, false},
		"of a plugin without":      {entry, &plugin.Record{ID: disk.Plugin, Negotiated: true}, nil, false},
		"there is one":             {entry, needs, known, false},
		"another machine":          {entry, needs, func(tx *state.Tx) { tx.PutSession(moved) }, false},
		"its claim ended by proof": {entry, needs, proven(disk.ExternalID), false},
		"another's ended by proof": {entry, needs, proven("other"), true},
	} {
		s := with(t, func(tx *state.Tx) {
			tx.PutVolume(registered())
			pluginjobs.Put(tx, host("n1", "host-1"))
			if c.rec != nil {
				tx.PutPlugin(c.rec)
			}
			if c.put != nil {
				c.put(tx)
			}
		})
		a := attaching.Missing(s, "n1", c.e)
		if (a != nil) != c.learnt {
			t.Errorf("%s: %+v", name, a)
		}
		if a != nil && (a.Presence != volume.Uncertain || a.Generation != 7 || a.StorageNode != "host-1" ||
			a.UID != "u") {
			t.Errorf("%s: it is %+v", name, a)
		}
	}
}

// Given mounts that a node has no record of, then the volumes whose names make their paths are listed.
func TestVolumesThatAreMountedByPathAlone(t *testing.T) {
	other := registered()
	other.ID.ID, other.UID = "w", "w"
	other.Status.ExternalID = "vol-2"
	mount := volume.UnknownMount{
		Path: "/d/csi/" + ids.Segment(string(disk.Plugin)) + "/" + volume.StagingTail(disk.ExternalID),
		Dir:  ids.Segment(string(disk.Plugin)),
	}
	s := with(t, func(tx *state.Tx) {
		tx.PutVolume(registered())
		tx.PutVolume(other)
		tx.PutInventoryHead(&state.InventoryHead{Node: "n1", Unknown: []volume.UnknownMount{mount}})
	})
	if got := attaching.Unnamed(s, []volume.UnknownMount{mount}); !slices.Equal(got, []volume.StagingKey{disk}) {
		t.Errorf("they are %v", got)
	}
	if got := attaching.Unnamed(s, nil); len(got) > 0 {
		t.Errorf("of no mount they are %v", got)
	}
	if got := attaching.Strays(s, "n1"); len(got) != 1 || !got[disk] {
		t.Errorf("on the node they are %v", got)
	}
	if got := attaching.Strays(s, "n2"); got == nil || len(got) > 0 {
		t.Errorf("on a node that has reported nothing they are %v", got)
	}
}
