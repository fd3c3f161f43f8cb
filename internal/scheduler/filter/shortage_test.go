package filter

import (
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

// refusing is a state in which a provider permanently refuses one use of a volume at one node.
type refusing struct {
	*stored
	at  ids.Node
	use string
}

func (s *refusing) Shortage(on ids.Node, k volume.StagingKey, use string) *plugin.Shortage {
	if on != s.at || use != s.use {
		return nil
	}
	return &plugin.Shortage{ShortageKey: plugin.ShortageKey{Node: on, Plugin: k.Plugin, ExternalID: k.ExternalID}}
}

// TestARefusalIsOfOneUse: given a volume whose provider permanently refuses one use of it at a node, then the filter
// passes every other node, and this one for every other use; the check of a plan's claims answers the same.
func TestARefusalIsOfOneUse(t *testing.T) {
	id := volume.ID{ID: "v"}
	own := &volume.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}} // what the volume is registered with
	s := &refusing{stored: newStored().put(volume.SingleNodeWriter), at: "here"}
	v := s.volumes["v"]
	v.Spec.Plugin, v.Status.ExternalID = "p", "x"
	v.Spec.MountOptions = own
	reader := volume.Capability{AccessMode: volume.SingleNodeReader, AttachmentMode: volume.FileSystem}
	v.Spec.Capabilities = append(v.Spec.Capabilities, reader)
	s.use = volume.Wish(volume.SingleNodeWriter, volume.FileSystem, own)
	for _, c := range []struct {
		name    string
		node    ids.Node
		mode    volume.AccessMode
		options *job.MountOptions
		full    bool
	}{
		{"the refused use", "here", volume.SingleNodeWriter, nil, true},
		{"the refused use, in the job's words", "here", volume.SingleNodeWriter,
			&job.MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}, true},
		{"other flags", "here", volume.SingleNodeWriter, &job.MountOptions{MountFlags: []string{"nodev"}}, false},
		{"another file system", "here", volume.SingleNodeWriter, &job.MountOptions{FSType: "xfs"}, false},
		{"another mode", "here", volume.SingleNodeReader, nil, false},
		{"another node", "there", volume.SingleNodeWriter, nil, false},
	} {
		r := &job.VolumeRequest{
			Name:           "data",
			Type:           job.VolumeTypeCSI,
			Source:         "v",
			AccessMode:     string(c.mode),
			AttachmentMode: string(volume.FileSystem),
			MountOptions:   c.options,
			ReadOnly:       c.mode == volume.SingleNodeReader,
		}
		n := &node.Node{ID: c.node, CSI: []*plugin.Instance{
			{Plugin: "p", Role: plugin.RoleNode, State: plugin.Ready},
		}}
		f := NewCSI(NewLedger(s))
		f.Prepare(&Request{
			Job:   &job.Job{},
			Group: &job.TaskGroup{Volumes: map[string]*job.VolumeRequest{"data": r}},
		})
		key := f.Check(n)
		if (key != "") != c.full {
			t.Errorf("%s: the filter says %q", c.name, key)
		}
		l := NewLedger(s)
		claimed := &volume.Claim{
			Volume:         id,
			Node:           c.node,
			AccessMode:     c.mode,
			AttachmentMode: volume.FileSystem,
			MountOptions:   l.Admit(r, id, c.node).Options,
		}
		if got := l.Slots(n, []*volume.Claim{claimed}); got != key {
			t.Errorf("%s: the check of a plan says %q, the filter %q", c.name, got, key)
		}
	}
}
