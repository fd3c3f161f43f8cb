package state

import (
	"slices"

	"berth/internal/model/volume"
)

// identify fills in which provider's volume a claim or an attachment is of, in a snapshot of a program that knew claims
// by the volume's name alone. The indexes of what it changes stay: nothing has happened to it.
func identify(s *Snap) {
	for _, c := range slices.Collect(s.Claims(nil)) {
		if c.ExternalID != "" {
			continue
		}
		n := *c
		if v := s.Volume(nil, c.Volume); v != nil {
			n.Identify(v)
		} else if k, ok := s.stagingNamed(c); ok { // forgotten by force
			n.Plugin, n.ExternalID = k.Plugin, k.ExternalID
		}
		claims.insert(s.own, &n)
	}
	for _, a := range slices.Collect(s.Attachments(nil)) {
		v := s.VolumeOf(nil, a.Staging())
		if a.UID != "" || v == nil {
			continue
		}
		n := *a
		n.UID = v.UID
		attachments.insert(s.own, &n)
	}
}

// stagingNamed finds what the node of a claim holds under the claim's name, or is attached to it.
func (s *Snap) stagingNamed(c *volume.Claim) (volume.StagingKey, bool) {
	for i := range s.InventoryNamed(nil, c.Volume) {
		if i.Node == c.Node {
			return i.Entry.StagingKey, true
		}
	}
	for a := range s.AttachmentsByNode(nil, c.Node) {
		if a.Volume == c.Volume {
			return a.Staging(), true
		}
	}
	return volume.StagingKey{}, false
}
