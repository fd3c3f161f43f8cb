package evidence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Ino
}

// Given a staging path and what else is mounted, then its block device is its own only if all of it is mounted there,
// it is one, and nothing outside the plugin's directory shows it.
func TestWhoseBlockDeviceItIs(t *testing.T) {
	const staging = "/d/csi/plugin/s/x"
	mine := hostfs.Mount{Path: staging, Root: "/", Device: "7:1"}
	at := func(path, device string) hostfs.Mount { return hostfs.Mount{Path: path, Root: "/", Device: device} }
	part, virtual := mine, mine
	part.Root, virtual.Device = "/part", "0:44"
	for name, c := range map[string]struct {
		table []hostfs.Mount
		own   bool
	}{
		"alone":                                {[]hostfs.Mount{mine}, true},
		"published by its plugin":              {[]hostfs.Mount{mine, at("/d/csi/plugin/p/y/m", "7:1")}, true},
		"another device elsewhere":             {[]hostfs.Mount{mine, at("/home", "7:2")}, true},
		"mounted elsewhere, too":               {[]hostfs.Mount{mine, at("/home", "7:1")}, false},
		"beside the plugin's directory":        {[]hostfs.Mount{mine, at("/d/csi/plugin2/s/x", "7:1")}, false},
		"a part of another file system":        {[]hostfs.Mount{part}, false},
		"a file system without a block device": {[]hostfs.Mount{virtual}, false},
		"nothing there":                        {[]hostfs.Mount{at("/home", "7:1")}, false},
	} {
		got := Block(hostfs.TableOf(c.table...), staging)
		if c.own && got.Device != "7:1" || !c.own && got != (entry.Device{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Given what the table shows after a publication, then it has worked only if something is there, and can be written
// where that was asked for.
func TestWhatAPublicationShows(t *testing.T) {
	const target = "/d/csi/plugin/p/x/m"
	is := func(readOnly bool) hostfs.Mount {
		return hostfs.Mount{Path: target, Root: "/", Device: "7:1", ReadOnly: readOnly}
	}
	for name, c := range map[string]struct {
		table  []hostfs.Mount
		reader bool
		mode   volume.AccessMode
		want   entry.Outcome
	}{
		"nothing":                        {nil, false, volume.SingleNodeWriter, entry.Missing},
		"as asked":                       {[]hostfs.Mount{is(false)}, false, volume.SingleNodeWriter, entry.Worked},
		"read-only":                      {[]hostfs.Mount{is(true)}, false, volume.SingleNodeWriter, entry.Missing},
		"read-only, as asked":            {[]hostfs.Mount{is(true)}, true, volume.SingleNodeWriter, entry.Worked},
		"read-only, of a reader's use":   {[]hostfs.Mount{is(true)}, false, volume.MultiNodeReader, entry.Worked},
		"writable though for reading":    {[]hostfs.Mount{is(false)}, true, volume.SingleNodeWriter, entry.Worked},
		"something beneath, but not it":  {[]hostfs.Mount{{Path: target + "/deep"}}, false, "", entry.Missing},
		"something else at another path": {[]hostfs.Mount{{Path: "/x"}}, false, "", entry.Missing},
	} {
		e := &entry.Entry{
			Staging: entry.Staging{Args: entry.Args{AccessMode: c.mode, AttachmentMode: volume.FileSystem}},
			Pubs:    map[ids.Alloc]*entry.Publication{"a": {HostPath: target, ReadOnly: c.reader}},
		}
		got, o, err := Published(e, "a", hostfs.TableOf(c.table...))
		if got != c.want || (err == nil) != (c.want == entry.Worked) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err == nil && (o.Device != "7:1" || o.ReadOnly != c.table[0].ReadOnly || len(o.Own) != 1 ||
			o.Block != (entry.Device{})) {
			t.Errorf("%s: observed is %+v", name, o)
		}
	}
}

// Given a target that is to be a block device, then one is found there by its number, and a file is none. It is the
// staging's own unless the plugin does not stage.
func TestABlockDeviceIsPublishedAsOne(t *testing.T) {
	dir := t.TempDir()
	device, file := filepath.Join(dir, "device"), filepath.Join(dir, "file")
	if err := unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 3))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := &entry.Entry{
		Staging: entry.Staging{Args: entry.Args{AttachmentMode: volume.BlockDevice}},
		Pubs:    map[ids.Alloc]*entry.Publication{"a": {HostPath: device}},
	}
	got, o, err := Published(e, "a", hostfs.TableOf())
	if got != entry.Worked || err != nil || o.Device != "b7:3" || o.ReadOnly || o.Block.Device != "7:3" {
		t.Errorf("%v, %+v, %v", got, o, err)
	}
	// Bound read-only, the mount is; whether the device is nobody knows by that.
	got, o, err = Published(e, "a", hostfs.TableOf(hostfs.Mount{Path: device, ReadOnly: true}))
	if got != entry.Worked || err != nil || !o.ReadOnly {
		t.Errorf("bound read-only: %v, %+v, %v", got, o, err)
	}
	e.Staging.Skip = true
	if _, o, err := Published(e, "a", hostfs.TableOf()); err != nil || o.Block != (entry.Device{}) {
		t.Errorf("of a plugin that does not stage: %+v, %v", o, err)
	}
	for _, path := range []string{file, filepath.Join(dir, "none")} {
		e.Pubs["a"].HostPath = path
		if got, _, err := Published(e, "a", hostfs.TableOf()); got != entry.Missing || err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
}

// Given an entry and a table that does not show all of it any more, then what is gone is lost, with what was made from
// it, who has it is named, and what is still there stays.
func TestWhatTheTableDoesNotShowIsLost(t *testing.T) {
	const staging, target = "/d/csi/plugin/s/x", "/d/csi/plugin/p/x/m"
	staged := hostfs.Mount{Path: staging, Root: "/", Device: "7:1"}
	shown := hostfs.Mount{Path: target, Root: "/", Device: "7:1"}
	other := shown
	other.Device = "7:9"
	whole := func() *entry.Entry {
		return &entry.Entry{
			Staging: entry.Staging{
				Presence: volume.Present,
				HostPath: staging,
				Mounts:   []string{staging + " 7:1"},
			},
			Pubs: map[ids.Alloc]*entry.Publication{
				"a": {Presence: volume.Present, HostPath: target, Device: "7:1"},
				"b": {Presence: volume.Uncertain, HostPath: "/gone", Device: "7:1"},
			},
		}
	}
	type mounts = []hostfs.Mount
	skips := func(e *entry.Entry) { e.Staging.Skip = true }
	is := func(p volume.Presence) func(*entry.Entry) { return func(e *entry.Entry) { e.Staging.Presence = p } }
	for name, c := range map[string]struct {
		table        mounts
		change       func(*entry.Entry)
		staging, pub volume.Presence
		says         string
	}{
		"all there":       {mounts{staged, shown}, nil, volume.Present, volume.Present, ""},
		"no staging":      {mounts{shown}, nil, volume.Lost, volume.Lost, "staging at " + staging},
		"no publication":  {mounts{staged}, nil, volume.Present, volume.Lost, "nothing is mounted at " + target},
		"another device":  {mounts{staged, other}, nil, volume.Present, volume.Lost, "shows device 7:9"},
		"nothing at all":  {nil, nil, volume.Lost, volume.Lost, target},
		"does not stage":  {mounts{shown}, skips, volume.Present, volume.Present, ""},
		"staging unknown": {mounts{shown}, is(volume.Uncertain), volume.Uncertain, volume.Present, ""},
		"lost before":     {mounts{staged, shown}, is(volume.Lost), volume.Lost, volume.Lost, ""},
	} {
		e := whole()
		if c.change != nil {
			c.change(e)
		}
		why, victims := Missing(e, hostfs.TableOf(c.table...))
		if e.Staging.Presence != c.staging || e.Pubs["a"].Presence != c.pub ||
			e.Pubs["b"].Presence != volume.Uncertain {
			t.Errorf("%s: staging %s, publications %s and %s", name, e.Staging.Presence, e.Pubs["a"].Presence,
				e.Pubs["b"].Presence)
		}
		if !strings.Contains(why, c.says) || c.says == "" && c.pub == volume.Present && why != "" {
			t.Errorf("%s: it says %q", name, why)
		}
		if want := c.pub == volume.Lost; slices.Equal(victims, []ids.Alloc{"a"}) != want || !want && len(victims) > 0 {
			t.Errorf("%s: victims are %v", name, victims)
		}
	}
}

// Given mounts beneath the plugins' directories and id files that cannot be read, then those that no entry has are
// listed once each, by path, and a plugin's base is none.
func TestWhatNoEntryKnows(t *testing.T) {
	m := func(path string) hostfs.Mount { return hostfs.Mount{Path: path, Device: "7:1", FSType: "ext4"} }
	known := map[string]bool{"/d/csi/a/s/known": true, "/d/csi/a/p/known/m": true}
	got := UnknownMounts("/d", known, hostfs.TableOf(
		m("/d/csi/a"), m("/d/csi/a/s"), m("/d/csi/a/s/known"), m("/d/csi/a/s/known/deep"), m("/d/csi/a/s/other"),
		m("/d/csi/a/p/known"), m("/d/csi/a/p/known/m"), m("/d/csi/a/p/known/m/deep"), m("/d/csi/b/p/other/m"),
		m("/d/other/s/x"),
	), []string{"/d/csi/a/s/known.id", "/d/csi/a/p/known.id", "/d/csi/b/s/bad.id", "/d/csi/b/p/bad.id",
		"/d/csi/b/p/other.id"})
	var text []string
	for _, u := range got {
		text = append(text, u.Path+" "+u.Dir+" "+u.Device+" "+u.FSType)
	}
	want := []string{
		"/d/csi/a/p/known a 7:1 ext4",
		"/d/csi/a/s a 7:1 ext4",
		"/d/csi/a/s/other a 7:1 ext4",
		"/d/csi/b/p/bad/m b  ",
		"/d/csi/b/p/other/m b 7:1 ext4",
		"/d/csi/b/s/bad b  ",
	}
	if !slices.Equal(text, want) {
		t.Errorf("unknown are\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
	}
}
