package csi

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"berth/internal/base/pattern"
	"berth/internal/base/redact"
	"berth/internal/model/volume"
)

// Size limits of the specification, in bytes.
const (
	maxString  = 128
	maxNodeID  = 256
	maxPath    = 128 // what every plugin must take; longer ones it may refuse
	maxMap     = 4 << 10
	maxFlags   = 4 << 10
	maxSegment = 63
)

// text checks a string field that is sent.
func (k *call) text(field, value string, required bool, max int) *call {
	switch {
	case value == "" && required:
		return k.invalid("the " + field + " is empty")
	case len(value) > max:
		return k.invalid(
			fmt.Sprintf("the %s has %d bytes, more than the %d that the CSI specification allows", field, len(value),
				max))
	case !utf8.ValidString(value):
		return k.invalid("the " + field + " is not valid UTF-8")
	}
	return k
}

func (k *call) id(field, value string) *call { return k.text(field, value, true, maxString) }

// name checks a name that Berth generated: it may hold no control character but common white space.
func (k *call) name(value string) *call {
	k.text("name", value, true, maxString)
	for _, r := range value {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f {
			return k.invalid(fmt.Sprintf("the name holds the control character %U", r))
		}
	}
	return k
}

func (k *call) path(field, value string) *call {
	k.text(field, value, true, maxPath)
	if !filepath.IsAbs(value) || filepath.Clean(value) != value {
		return k.invalid(fmt.Sprintf("the %s %q is not a clean absolute path", field, cut(clean(value), maxPath)))
	}
	return k
}

// staging demands a staging path exactly where the plugin stages.
func (k *call) staging(value string) *call {
	switch {
	case k.refused != nil:
		return k
	case k.inst.Stages():
		return k.path("staging path", value)
	}
	return k.field(value != "", "the staging path", false, "node capability "+CapStage.String())
}

func (k *call) stringMap(field string, m map[string]string) *call {
	size := 0
	for _, name := range sortedKeys(m) {
		size += len(name) + len(m[name])
		if !utf8.ValidString(name) || !utf8.ValidString(m[name]) {
			return k.invalid("the " + field + " hold text that is not valid UTF-8")
		}
	}
	if size > maxMap {
		return k.invalid(
			fmt.Sprintf("the %s have %d bytes, more than the %d that the CSI specification allows", field, size,
				maxMap))
	}
	return k
}

var secretKey = pattern.Of(`^[A-Za-z0-9_.-]+$`)

func (k *call) secretMap(m redact.Map) *call {
	for _, name := range sortedKeys(m) {
		if !secretKey().MatchString(name) {
			return k.invalid(
				fmt.Sprintf("the secret %q has a name with characters outside of A-Z a-z 0-9 - _ .",
					cut(clean(name), maxString)))
		}
	}
	return k.stringMap("secrets", m.Reveal())
}

func (k *call) capacity(r CapacityRange, required bool) *call {
	switch {
	case r.Required < 0 || r.Limit < 0:
		return k.invalid("a capacity is negative")
	case r.Limit > 0 && r.Required > r.Limit:
		return k.invalid(fmt.Sprintf("the least capacity %d is larger than the greatest %d", r.Required, r.Limit))
	case required && r.IsZero():
		return k.invalid("no capacity is given")
	}
	return k
}

// capabilities checks the uses of a volume.
func (k *call) capabilities(list ...VolumeCapability) *call {
	for _, c := range list {
		k.useOf(c)
	}
	return k
}

func (k *call) useOf(c VolumeCapability) *call {
	k.hide(c.MountFlags)
	if _, ok := accessModes[c.AccessMode]; !ok {
		return k.invalid(
			fmt.Sprintf("the access mode %q is unknown; use one of %s", cut(clean(string(c.AccessMode)), maxString),
				modeList()))
	}
	size := 0
	for _, f := range c.MountFlags {
		size += len(f)
		if !utf8.ValidString(f) {
			return k.invalid("a mount flag is not valid UTF-8")
		}
	}
	switch {
	case size > maxFlags:
		return k.invalid(
			fmt.Sprintf("the mount flags have %d bytes, more than the %d that the CSI specification allows", size,
				maxFlags))
	case c.AttachmentMode == volume.BlockDevice && (c.FSType != "" || len(c.MountFlags) > 0 || c.MountGroup != ""):
		return k.invalid("a block device takes no file system type, mount flags or mount group")
	case c.AttachmentMode != volume.BlockDevice && c.AttachmentMode != volume.FileSystem:
		return k.invalid(
			fmt.Sprintf("the attachment mode %q is unknown; use %s or %s",
				cut(clean(string(c.AttachmentMode)), maxString), volume.FileSystem, volume.BlockDevice))
	}
	k.field(c.MountGroup != "", "the mount group", k.inst.Node.Has(CapMountGroup),
		"node capability "+CapMountGroup.String())
	return k.text("file system type", c.FSType, false, maxString)
}

func modeList() string {
	var names []string
	for _, m := range slices.Sorted(maps.Keys(accessModes)) {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func (k *call) topology(r TopologyRequirement) *call {
	k.field(!r.IsZero(), "the topology", k.inst.TopologyAware(), CapAccessibility.String())
	for _, t := range append(append([]Topology(nil), r.Requisite...), r.Preferred...) {
		if wrong := topologyFault(t); wrong != "" {
			return k.invalid("the topology " + wrong)
		}
	}
	if len(r.Requisite) == 0 {
		return k
	}
	for _, p := range r.Preferred {
		if !contains(r.Requisite, p) {
			return k.invalid("a preferred topology is not among the required ones")
		}
	}
	return k
}

func contains(list []Topology, want Topology) bool {
	for _, t := range list {
		if SameTopology(t, want) {
			return true
		}
	}
	return false
}

// SameTopology reports whether two places are equal. Keys compare without case, values with it.
func SameTopology(a, b Topology) bool { return len(a) == len(b) && Within(a, b) }

// Within reports whether node lies in place: each segment of place is one of node's. Keys compare without case.
func Within(place, node Topology) bool {
	for key, want := range place {
		found := false
		for k2, v := range node {
			found = found || strings.EqualFold(key, k2) && v == want
		}
		if !found {
			return false
		}
	}
	return true
}

var (
	topologyName   = pattern.Of(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	topologyPrefix = pattern.Of(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

// topologyFault tells what the specification forbids in a place, sent or received; empty when nothing.
func topologyFault(t Topology) string {
	if len(t) == 0 {
		return "has no segment"
	}
	seen := map[string]bool{}
	for _, key := range sortedKeys(t) {
		prefix, name, slash := strings.Cut(key, "/")
		if !slash {
			prefix, name = "", key
		}
		switch {
		case len(name) > maxSegment || !topologyName().MatchString(name):
			return fmt.Sprintf("key %q has a name that is not 1 to 63 of A-Z a-z 0-9 - _ .", cut(clean(key), maxString))
		case slash && (len(prefix) > maxSegment || !topologyPrefix().MatchString(prefix)):
			return fmt.Sprintf("key %q has a prefix that is no domain name of at most 63 characters",
				cut(clean(key), maxString))
		case len(t[key]) > maxSegment || !topologyName().MatchString(t[key]):
			return fmt.Sprintf("key %q has a value that is not 1 to 63 of A-Z a-z 0-9 - _ .", key)
		case seen[strings.ToLower(key)]:
			return fmt.Sprintf("key %q appears twice in different case", key)
		}
		seen[strings.ToLower(key)] = true
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
