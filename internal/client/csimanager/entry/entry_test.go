package entry

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
)

// fill gives every field of a value, and all that hangs on it, something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
		panic("an entry has a " + v.Kind().String())
	}
}

// shared names what two values have in common: a pointer, or the memory of a slice or map.
func shared(path string, a, b reflect.Value) (out []string) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			return []string{path}
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		return shared(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			out = append(out, shared(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))...)
		}
	case reflect.Slice:
		for i := range a.Len() {
			out = append(out, shared(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))...)
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			out = append(out, shared(fmt.Sprintf("%s[%v]", path, k), a.MapIndex(k), b.MapIndex(k))...)
		}
	}
	return out
}

func full() *Entry {
	e := &Entry{}
	fill(reflect.ValueOf(e).Elem())
	return e
}

// Given an entry with everything that one can have, then its copy is equal and shares no memory with it: what the
// journal writes and the reports show is of one moment.
func TestACloneSharesNothing(t *testing.T) {
	e := full()
	c := e.Clone()
	if !reflect.DeepEqual(e, c) {
		t.Errorf("the copy is %+v, want %+v", c, e)
	}
	if both := shared("entry", reflect.ValueOf(*e), reflect.ValueOf(*c)); len(both) > 0 {
		t.Errorf("it shares %v", both)
	}
	if got := (&Entry{}).Clone(); got.Pubs == nil || len(got.Pubs) > 0 {
		t.Errorf("the copy of an empty entry has publications %v", got.Pubs)
	}
}

// Given arguments of which one alone differs, then they are others, but for the group: the plugin is asked with equal
// ones, or the staging is made anew.
func TestArgumentsAreEqualIfEachIs(t *testing.T) {
	var same []string
	for i := range reflect.TypeFor[Args]().NumField() {
		a, b := full().Staging.Args, full().Staging.Args
		if !a.Equal(b) {
			t.Fatalf("%+v is not equal to itself", a)
		}
		reflect.ValueOf(&b).Elem().Field(i).SetZero()
		if a.Equal(b) != b.Equal(a) {
			t.Errorf("%+v and %+v: equal one way alone", a, b)
		}
		if a.Equal(b) {
			same = append(same, reflect.TypeFor[Args]().Field(i).Name)
		}
	}
	if !slices.Equal(same, []string{"MountGroup"}) {
		t.Errorf("what does not count is %v", same)
	}
}

// The plugin hears of the use with all that was asked for.
func TestTheCapabilityHasAllArguments(t *testing.T) {
	a := Args{
		AccessMode:     volume.MultiNodeReader,
		AttachmentMode: volume.FileSystem,
		MountOptions:   &volume.MountOptions{FSType: "xfs", MountFlags: []string{"noatime"}},
		MountGroup:     "7",
	}
	got := a.Capability()
	if got.AccessMode != volume.MultiNodeReader || got.AttachmentMode != volume.FileSystem || got.FSType != "xfs" ||
		len(got.MountFlags) != 1 || got.MountGroup != "7" {
		t.Errorf("it is %+v", got)
	}
}

// Given everything that a boot of the machine ends, when the node comes up in another one, then what was there is
// Uncertain, what was Absent or Uncertain is as before; in the same boot nothing changes.
func TestAnotherBootMakesAllUncertain(t *testing.T) {
	for _, was := range presences {
		e := entryOf(was, Publication{Presence: was}, Publication{Presence: was})
		e.Boot, e.Staging.Device = "one", Device{Device: "7:1", Seq: 3}
		if e.WakeOnBoot("one") || e.Staging.Presence != was || e.Staging.Device == (Device{}) {
			t.Errorf("%s: the same boot changed %+v", was, e.Staging)
		}
		if !e.WakeOnBoot("two") || e.Boot != "two" || e.Staging.Device != (Device{}) {
			t.Errorf("%s: another boot left %+v", was, e)
		}
		want := volume.Uncertain
		if was == volume.Absent {
			want = volume.Absent
		}
		for _, got := range []volume.Presence{e.Staging.Presence, e.Pubs["a"].Presence, e.Pubs["b"].Presence} {
			if got != want {
				t.Errorf("%s became %s", was, got)
			}
		}
	}
}

// A key of the store is read back as what it was made of, and nothing else is a key.
func TestAKeyOfTheStoreIsReadBack(t *testing.T) {
	k := volume.StagingKey{Plugin: "p", ExternalID: "e\x00f"}
	if got, ok := KeyOf(StoreKey(k)); !ok || got != k {
		t.Errorf("read back it is %+v, %v", got, ok)
	}
	for _, text := range []string{"", "p", "p\x00", "\x00e"} {
		if got, ok := KeyOf(text); ok {
			t.Errorf("%q is the key %+v", text, got)
		}
	}
}

// Given a staging that was undone, then nothing is left of what was true of it, and what it is asked for stays.
func TestWhatIsUnstagedIsForgotten(t *testing.T) {
	e := full()
	before := e.Clone()
	e.Unstaged()
	st := e.Staging
	if st.ExpandTo != 0 || st.ExpandedTo != 0 || st.Mounts != nil || st.Own != nil || st.Device != (Device{}) ||
		st.Dead != "" {
		t.Errorf("left is %+v", st)
	}
	if !st.Args.Equal(before.Staging.Args) || st.HostPath == "" || len(e.Pubs) != len(before.Pubs) {
		t.Errorf("it forgot what it was made with: %+v", st)
	}
}

// Given an entry whose directory was moved, then every path of it follows, and what is no path is as it was.
func TestAllPathsFollowAMove(t *testing.T) {
	e := full()
	e.Staging.Mounts = []string{"/old/s 7:1", "nothing"}
	paths := []*string{&e.Staging.HostPath, &e.Staging.TaskPath, &e.Staging.Own[0].Path}
	for _, p := range e.Pubs {
		paths = append(paths, &p.HostPath, &p.TaskPath, &p.Own[0].Path)
	}
	for _, p := range paths {
		*p = "/old/x"
	}
	e.Reroot(func(path string) string { return strings.Replace(path, "/old/", "/new/", 1) })
	for i, p := range paths {
		if *p != "/new/x" {
			t.Errorf("path %d is %s", i, *p)
		}
	}
	if !slices.Equal(e.Staging.Mounts, []string{"/new/s 7:1", "nothing"}) {
		t.Errorf("the mounts are %q", e.Staging.Mounts)
	}
}

// Given a want with arguments, then what it means for the staging is told by whether there is one, whether its
// arguments are known, by the attachment, and by who uses it.
func TestHowAWantFitsTheStaging(t *testing.T) {
	made := Args{AccessMode: volume.SingleNodeWriter, Generation: 1}
	otherUse, otherAttachment := made, made
	otherUse.AccessMode = volume.MultiNodeReader
	otherAttachment.Generation = 2
	there, gone := &Publication{Wanted: true, Presence: volume.Present}, &Publication{Presence: volume.Absent}
	type pubs = map[ids.Alloc]*Publication
	for name, c := range map[string]struct {
		staging volume.Presence
		guessed bool
		args    Args
		pubs    pubs
		want    Fitting
	}{
		"there is none":                    {volume.Absent, false, otherAttachment, nil, Fits},
		"it is guessed":                    {volume.Present, true, otherAttachment, nil, Fits},
		"the same":                         {volume.Present, false, made, nil, Fits},
		"another attachment":               {volume.Present, false, otherAttachment, pubs{"a": there}, Remade},
		"its own publication is there":     {volume.Present, false, otherUse, pubs{"a": there}, FitsBeside},
		"its own publication is gone":      {volume.Present, false, otherUse, pubs{"a": gone}, Remade},
		"another alloc uses it":            {volume.Present, false, otherUse, pubs{"b": there}, Clashes},
		"another alloc wants it no more":   {volume.Present, false, otherUse, pubs{"b": gone}, Remade},
		"nobody else":                      {volume.Uncertain, false, otherUse, nil, Remade},
		"its own is gone, another's there": {volume.Present, false, otherUse, pubs{"a": gone, "b": there}, Clashes},
	} {
		e := &Entry{Staging: Staging{Presence: c.staging, Guessed: c.guessed, Args: made}, Pubs: c.pubs}
		if got := e.Fit("a", c.args); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Given an alloc's volume, then all that its claim would have to say is said of what is held.
func TestWhatIsHeldIsSaidInFull(t *testing.T) {
	e := full()
	id := e.Allocs()[0]
	held, ok := e.HeldBy(id)
	if !ok {
		t.Fatal("nothing is held")
	}
	v := reflect.ValueOf(held)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not said", v.Type().Field(i).Name)
		}
	}
	if both := shared("held", reflect.ValueOf(held.VolumeContext), reflect.ValueOf(e.Staging.Args.VolumeContext)); len(
		both) > 0 {
		t.Error("it shares memory with the entry")
	}
}

// Given a dead file system, then what it shows is lost and the staging is undone once nobody uses it; who uses it is
// named meanwhile.
func TestADeadFileSystemIsGivenUp(t *testing.T) {
	e := entryOf(volume.Present, Publication{Presence: volume.Present}, Publication{Presence: volume.Uncertain},
		Publication{Presence: volume.Absent})
	e.Pubs["00000000-1111"] = &Publication{Presence: volume.Present}
	if e.stagingLost() {
		t.Error("a staging that lives is lost")
	}
	e.GiveUp("a", "errors")
	if e.Pubs["a"].Presence != volume.Lost || e.Staging.Dead != "errors" || e.Staging.Presence != volume.Present {
		t.Errorf("given up it is %+v, of %+v", e.Staging, e.Pubs["a"])
	}
	if got := string(e.waitDead()); got != string(WaitDead)+ids.Short("00000000-1111")+", b" {
		t.Errorf("it waits for %q", got)
	}
	if e.stagingLost() {
		t.Error("it is lost while somebody uses it")
	}
	maps.DeleteFunc(e.Pubs, func(_ ids.Alloc, p *Publication) bool { return p.Presence.Exists() })
	if !e.stagingLost() {
		t.Error("it is not lost although nobody uses it")
	}
	if e.Staging.Presence = volume.Absent; e.stagingLost() {
		t.Error("what is not there is lost")
	}
}

// Given an entry, then who wants it, whether it is published, and whether it has to grow is said by its publications.
func TestWhatAnEntrySaysOfItsPublications(t *testing.T) {
	for name, c := range map[string]struct {
		pubs                               []Publication
		wanted, beside, published, ungrown bool
	}{
		"none":              {},
		"wanted by itself":  {[]Publication{{Wanted: true}}, true, false, false, true},
		"wanted by another": {[]Publication{{}, {Wanted: true}}, true, true, false, true},
		"there":             {[]Publication{{Presence: volume.Uncertain}}, false, false, true, false},
		"neither":           {[]Publication{{}, {}}, false, false, false, false},
	} {
		e := entryOf(volume.Present, c.pubs...)
		e.Staging.ExpandTo, e.Staging.ExpandedTo = 2, 1
		if e.Wanted() != c.wanted || e.WantedBeside("a") != c.beside || e.Published() != c.published ||
			e.Ungrown() != c.ungrown {
			t.Errorf("%s: wanted %v, beside %v, published %v, ungrown %v", name, e.Wanted(), e.WantedBeside("a"),
				e.Published(), e.Ungrown())
		}
		if e.Staging.ExpandedTo = 2; e.Ungrown() {
			t.Errorf("%s: it is to grow and has grown", name)
		}
		if e.Quiet() {
			t.Errorf("%s: quiet with a staging", name)
		}
		if e.Staging.Presence = volume.Absent; e.Quiet() != (!c.wanted && !c.published) {
			t.Errorf("%s: quiet %v", name, e.Quiet())
		}
	}
}
