// Package request owns the reading of CSI requests: what is legal in one, and what it asks for in the plugin's own
// terms. It decides nothing that depends on the state of a node. Only package localcsi and its parts import it.
package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/internal/localcsi/image"
	"berth/internal/localcsi/mount"
	"berth/internal/localcsi/store"
)

type accessMode = csi.VolumeCapability_AccessMode_Mode

// Access is a checked volume capability.
type Access struct {
	Block bool
	FS    string // empty: whatever the volume has
	Flags []string
	Group int // -1: none
	Mode  accessMode
}

// modes tells of every access mode whether its publications are read-only, and whether there may be several
// on a node. Of readers there may: the specification advises against it (a SHOULD of NodePublishVolume), but they harm
// nobody.
var modes = map[accessMode]struct{ readOnly, many bool }{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        {},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   {readOnly: true, many: true},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: {},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  {many: true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    {readOnly: true, many: true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  {many: true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   {many: true},
}

// Capability checks a volume capability.
func Capability(c *csi.VolumeCapability) (Access, error) {
	a := Access{Group: -1, Mode: c.GetAccessMode().GetMode()}
	if c == nil {
		return a, Refuse(codes.InvalidArgument, "volume_capability is missing")
	}
	if _, ok := modes[a.Mode]; !ok {
		return a, Refuse(codes.InvalidArgument,
			"access mode %s: every mode of CSI 1.13 is served, this is none of them", a.Mode)
	}
	switch t := c.GetAccessType().(type) {
	case *csi.VolumeCapability_Block:
		a.Block = true
	case *csi.VolumeCapability_Mount:
		return a, a.parseMount(t.Mount)
	default:
		return a, Refuse(codes.InvalidArgument, "the volume capability says neither mount nor block")
	}
	return a, nil
}

func (a *Access) parseMount(m *csi.VolumeCapability_MountVolume) error {
	a.FS, a.Flags = m.GetFsType(), m.GetMountFlags()
	if err := validFS(a.FS); err != nil {
		return err
	}
	if g := m.GetVolumeMountGroup(); g != "" {
		n, err := strconv.ParseInt(g, 10, 32)
		if err != nil || n < 0 {
			return Refuse(codes.InvalidArgument, "volume_mount_group %.64q is not a group id: write the number", g)
		}
		a.Group = int(n)
	}
	return nil
}

// Options are the mount options of the capability on a volume with the given file system.
func (a Access) Options(fs string) (mount.Options, error) {
	o, err := mount.ParseFlags(fs, a.Flags)
	if err != nil {
		return o, Refuse(codes.InvalidArgument, "%w", err)
	}
	return o, nil
}

func validFS(fs string) error {
	switch fs {
	case "", image.Ext4, image.XFS:
		return nil
	}
	return Refuse(codes.InvalidArgument, "file system %.64q is not offered: choose %s or %s", fs, image.Ext4, image.XFS)
}

// Fingerprint identifies the capability without telling it: mount flags may be sensitive.
func (a Access) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%t|%q|%q|%d|%d", a.Block, a.FS, a.Flags, a.Group, a.Mode)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ReadOnly reports whether publications in this access mode are read-only.
func (a Access) ReadOnly() bool { return modes[a.Mode].readOnly }

// Many reports whether the access mode allows several publications on a node.
func (a Access) Many() bool { return modes[a.Mode].many }

// Unfit says why a volume cannot be used so; empty means it can.
func (a Access) Unfit(v *store.Volume) string {
	switch {
	case a.Block && !v.Block:
		return "it was created as a file system, not as a block device"
	case !a.Block && !v.Mount:
		return "it was created as a block device, not as a file system"
	case !a.Block && a.FS != "" && a.FS != v.FS:
		return fmt.Sprintf("it has %s, not %s", v.FS, a.FS)
	}
	return ""
}
