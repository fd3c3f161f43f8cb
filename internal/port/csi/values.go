package csi

import (
	"fmt"
	"log/slog"
	"slices"
)

// AccessModes lists every access mode.
func AccessModes() []AccessMode {
	return []AccessMode{SingleNodeWriter, SingleNodeReaderOnly, MultiNodeReaderOnly, MultiNodeSingleWriter,
		MultiNodeMultiWriter, SingleNodeSingleWriter, SingleNodeMultiWriter}
}

// ReadOnly reports whether the mode allows readers only.
func (m AccessMode) ReadOnly() bool { return m == SingleNodeReaderOnly || m == MultiNodeReaderOnly }

// MultiNode reports whether the mode allows several nodes at once.
func (m AccessMode) MultiNode() bool {
	return m == MultiNodeReaderOnly || m == MultiNodeSingleWriter || m == MultiNodeMultiWriter
}

// Format masks the flags in every verb.
func (f MountFlags) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "[%d mount flags]", len(f))
}

// LogValue masks slog.
func (f MountFlags) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(f)) }

// Equal reports whether two capabilities mean the same; an absent and an empty list of flags do.
func (c VolumeCapability) Equal(o VolumeCapability) bool {
	return c.AccessMode == o.AccessMode && c.AttachmentMode == o.AttachmentMode && c.FSType == o.FSType &&
		c.MountGroup == o.MountGroup && slices.Equal(c.MountFlags, o.MountFlags)
}

// IsZero reports whether nothing is asked.
func (r CapacityRange) IsZero() bool { return r == CapacityRange{} }

// IsZero reports whether nothing is required.
func (r TopologyRequirement) IsZero() bool { return len(r.Requisite) == 0 && len(r.Preferred) == 0 }

// IsZero reports whether the volume begins empty.
func (s ContentSource) IsZero() bool { return s == ContentSource{} }
