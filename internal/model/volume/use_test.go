package volume

import (
	"reflect"
	"strings"
	"testing"
)

func TestMountOptionsAreEqualAsSetsOfFlags(t *testing.T) {
	options := func(fs string, flags ...string) *MountOptions { return &MountOptions{FSType: fs, MountFlags: flags} }
	for _, c := range []struct {
		name string
		a, b *MountOptions
		same bool
	}{
		{"none and none", nil, nil, true},
		{"none and empty ones", nil, options(""), true},
		{"none and an empty list of flags", nil, &MountOptions{MountFlags: []string{}}, true},
		{"the same", options("ext4", "ro", "noatime"), options("ext4", "ro", "noatime"), true},
		{"another order", options("ext4", "ro", "noatime"), options("ext4", "noatime", "ro"), true},
		{"a flag twice", options("ext4", "ro", "ro"), options("ext4", "ro"), true},
		{"another file system", options("ext4", "ro"), options("xfs", "ro"), false},
		{"a file system and whichever there is", options("ext4"), nil, false},
		{"one flag more", options("ext4", "ro"), options("ext4", "ro", "noatime"), false},
		{"as many flags, others", options("", "ro", "a"), options("", "ro", "b"), false},
		{"another value", options("", "uid=1"), options("", "uid=2"), false},
		{"another case", options("", "RO"), options("", "ro"), false},
		{"two flags and one with a comma", options("", "a", "b"), options("", "a,b"), false},
	} {
		if got := c.a.Equal(c.b); got != c.same {
			t.Errorf("%s: %t", c.name, got)
		}
		if got := c.b.Equal(c.a); got != c.same {
			t.Errorf("%s, the other way: %t", c.name, got)
		}
		one, other := Wish(SingleNodeWriter, FileSystem, c.a), Wish(SingleNodeWriter, FileSystem, c.b)
		if got := one == other; got != c.same {
			t.Errorf("%s: wishes of one name: %t", c.name, got)
		}
	}
	names := map[string]bool{
		Wish(SingleNodeWriter, FileSystem, nil):  true,
		Wish(SingleNodeWriter, BlockDevice, nil): true,
		Wish(MultiNodeReader, FileSystem, nil):   true,
	}
	if len(names) != 3 {
		t.Error("wishes of other modes have one name")
	}
	given := options("", "b", "a", "b")
	given.Equal(options("", "a", "b"))
	if strings.Join(given.MountFlags, " ") != "b a b" {
		t.Errorf("the comparison has changed what it compared: %v", given.MountFlags)
	}
}

func TestAClaimMustAskForTheUseThatTheVolumeIsIn(t *testing.T) {
	first := &Claim{
		AccessMode:     MultiNodeMultiWriter,
		AttachmentMode: FileSystem,
		MountOptions:   &MountOptions{FSType: "ext4", MountFlags: []string{"noatime", "nodev"}},
	}
	free := &Volume{}
	used := free.UsedAs(first)
	for name, c := range map[string]struct {
		edit func(*Claim)
		why  string
	}{
		"the same":               {func(*Claim) {}, ""},
		"flags in another order": {func(c *Claim) { c.MountOptions.MountFlags = []string{"nodev", "noatime"} }, ""},
		"another access mode": {func(c *Claim) {
			c.AccessMode = MultiNodeReader
		}, "the job asks for multi-node-reader-only"},
		"another attachment mode": {func(c *Claim) { c.AttachmentMode = BlockDevice }, "block-device"},
		"other flags": {func(c *Claim) {
			c.MountOptions.MountFlags = []string{"nodev"}
		}, "other mount options"},
		"no options": {func(c *Claim) { c.MountOptions = nil }, "other mount options"},
	} {
		n := *first
		n.MountOptions = first.MountOptions.Clone()
		c.edit(&n)
		if ok, _ := Compatible(free, &n); !ok {
			t.Errorf("%s: a volume that nobody uses is refused", name)
		}
		ok, why := Compatible(used, &n)
		if ok != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %t, %q", name, ok, why)
		}
	}
	if used.UsedAs(&Claim{AccessMode: SingleNodeWriter}) != used {
		t.Error("a second claim changed the use")
	}
	if free.Status.AccessMode != "" || used.Unused().Status.AccessMode != "" ||
		used.Unused().Status.MountOptions != nil {
		t.Error("the use is not what was begun and ended")
	}
}

// TestAVolumeThatIsReleasedIsInNoUse: given a volume in use, when it is in no use any more, then nothing of that use is
// left, and the next claim may ask for any.
func TestAVolumeThatIsReleasedIsInNoUse(t *testing.T) {
	used := (&Volume{}).UsedAs(&Claim{
		AccessMode:     SingleNodeWriter,
		AttachmentMode: BlockDevice,
		MountOptions:   &MountOptions{FSType: "ext4"},
	})
	if left := used.Unused(); !reflect.DeepEqual(left, &Volume{}) {
		t.Errorf("of the use there is left: %+v", left.Status)
	}
	if used.Status.AccessMode != SingleNodeWriter || used.Status.MountOptions == nil {
		t.Errorf("the volume that was read has changed: %+v", used.Status)
	}
}

// TestACopyOfMountOptionsIsItsOwn: given mount options, when a copy changes, then they do not.
func TestACopyOfMountOptionsIsItsOwn(t *testing.T) {
	given := &MountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
	given.Clone().MountFlags[0] = "ro"
	if given.MountFlags[0] != "noatime" {
		t.Errorf("a copy has changed what it was copied from: %v", given.MountFlags)
	}
}
