package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

var (
	vol   = volume.ID{Namespace: "default", ID: "vol"}
	epoch = volume.Epoch{Incarnation: "world", Index: 4}
)

var codec = kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict}

// published is an entry of a volume that alloc "a" uses, with its paths below a data directory.
func published(t *testing.T, dataDir string) *entry.Entry {
	t.Helper()
	base := filepath.Join(csiDir(dataDir), "plugin")
	e := &entry.Entry{
		Key:    volume.StagingKey{Plugin: "plugin", ExternalID: "x"},
		Volume: vol,
		Staging: entry.Staging{
			Presence:   volume.Present,
			Args:       entry.Args{Generation: 7, PublishContext: map[string]string{"device": "sdx-of-the-provider"}},
			HostPath:   filepath.Join(base, volume.StagingTail("x")),
			TaskPath:   "/csi/" + volume.StagingTail("x"),
			Mounts:     []string{"m"},
			Own:        []entry.Mount{{Path: "m"}},
			By:         entry.Run{Alloc: "plugin-alloc", Attempt: 3},
			Device:     entry.Device{Device: "7:1"},
			ExpandTo:   2,
			ExpandedTo: 1,
		},
		Pubs: map[ids.Alloc]*entry.Publication{"a": {
			Alias:    "data",
			Epoch:    epoch,
			Wanted:   true,
			Presence: volume.Present,
			HostPath: filepath.Join(base, TargetTail("x", "a")),
			TaskPath: "/csi/" + TargetTail("x", "a"),
			Device:   "7:1",
			By:       entry.Run{Alloc: "plugin-alloc", Attempt: 3},
			Own:      []entry.Mount{{Path: "m"}},
		}},
	}
	for _, path := range []string{e.Staging.HostPath, filepath.Dir(e.Pubs["a"].HostPath)} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// both writes the id files of an entry's staging and publication, and returns their names.
func both(t *testing.T, e *entry.Entry) (staging, publication string) {
	t.Helper()
	for _, alloc := range []ids.Alloc{"", "a"} {
		if err := WriteIDFile(codec, e, alloc); err != nil {
			t.Fatal(err)
		}
	}
	return e.Staging.HostPath + ".id", filepath.Dir(e.Pubs["a"].HostPath) + ".id"
}

// Given a staging and a publication, then their id files name what was asked of the plugin and where, and nothing that
// is true of this moment alone: not what was mounted, and not by whom.
func TestAnIDFileNamesWhatItLiesBeside(t *testing.T) {
	dir := t.TempDir()
	e := published(t, dir)
	staging, publication := both(t, e)
	names, err := IDFiles(dir)
	if err != nil || !slices.Equal(names, []string{publication, staging}) && !slices.Equal(names,
		[]string{staging, publication}) {
		t.Fatalf("the files are %v, %v", names, err)
	}
	for _, name := range names {
		f, err := ReadIDFile(codec, name)
		if err != nil {
			t.Fatal(err)
		}
		st := f.Staging
		if f.Key != e.Key || f.Volume != e.Volume || !st.Args.Equal(e.Staging.Args) ||
			st.HostPath != e.Staging.HostPath || st.TaskPath != e.Staging.TaskPath ||
			st.Presence != volume.Uncertain {
			t.Errorf("%s: %+v", name, f)
		}
		if st.Mounts != nil || st.Own != nil || st.By != (entry.Run{}) || st.Device != (entry.Device{}) ||
			st.ExpandTo != 0 || st.ExpandedTo != 0 {
			t.Errorf("%s tells of the moment: %+v", name, st)
		}
		if (f.Pub != nil) != (name == publication) || (f.Alloc == "a") != (name == publication) {
			t.Errorf("%s is of alloc %q, %+v", name, f.Alloc, f.Pub)
		}
		if p := f.Pub; p != nil && (p.Alias != "data" || p.Epoch != epoch || p.Presence != volume.Uncertain ||
			p.By != (entry.Run{}) || p.Own != nil || p.HostPath != e.Pubs["a"].HostPath || p.Device != "7:1") {
			t.Errorf("%s has %+v", name, p)
		}
	}
	if e.Staging.Presence != volume.Present || e.Pubs["a"].Presence != volume.Present || e.Pubs["a"].Own == nil {
		t.Errorf("the entry was changed: %+v", e)
	}
	if n, bad, err := CheckIDFiles(codec, dir); n != 2 || len(bad) > 0 || err != nil {
		t.Errorf("checked: %d, %v, %v", n, bad, err)
	}
}

// An id file that is there, and says the same, is not written again; one that says something else is.
func TestAnIDFileIsWrittenOnce(t *testing.T) {
	e := published(t, t.TempDir())
	staging, _ := both(t, e)
	inode := func() uint64 { return inodeOf(t, staging) }
	first := inode()
	both(t, e)
	if inode() != first {
		t.Error("it was written again")
	}
	e.Staging.Args.Generation++
	both(t, e)
	if inode() == first {
		t.Error("it was not written anew")
	}
	if f, err := ReadIDFile(codec, staging); err != nil || f.Staging.Args.Generation != 8 {
		t.Errorf("it says %+v, %v", f, err)
	}
}

// Given an id file with a letter that is another, half written, copied elsewhere or left by a crash, then it names
// nothing, and is reported or removed as it should be.
func TestWhatNamesNoMount(t *testing.T) {
	dir := t.TempDir()
	staging, publication := both(t, published(t, dir))
	data, err := os.ReadFile(staging)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	copied := write(filepath.Join(filepath.Dir(staging), "other.id"), data)
	if f, err := ReadIDFile(codec, copied); f != nil || !fault.Has(err, fault.Conflict) {
		t.Errorf("a copy says %+v, %v", f, err)
	}
	left := write(staging+".tmp", data[:9])
	if n, bad, err := CheckIDFiles(codec, dir); n != 3 || len(bad) > 0 || err != nil {
		t.Errorf("with a copy, and what a crash left: %d, %v, %v", n, bad, err)
	}
	if f, err := ReadIDFile(codec, left); f != nil || err != nil {
		t.Errorf("what a crash left says %+v, %v", f, err)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("it was not removed")
	}
	for what, damaged := range map[string][]byte{
		"another letter": bytes.Replace(data, []byte("sdx-of"), []byte("sdy-of"), 1),
		"half of it":     data[:len(data)/2],
		"nothing":        nil,
	} {
		write(staging, damaged)
		if f, err := ReadIDFile(codec, staging); f != nil || err == nil || fault.Has(err, fault.Conflict) ||
			!strings.Contains(err.Error(), staging) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
		if n, bad, err := CheckIDFiles(codec, dir); n != 3 || len(bad) != 1 || err != nil {
			t.Errorf("%s: checked are %d, %v, %v", what, n, bad, err)
		}
	}
	write(publication, nil)
	write(copied, nil)
	if home, err := Home(codec, dir); home != "" || err != nil {
		t.Errorf("with none that can be read the home is %q, %v", home, err)
	}
}

// Given a data directory that was moved, then its id files tell where they lay, and are made to name where they lie;
// one that lies elsewhere than it says stays as it is.
func TestIDFilesFollowTheirDirectory(t *testing.T) {
	root := t.TempDir()
	from, to := filepath.Join(root, "from"), filepath.Join(root, "to")
	staging, publication := both(t, published(t, from))
	data, err := os.ReadFile(staging)
	if err != nil {
		t.Fatal(err)
	}
	if home, err := Home(codec, from); home != from || err != nil {
		t.Errorf("the home is %q, %v", home, err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	moved := func(path string) string { return strings.Replace(path, from, to, 1) }
	copied := filepath.Join(filepath.Dir(moved(staging)), "other.id")
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if home, err := Home(codec, to); home != from || err != nil {
		t.Errorf("moved, the home is %q, %v", home, err)
	}
	if err := Reroot(codec, to, from); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{moved(staging), moved(publication)} {
		f, err := ReadIDFile(codec, name)
		if err != nil || strings.Contains(f.Staging.HostPath, from) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if err == nil && f.Pub != nil && (f.Pub.HostPath != filepath.Join(strings.TrimSuffix(name, ".id"), "m") ||
			f.Alloc != "a") {
			t.Errorf("%s: %+v of %s", name, f.Pub, f.Alloc)
		}
	}
	if now, err := os.ReadFile(copied); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the copy has changed: %v", err)
	}
}

// Given what a file names, then an entry gets of it what it lacks, as Uncertain, and keeps what it knows better.
func TestAnEntryGetsWhatItLacks(t *testing.T) {
	dir := t.TempDir()
	whole := published(t, dir)
	file := func(alloc ids.Alloc) *IDFile { f := NameOf(whole, alloc); return &f }
	empty := func() *entry.Entry { return &entry.Entry{Pubs: map[ids.Alloc]*entry.Publication{}} }

	e := empty()
	if !file("").Into(e) || e.Staging.Presence != volume.Uncertain || e.Staging.HostPath != whole.Staging.HostPath ||
		len(e.Pubs) > 0 {
		t.Errorf("of a staging: %+v", e)
	}
	if file("").Into(e) {
		t.Error("what it has was added again")
	}
	e.Staging.Presence, e.Staging.HostPath = volume.Present, "/known"
	f := file("a")
	f.Pub.Presence = volume.Present // whatever it says
	if !f.Into(e) || e.Staging.Presence != volume.Present || e.Staging.HostPath != "/known" ||
		e.Pubs["a"].Presence != volume.Uncertain || e.Pubs["a"].HostPath != whole.Pubs["a"].HostPath {
		t.Errorf("of a publication: %+v, %+v", e.Staging, e.Pubs["a"])
	}
	e.Pubs["a"] = &entry.Publication{Wanted: true, Alias: "mine"}
	if !file("a").Into(e) || e.Pubs["a"].Presence != volume.Uncertain || e.Pubs["a"].Alias != "mine" ||
		!e.Pubs["a"].Wanted || e.Pubs["a"].HostPath != whole.Pubs["a"].HostPath ||
		e.Pubs["a"].TaskPath != whole.Pubs["a"].TaskPath {
		t.Errorf("of one that is wanted already: %+v", e.Pubs["a"])
	}
	e.Pubs["a"].Presence, e.Pubs["a"].HostPath = volume.Present, "/there"
	if file("a").Into(e) || e.Pubs["a"].HostPath != "/there" || e.Pubs["a"].Presence != volume.Present {
		t.Errorf("of one that is there: %+v", e.Pubs["a"])
	}
}

// The place that an id file lies beside, and where the id file of a place lies, are each other's inverse.
func TestAnIDFileLiesBesideItsPlace(t *testing.T) {
	for place, file := range map[string]string{
		"/d/csi/plugin/s/abc":   "/d/csi/plugin/s/abc.id",
		"/d/csi/plugin/p/abc/m": "/d/csi/plugin/p/abc.id",
		"/d/csi/p/s/abc":        "/d/csi/p/s/abc.id",
		"/d/csi/p/p/abc/m":      "/d/csi/p/p/abc.id",
	} {
		if got := placeOf(file); got != place {
			t.Errorf("%s lies beside %s, want %s", file, got, place)
		}
		if got := IDFileOf(place); got != file {
			t.Errorf("the file of %s is %s, want %s", place, got, file)
		}
	}
}

// Given a claim and mounts that nobody knows, then what is mounted at the paths that its names make is the claim's: at
// the staging, at the target, or beneath them.
func TestAClaimNamesItsMounts(t *testing.T) {
	c := &volume.Claim{
		Plugin:         "plugin",
		ExternalID:     "x",
		Volume:         vol,
		Alloc:          "a",
		Alias:          "data",
		Epoch:          epoch,
		ReadOnly:       true,
		AccessMode:     volume.MultiNodeReader,
		AttachmentMode: volume.FileSystem,
		MountOptions:   &volume.MountOptions{FSType: "ext4"},
	}
	base := filepath.Join("/d/csi", ids.Segment("plugin"))
	staging := filepath.Join(base, volume.StagingTail("x"))
	target := filepath.Join(base, TargetTail("x", "a"))
	named := func(paths ...string) *IDFile {
		var unknown []volume.UnknownMount
		for _, p := range paths {
			unknown = append(unknown, volume.UnknownMount{Path: p})
		}
		return Named("/d", c, unknown)
	}
	for _, path := range []string{"", staging + "x", filepath.Dir(target), filepath.Join(base, "s/other")} {
		if f := named(path); f != nil {
			t.Errorf("a mount at %q is the claim's: %+v", path, f)
		}
	}
	for _, path := range []string{staging, staging + "/deep"} {
		f := named(path)
		if f == nil || f.Pub != nil || f.Alloc != "" || f.Key != c.Staging() || f.Volume != vol ||
			!f.Staging.Guessed || f.Staging.HostPath != staging || f.Staging.Presence != volume.Uncertain ||
			f.Staging.Args.AccessMode != volume.MultiNodeReader || f.Staging.Args.AttachmentMode != volume.FileSystem ||
			f.Staging.Args.MountOptions.FSType != "ext4" {
			t.Errorf("at %s: %+v", path, f)
		}
	}
	for _, path := range []string{target, target + "/deep"} {
		f := named(path)
		if f == nil || f.Alloc != "a" || f.Pub == nil || f.Pub.HostPath != target || f.Pub.Alias != "data" ||
			f.Pub.Epoch != epoch || !f.Pub.ReadOnly || f.Pub.Presence != volume.Uncertain ||
			f.Staging.HostPath != staging {
			t.Errorf("at %s: %+v", path, f)
		}
	}
}
