package csi

import (
	"fmt"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/internal/model/volume"
)

// The functions of this file turn a plugin's answer into plain types, or into a sentence that says what is wrong with
// it. A plugin is foreign code: nothing it sends is believed unseen. An empty sentence means that all is well.

func idFault(field, id string, max int) string {
	switch {
	case id == "":
		return "an empty " + field
	case len(id) > max:
		return fmt.Sprintf("a %s of %d bytes, more than the %d that the specification allows", field, len(id), max)
	}
	return ""
}

func mapFault(field string, m map[string]string) string {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	if size > maxMap {
		return fmt.Sprintf("a %s of %d bytes, more than the %d that the specification allows", field, size, maxMap)
	}
	return ""
}

func sizeFault(field string, n int64) string {
	if n < 0 {
		return fmt.Sprintf("a negative %s (%d)", field, n)
	}
	return ""
}

// first returns the first sentence that is not empty.
func first(faults ...string) string {
	for _, f := range faults {
		if f != "" {
			return f
		}
	}
	return ""
}

func topologiesFrom(list []*pb.Topology) ([]Topology, string) {
	var out []Topology
	for _, t := range list {
		place := Topology(mapPB(t.GetSegments()))
		if wrong := topologyFault(place); wrong != "" {
			return nil, "a topology that " + wrong
		}
		out = append(out, place)
	}
	return out, ""
}

// volumeFrom reads a volume. A topology from a plugin that does not advertise constraints is not to be used.
func volumeFrom(v *pb.Volume, topologyAware bool) (Volume, string) {
	if v == nil {
		return Volume{}, "no volume"
	}
	out := Volume{ID: v.GetVolumeId(), Capacity: v.GetCapacityBytes(), Context: mapPB(v.GetVolumeContext()),
		Source: ContentSource{
			SnapshotID: v.GetContentSource().GetSnapshot().GetSnapshotId(),
			VolumeID:   v.GetContentSource().GetVolume().GetVolumeId(),
		}}
	wrong := first(idFault("volume id", out.ID, maxString), sizeFault("capacity", out.Capacity),
		mapFault("volume context", out.Context))
	if wrong == "" && topologyAware {
		out.Topology, wrong = topologiesFrom(v.GetAccessibleTopology())
	}
	return out, wrong
}

func timeFrom(t *timestamppb.Timestamp) (time.Time, string) {
	if t == nil {
		return time.Time{}, "no creation time"
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, "a creation time outside of the calendar"
	}
	return t.AsTime(), ""
}

func snapshotFrom(s *pb.Snapshot) (Snapshot, string) {
	if s == nil {
		return Snapshot{}, "no snapshot"
	}
	created, wrong := timeFrom(s.GetCreationTime())
	out := Snapshot{
		ID:             s.GetSnapshotId(),
		SourceVolumeID: s.GetSourceVolumeId(),
		Size:           s.GetSizeBytes(),
		CreatedAt:      created,
		Ready:          s.GetReadyToUse(),
	}
	wrong = first(idFault("snapshot id", out.ID, maxString), idFault("source volume id", out.SourceVolumeID, maxString),
		sizeFault("snapshot size", out.Size), wrong)
	return out, wrong
}

// usageFrom reads usage by unit; the last entry of a unit counts.
func usageFrom(list []*pb.VolumeUsage) (bytes, inodes *Usage, wrong string) {
	for _, u := range list {
		one := &Usage{Available: u.GetAvailable(), Total: u.GetTotal(), Used: u.GetUsed()}
		wrong = first(wrong, sizeFault("available amount", one.Available), sizeFault("total amount", one.Total),
			sizeFault("used amount", one.Used))
		switch u.GetUnit() {
		case pb.VolumeUsage_BYTES:
			bytes = one
		case pb.VolumeUsage_INODES:
			inodes = one
		}
	}
	return bytes, inodes, wrong
}

// pageFault bounds what one page may hold: more entries than asked is outside of the specification.
func pageFault(got int, asked int32) string {
	if asked > 0 && got > int(asked) {
		return fmt.Sprintf("%d entries where at most %d were asked", got, asked)
	}
	return ""
}

// compare tells which fields a plugin confirmed with other contents than asked. Fields left out are not compared:
// plugins in the wild omit them, and that is no refusal.
func compare(asked ValidateVolumeRequest, got *pb.ValidateVolumeCapabilitiesResponse_Confirmed) []string {
	var out []string
	for _, c := range []struct {
		name      string
		want, got map[string]string
	}{
		{"volume_context", asked.VolumeContext, got.GetVolumeContext()},
		{"parameters", asked.Parameters, got.GetParameters()},
	} {
		for k, v := range c.got {
			if want, ok := c.want[k]; !ok || want != v {
				out = append(out, c.name)
				break
			}
		}
	}
	for _, c := range got.GetVolumeCapabilities() {
		if wrong := notAsked(asked.Capabilities, c); wrong != "" {
			out = append(out, "volume_capabilities: "+useName(c)+" is confirmed, "+wrong)
		}
	}
	return out
}

// notAsked says what a plugin confirmed beyond the question. It may confirm some of the capabilities only, and leave
// out what it does not look at. Mount flags are not printed: they may be sensitive.
func notAsked(asked []VolumeCapability, c *pb.VolumeCapability) string {
	wrong := "which was not asked"
	for _, want := range asked {
		if !confirmedUse(want, c) {
			continue
		}
		given := &volume.MountOptions{MountFlags: c.GetMount().GetMountFlags()}
		if len(given.MountFlags) == 0 || given.Equal(&volume.MountOptions{MountFlags: want.MountFlags}) {
			return ""
		}
		wrong = "with other mount_flags than asked"
	}
	return wrong
}

// useName names a capability in our own words where there are any, else in the specification's.
func useName(c *pb.VolumeCapability) string {
	mode := c.GetAccessMode().GetMode().String()
	for ours, theirs := range accessModes {
		if theirs == c.GetAccessMode().GetMode() && ours != "" {
			mode = string(ours)
		}
	}
	switch m := c.GetMount(); {
	case c.GetBlock() != nil:
		return mode + " " + string(volume.BlockDevice)
	case m == nil:
		return mode + " without an access type"
	case m.GetFsType() != "":
		return mode + " " + string(volume.FileSystem) + " (" + cut(clean(m.GetFsType()), maxString) + ")"
	}
	return mode + " " + string(volume.FileSystem)
}

// confirmedUse tells whether a plugin confirms a use, mount flags aside. Fields that it left out are no difference.
func confirmedUse(want VolumeCapability, c *pb.VolumeCapability) bool {
	if mode := c.GetAccessMode().GetMode(); mode != pb.VolumeCapability_AccessMode_UNKNOWN &&
		mode != accessModes[want.AccessMode] {
		return false
	}
	block := want.AttachmentMode == volume.BlockDevice
	if c.GetAccessType() == nil || block {
		return c.GetMount() == nil
	}
	fs := c.GetMount().GetFsType()
	return c.GetBlock() == nil && (fs == "" || want.FSType == "" || fs == want.FSType)
}
