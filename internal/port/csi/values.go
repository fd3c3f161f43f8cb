package csi

import (
	"fmt"
	"log/slog"
)

// Format masks the flags in every verb.
func (f MountFlags) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "[%d mount flags]", len(f))
}

// LogValue masks slog.
func (f MountFlags) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(f)) }

// IsZero reports whether nothing is asked.
func (r CapacityRange) IsZero() bool { return r == CapacityRange{} }

// IsZero reports whether nothing is required.
func (r TopologyRequirement) IsZero() bool { return len(r.Requisite) == 0 && len(r.Preferred) == 0 }

// IsZero reports whether the volume begins empty.
func (s ContentSource) IsZero() bool { return s == ContentSource{} }
