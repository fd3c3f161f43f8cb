package validate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

var (
	volumeID = volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}
	writer   = volume.Capability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}
	reader   = volume.Capability{AccessMode: volume.MultiNodeReader, AttachmentMode: volume.FileSystem}
)

// stored is a volume, in use or not, and a plugin.
func stored(t *testing.T, used bool, rec *plugin.Record) (*state.Snap, *volume.Volume) {
	t.Helper()
	c := localstate.New(t)
	v := &volume.Volume{
		ID: volumeID,
		Spec: volume.Spec{
			Name:         "v",
			Plugin:       "p",
			Parameters:   map[string]string{"kind": "fast"},
			Capabilities: []volume.Capability{writer},
			MountOptions: &volume.MountOptions{FSType: "ext4"},
			CapacityMin:  1000,
		},
		Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x", Capacity: 1000},
	}
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		if used {
			v.Status.AccessMode, v.Status.AttachmentMode = writer.AccessMode, writer.AttachmentMode
			held := &volume.Claim{Volume: v.ID, Alloc: "a", Node: "n", State: volume.Held}
			held.Identify(v)
			tx.PutClaim(held)
		}
		tx.PutVolume(v)
		if rec != nil {
			tx.PutPlugin(rec)
		}
		pluginjobs.Put(tx, &node.Node{ID: "n", CSI: []*plugin.Instance{{Plugin: "joins", Role: plugin.RoleNode}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Store.Snapshot(), v
}

func able() *plugin.Record {
	return &plugin.Record{ID: "p", Negotiated: true, Controller: plugin.Capabilities{
		ControllerService: true,
		CreateDelete:      true,
		ControllerExpand:  true,
		ExpandOnline:      true,
		CreateSnapshot:    true,
		Clone:             true,
	}}
}

func judged(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestWhatOfAVolumeMayChange: what the provider made it of never, what its users stand on not while they do.
func TestWhatOfAVolumeMayChange(t *testing.T) {
	for what, c := range map[string]struct {
		edit    func(*wire.VolumeWriteRequest)
		changed string
		free    string // why it is refused
		used    string
	}{
		"nothing": {func(*wire.VolumeWriteRequest) {}, "", "", ""},
		"its plugin": {func(r *wire.VolumeWriteRequest) { r.Spec.Plugin = "q" }, "",
			"plugin ID cannot be updated", "plugin ID cannot be updated"},
		"its external id": {func(r *wire.VolumeWriteRequest) { r.ExternalID = "y" }, "",
			"external ID cannot be updated", "external ID cannot be updated"},
		"its source": {func(r *wire.VolumeWriteRequest) { r.Spec.CloneID = "other" }, "",
			"berth volume delete v", "clone ID cannot be updated"},
		"its parameters": {func(r *wire.VolumeWriteRequest) { r.Spec.Parameters = map[string]string{"kind": "slow"} },
			"", "parameters cannot be updated", "parameters cannot be updated"},
		"one more capability": {func(r *wire.VolumeWriteRequest) {
			r.Spec.Capabilities = []volume.Capability{writer, reader}
		}, "capabilities", "", ""},
		"the capability in use": {func(r *wire.VolumeWriteRequest) {
			r.Spec.Capabilities = []volume.Capability{reader}
		}, "capabilities", "", "not compatible with existing capability in use"},
		"mount options": {func(r *wire.VolumeWriteRequest) {
			r.Spec.MountOptions = &volume.MountOptions{FSType: "xfs"}
		}, "mount_options", "", "while volume is in use"},
		"its size": {func(r *wire.VolumeWriteRequest) { r.Spec.CapacityMin = 2000 }, "capacity", "", ""},
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, used %v", what, used), func(t *testing.T) {
				s, v := stored(t, used, able())
				r := &wire.VolumeWriteRequest{Volume: v.ID, Spec: v.Spec}
				c.edit(r)
				n, changed, err := VolumeUpdate(s, v, r, Create)
				want := c.free
				if used {
					want = c.used
				}
				judged(t, what, err, want)
				if want == "" && (strings.Join(changed, ",") != c.changed || n == v) {
					t.Errorf("it changed %q", changed)
				}
			})
		}
	}
}

// TestWhatARequestDoesNotNameIsKept: given a volume with secrets, mount options, parameters and an ownership, when it
// is written without them, then each is kept and named with the way to be rid of it; what it does not have is not
// spoken of.
func TestWhatARequestDoesNotNameIsKept(t *testing.T) {
	_, v := stored(t, false, able())
	v.Spec.MountOptions = nil
	r := &wire.VolumeWriteRequest{Volume: v.ID, Spec: v.Spec}
	if kept := Kept(v, r); len(kept) > 0 {
		t.Errorf("a plain volume keeps %q", kept)
	}
	r.Spec.Parameters = nil
	old := *v
	old.Spec.Secrets, old.Spec.MountOptions = "volume/u", &volume.MountOptions{FSType: "xfs"}
	old.Spec.Ownership, old.Spec.Parameters = &volume.Ownership{}, map[string]string{"tier": "fast"}
	kept := strings.Join(Kept(&old, r), "\n")
	for _, part := range []string{"has secrets", "has mount_options", "volume deregister", "policy = \"none\"",
		"has parameters", "by another id"} {
		if !strings.Contains(kept, part) {
			t.Errorf("%q does not say %q", kept, part)
		}
	}
	r.Spec, r.Secrets.Values = old.Spec, map[string]string{"key": "x"}
	if kept := Kept(&old, r); len(kept) > 0 {
		t.Errorf("with all of it named it keeps %q", kept)
	}
}

// TestTheFileOfAVolumeThatHasGrown: given a volume that was expanded, when it is written as it was made, then nothing
// changes; a size that its provider refused may be taken back.
func TestTheFileOfAVolumeThatHasGrown(t *testing.T) {
	s, v := stored(t, false, able())
	r := &wire.VolumeWriteRequest{Volume: v.ID, Spec: v.Spec}
	grown := *v
	grown.Spec.CapacityMin, grown.Status.Capacity = 2000, 2000
	if _, changed, err := VolumeUpdate(s, &grown, r, Create); err != nil || len(changed) > 0 {
		t.Errorf("it changed %q, %v", changed, err)
	}
	grown.Spec.CapacityMin = 3000
	_, changed, err := VolumeUpdate(s, &grown, r, Create)
	if err != nil || !slices.Equal(changed, []string{"capacity"}) {
		t.Errorf("what was refused is kept: it changed %q, %v", changed, err)
	}
}

func TestAVolumeGrowsAndNeverShrinks(t *testing.T) {
	offline, unable := able(), able()
	offline.Controller.ExpandOnline, offline.Controller.ExpandOffline = false, true
	unable.Controller.ControllerExpand = false
	for _, c := range []struct {
		what   string
		lo, hi int64
		used   bool
		phase  volume.Phase
		rec    *plugin.Record
		want   string
	}{
		{"more", 2000, 0, true, volume.PhaseReady, able(), ""},
		{"more, with a limit", 2000, 2000, false, volume.PhaseReady, able(), ""},
		{"a limit below what is asked", 2000, 1999, false, volume.PhaseReady, able(), "less than or equal to min"},
		{"a limit below what it has", 500, 999, false, volume.PhaseReady, able(), "volumes cannot shrink"},
		{"by a plugin that cannot", 2000, 0, false, volume.PhaseReady, unable, "not implemented"},
		{"by a plugin that is not known", 2000, 0, false, volume.PhaseReady, nil, "not implemented"},
		{"while it is deleted", 2000, 0, false, volume.PhaseDeleting, able(), "it is being deleted"},
		{"while it is made", 2000, 0, false, volume.PhaseCreating, able(), "it is being created"},
		{"offline, unused", 2000, 0, false, volume.PhaseReady, offline, ""},
		{"offline, in use", 2000, 0, true, volume.PhaseReady, offline, "not in use"},
	} {
		_, old := stored(t, c.used, c.rec)
		now := *old
		now.Status.Phase = c.phase
		n := now
		n.Status.Tries, n.Status.LastError = 7, "before"
		err := Resize(&n, &now, c.lo, c.hi, c.rec)
		judged(t, c.what, err, c.want)
		if c.want == "" && (n.Status.Phase != volume.PhaseExpanding || n.Status.WantedMin != c.lo ||
			n.Status.WantedMax != c.hi || n.Status.Tries != 0 || n.Status.LastError != "") {
			t.Errorf("%s: it becomes %+v", c.what, n.Status)
		}
	}
	_, old := stored(t, false, able())
	n := *old
	if err := Resize(&n, old, 500, 0, able()); err != nil || n.Status.Phase != volume.PhaseReady {
		t.Errorf("less than it has already: %v, %s", err, n.Status.Phase)
	}
}

// TestAPluginIsAskedForWhatItCan: what it cannot do is refused before anything is recorded.
func TestAPluginIsAskedForWhatItCan(t *testing.T) {
	without := func(edit func(*plugin.Capabilities)) *plugin.Record {
		r := able()
		edit(&r.Controller)
		return r
	}
	for what, c := range map[string]struct {
		rec  *plugin.Record
		spec volume.Spec
		want string
	}{
		"a volume": {able(), volume.Spec{Plugin: "p"}, ""},
		"a clone":  {able(), volume.Spec{Plugin: "p", CloneID: "v"}, ""},
		"of a plugin that nobody runs": {able(), volume.Spec{Plugin: "unknown"},
			`plugin "unknown" is not known: no job runs it`},
		"of a plugin that joins": {able(), volume.Spec{Plugin: "joins"}, "has not been healthy yet"},
		"of a plugin that was never healthy": {&plugin.Record{ID: "p"}, volume.Spec{Plugin: "p"},
			"has not been healthy yet"},
		"without a controller": {without(func(c *plugin.Capabilities) { c.ControllerService = false }),
			volume.Spec{Plugin: "p"}, "plugin has no controller"},
		"by one that cannot create": {without(func(c *plugin.Capabilities) { c.CreateDelete = false }),
			volume.Spec{Plugin: "p"}, "does not support creating volumes"},
		"from a snapshot by one that cannot": {without(func(c *plugin.Capabilities) { c.CreateSnapshot = false }),
			volume.Spec{Plugin: "p", SnapshotID: "s"}, "does not support snapshots"},
		"a clone by one that cannot": {without(func(c *plugin.Capabilities) { c.Clone = false }),
			volume.Spec{Plugin: "p", CloneID: "v"}, "does not support cloning"},
		"a clone of nothing": {able(), volume.Spec{Plugin: "p", CloneID: "gone"}, `"gone", is not known`},
	} {
		s, _ := stored(t, false, c.rec)
		id := volume.ID{Namespace: ids.DefaultNamespace, ID: "new"}
		judged(t, what, VolumeCreate(s, &wire.VolumeWriteRequest{Volume: id, Spec: c.spec}), c.want)
	}
}

// TestAVolumeOfTheRightForm: everything that is wrong is named at once.
func TestAVolumeOfTheRightForm(t *testing.T) {
	for _, c := range []struct {
		register bool
		edit     func(*wire.VolumeWriteRequest)
		want     string
	}{
		{false, func(*wire.VolumeWriteRequest) {}, ""},
		{true, func(r *wire.VolumeWriteRequest) { r.ExternalID = "x" }, ""},
		{true, func(*wire.VolumeWriteRequest) {}, "missing external_id"},
		{false, func(r *wire.VolumeWriteRequest) { r.ExternalID = "x" }, "external_id is the provider's to choose"},
		{false, func(r *wire.VolumeWriteRequest) { r.Volume.ID = "" }, "missing volume id"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.Plugin = "" }, "missing plugin id"},
		{false, func(r *wire.VolumeWriteRequest) { r.Volume.Namespace = "" }, "missing namespace"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.Capabilities = nil }, "at least one capability"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.Capabilities[0].AccessMode = "any" },
			`unknown access_mode "any"`},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.Capabilities[0].AttachmentMode = "any" },
			`unknown attachment_mode "any"`},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.SnapshotID, r.Spec.CloneID = "s", "v" }, "only one of"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.CapacityMin, r.Spec.CapacityMax = 2, 1 },
			"must be at least capacity_min"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.CapacityMin = -1 }, "must not be negative"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.Name = strings.Repeat("n", 129) }, "name has 129 bytes"},
		{false, func(r *wire.VolumeWriteRequest) { r.Spec.CloneID = "a\nb" }, "clone_id contains a control character"},
		{false, func(r *wire.VolumeWriteRequest) {
			r.Secrets.Values = map[string]string{"key": strings.Repeat("s", 4<<10)}
		}, "secrets has 4099 bytes"},
		{true, func(r *wire.VolumeWriteRequest) {
			r.ExternalID, r.Secrets.Values = "s3cret-of-8", map[string]string{"key": "s3cret-of-8"}
		}, "external_id holds the value of a secret"},
		{true, func(r *wire.VolumeWriteRequest) {
			r.ExternalID, r.Secrets.Values = "vol-s3cret-of-8-1", map[string]string{"a": "b", "key": "s3cret-of-8"}
		}, "external_id holds the value of a secret"},
		{true, func(r *wire.VolumeWriteRequest) { // by chance
			r.ExternalID, r.Secrets.Values = "vol-1", map[string]string{"key": "1"}
		}, ""},
	} {
		r := &wire.VolumeWriteRequest{Volume: volumeID, Spec: volume.Spec{
			Plugin: "p", Capabilities: slices.Clone([]volume.Capability{writer})}}
		c.edit(r)
		judged(t, c.want, Volume(r, c.register), c.want)
	}
}

// TestWhatStoragePluginsMustTake: what a plugin need not take, by the limits of its protocol, is refused at submit,
// where it is named, and not again and again by the plugin; what is at a limit is taken.
func TestWhatStoragePluginsMustTake(t *testing.T) {
	long := strings.Repeat("x", maxString)
	full := map[string]string{long: strings.Repeat("y", maxMap-maxString)}
	more := map[string]string{long: strings.Repeat("y", maxMap-maxString), "z": ""}
	type request = wire.VolumeWriteRequest
	secret := func(m map[string]string) func(*request) {
		return func(r *request) { r.Secrets.Values = m }
	}
	for what, c := range map[string]struct {
		edit func(*request)
		want string
	}{
		"at the limits": {func(r *request) {
			r.Spec.Name, r.Spec.Parameters = long, full
			r.Secrets.Values = full
			r.Spec.MountOptions = &volume.MountOptions{FSType: long, MountFlags: []string{strings.Repeat("f", maxMap)}}
		}, ""},
		"a long name":      {func(r *request) { r.Spec.Name = long + "x" }, "name has 129 bytes"},
		"a long snapshot":  {func(r *request) { r.Spec.SnapshotID = long + "x" }, "snapshot_id has 129 bytes"},
		"a long clone":     {func(r *request) { r.Spec.CloneID = long + "x" }, "clone_id has 129 bytes"},
		"parameters":       {func(r *request) { r.Spec.Parameters = more }, "parameters has 4097 bytes"},
		"context":          {func(r *request) { r.Context = more }, "context has 4097 bytes"},
		"secrets":          {secret(more), "secrets has 4097 bytes"},
		"a long key":       {secret(map[string]string{long + "x": ""}), "a key of secrets has 129 bytes"},
		"no key":           {secret(map[string]string{"": "x"}), "a key of secrets has 0 bytes"},
		"NUL":              {func(r *request) { r.Spec.Name = "a\x00b" }, "name contains a control character"},
		"an escape":        {func(r *request) { r.Spec.CloneID = "\x1b[2J" }, "clone_id contains a control"},
		"the last of them": {func(r *request) { r.Spec.SnapshotID = "a\x7f" }, "snapshot_id contains a control"},
		"mount flags": {func(r *request) {
			r.Spec.MountOptions = &volume.MountOptions{MountFlags: []string{strings.Repeat("f", maxMap), "f"}}
		}, "mount_options are larger"},
		"a file system": {func(r *request) {
			r.Spec.MountOptions = &volume.MountOptions{FSType: long + "x"}
		}, "mount_options are larger"},
	} {
		r := &wire.VolumeWriteRequest{
			Volume: volumeID,
			Spec:   volume.Spec{Name: "v", Plugin: "p", Capabilities: []volume.Capability{writer}},
		}
		c.edit(r)
		judged(t, what, Volume(r, false), c.want)
	}
}

// TestNothingIsMadeFromAnotherProvidersThings: given a volume and a snapshot that the plugin's provider has, then they
// can be copied; once another provider serves the plugin, both are refused, and who has them is named.
func TestNothingIsMadeFromAnotherProvidersThings(t *testing.T) {
	for _, c := range []struct{ serves, want string }{
		{"", ""}, {"one.example", ""},
		{"two.example", `belongs to provider "one.example", and plugin "p" is now served by provider "two.example"`},
	} {
		cl := localstate.New(t)
		rec := able()
		rec.Provider = c.serves
		err := cl.Store.Write(cl.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			tx.PutPlugin(rec)
			tx.PutVolume(&volume.Volume{ID: volumeID, Spec: volume.Spec{Plugin: "p"},
				Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "x", Provider: "one.example"}})
			tx.PutVolumeSnapshot(&volume.Snapshot{
				ID:         "s",
				Plugin:     "p",
				ExternalID: "snap",
				Provider:   "one.example",
				Phase:      volume.PhaseReady,
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, spec := range map[string]volume.Spec{
			"a clone": {Plugin: "p", CloneID: "v"}, "a clone by its id": {Plugin: "p", CloneID: "x"},
			"a copy of a snapshot": {Plugin: "p", SnapshotID: "snap"},
		} {
			r := &wire.VolumeWriteRequest{Volume: volume.ID{Namespace: ids.DefaultNamespace, ID: "new"}, Spec: spec}
			judged(t, what+" while "+c.serves+" serves", VolumeCreate(cl.Store.Snapshot(), r), c.want)
		}
	}
}
