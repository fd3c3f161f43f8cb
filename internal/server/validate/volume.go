package validate

import (
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/sizes"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Limits of the specification for everything that is sent to plugins (CSI spec, "Size Limits").
const (
	maxString = 128
	maxMap    = 4 << 10
)

// Volume checks a request to create or register. All findings come in one text, in the form that clients know:
// "validation: <reason>, <reason>".
func Volume(r *wire.VolumeWriteRequest, register bool) error {
	var bad []string
	add := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	switch err := ids.ValidVolume(string(r.Volume.ID)); {
	case r.Volume.ID == "":
		add("missing volume id")
	case err != nil:
		add("volume id %q: %s", cut(string(r.Volume.ID)), err)
	}
	switch err := ids.ValidName(string(r.Spec.Plugin)); {
	case r.Spec.Plugin == "":
		add("missing plugin id")
	case err != nil:
		add("plugin id %q: %s", cut(string(r.Spec.Plugin)), err)
	}
	if r.Volume.Namespace == "" {
		add("missing namespace")
	}
	if r.Spec.SnapshotID != "" && r.Spec.CloneID != "" {
		add("only one of snapshot_id and clone_id is allowed")
	}
	if len(r.Spec.Capabilities) == 0 {
		add("must include at least one capability block")
	}
	for _, c := range r.Spec.Capabilities {
		if !c.AccessMode.Valid() {
			add("unknown access_mode %q (there are single-node-writer, single-node-reader-only, "+
				"multi-node-reader-only, multi-node-single-writer, multi-node-multi-writer)", cut(string(c.AccessMode)))
		}
		if !c.AttachmentMode.Valid() {
			add("unknown attachment_mode %q (there are file-system and block-device)", cut(string(c.AttachmentMode)))
		}
	}
	if lo, hi := r.Spec.CapacityMin, r.Spec.CapacityMax; lo < 0 || hi < 0 {
		add("capacity must not be negative")
	} else if hi > 0 && hi < lo {
		most, least := sizes.Differing(hi, lo)
		add("capacity_max (%s) must be at least capacity_min (%s)", most, least)
	}
	bad = append(bad, checkTopologies(&r.Spec)...)
	bad = append(bad, checkSizes(r)...)
	if register && r.ExternalID == "" {
		add("missing external_id")
	}
	if r.Secrets.Open().Holds(r.ExternalID) {
		add("external_id holds the value of a secret, which everybody could read there")
	}
	if !register && r.ExternalID != "" {
		add("external_id is the provider's to choose; use volume register for a volume that exists")
	}
	if len(bad) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Conflict, Err: fmt.Errorf("validation: %s", strings.Join(bad, ", "))}
}

func checkTopologies(s *volume.Spec) (bad []string) {
	for _, t := range s.TopologyRequired {
		if len(t.Segments) == 0 {
			bad = append(bad, "required topology is missing segments field")
		}
	}
	for _, t := range s.TopologyPreferred {
		if len(t.Segments) == 0 {
			bad = append(bad, "preferred topology is missing segments field")
		}
	}
	return bad
}

func checkSizes(r *wire.VolumeWriteRequest) (bad []string) {
	for _, f := range []struct{ name, value string }{{"name", r.Spec.Name}, {"external_id", r.ExternalID},
		{"snapshot_id", r.Spec.SnapshotID}, {"clone_id", r.Spec.CloneID}} {
		if len(f.value) > maxString {
			bad = append(bad,
				fmt.Sprintf("%s has %d bytes, the limit of storage plugins is %d", f.name, len(f.value), maxString))
		}
		if strings.ContainsFunc(f.value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			bad = append(bad, f.name+" contains a control character")
		}
	}
	for _, f := range []struct {
		name string
		m    map[string]string
	}{{"parameters", r.Spec.Parameters}, {"context", r.Context}, {"secrets", r.Secrets.Values}} {
		size := 0
		for key, v := range f.m {
			size += len(key) + len(v)
			if key == "" || len(key) > maxString {
				bad = append(bad,
					fmt.Sprintf("a key of %s has %d bytes, allowed are 1 to %d", f.name, len(key), maxString))
			}
		}
		if size > maxMap {
			bad = append(bad, fmt.Sprintf("%s has %d bytes, the limit of storage plugins is %d", f.name, size, maxMap))
		}
	}
	if o := r.Spec.Ownership; o != nil {
		bad = append(bad, o.Check()...)
	}
	if o := r.Spec.MountOptions; o != nil {
		size := 0
		for _, flag := range o.MountFlags {
			size += len(flag)
		}
		if size > maxMap || len(o.FSType) > maxString {
			bad = append(bad, "mount_options are larger than storage plugins must accept")
		}
	}
	return bad
}

func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
