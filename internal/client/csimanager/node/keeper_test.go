package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/holding"
	"berth/internal/client/csimanager/reporter"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// scripted is what a keeper stands on, as a test says. No alloc is known.
type scripted struct {
	csimanager.Allocs
	armed bool
	lost  []string
}

func (s *scripted) Armed() bool            { return s.armed }
func (*scripted) Changed() <-chan struct{} { return nil }
func (*scripted) Known(ids.Alloc) bool     { return false }
func (*scripted) Orphaned(ids.Alloc) bool  { return false }
func (s *scripted) VolumeLost(id ids.Alloc, alias, _ string) {
	s.lost = append(s.lost, string(id)+" "+alias)
}

// keeperOf is a keeper that nobody runs, with one volume and a store of its own.
func keeperOf(t *testing.T, vs *volumeState) *Keeper {
	t.Helper()
	return keeperWith(t, vs, &scripted{}, wire.Encode)
}

func keeperWith(t *testing.T, vs *volumeState, s *scripted, encode func(any) ([]byte, error)) *Keeper {
	t.Helper()
	dir := t.TempDir()
	store, err := kv.Open(filepath.Join(dir, "kv"), kv.Codec{Encode: encode, Decode: wire.DecodeStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	k := &Keeper{
		vols: map[volume.StagingKey]*volumeState{},
		cfg: Config{
			Store:   store,
			Codec:   kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict},
			Boot:    "boot",
			DataDir: dir,
			Armed:   s,
			Allocs:  s,
			Holding: holding.NewSearch(nil, slog.New(slog.DiscardHandler)),
			Log:     slog.New(slog.DiscardHandler),
		},
	}
	k.loop = reconcile.New(reconcile.Config{Name: "nobody runs it"},
		func(context.Context, volume.StagingKey) (reconcile.Result, error) { return reconcile.Done(), nil })
	if vs != nil {
		k.vols[testKey] = vs
	}
	return k
}

// decided is a step that was picked for the entry as it is.
func (vs *volumeState) decided(s entry.Step) decision {
	return decision{step: s, ok: true, at: vs.version()}
}

var errDisk = errors.New("the disk is full")

// TestTheIntentIsOnDiskBeforeTheCall: and when it cannot be written, no call is made and nothing is uncertain.
func TestTheIntentIsOnDiskBeforeTheCall(t *testing.T) {
	var written []volume.Presence
	var broken error
	vs := newVolumeState(&entry.Entry{Key: testKey})
	if err := vs.want(grantOf("a")); err != nil {
		t.Fatal(err)
	}
	vs.acknowledged["a"] = grantOf("a").Epoch
	k := keeperWith(t, vs, &scripted{}, func(v any) ([]byte, error) {
		if e, ok := v.(*entry.Entry); ok && broken == nil {
			written = append(written, e.Staging.Presence)
		}
		if broken != nil {
			return nil, broken
		}
		return wire.Encode(v)
	})
	stage := func() error {
		return k.step(t.Context(), testKey, vs.decided(entry.Step{Verb: entry.Stage}), connectionOf("/base"))
	}
	broken = errDisk
	if err := stage(); !errors.Is(err, errDisk) {
		t.Errorf("the journal cannot be written, and the step ends with %v", err)
	}
	if now := vs.entry.Staging.Presence; now != volume.Absent {
		t.Errorf("the journal cannot be written, and the staging is %s", now)
	}
	if calls := vs.entry.Unanswered; len(calls) > 0 {
		t.Errorf("the journal cannot be written, and a call that was not made is unanswered: %v", calls)
	}
	broken = nil
	if err := stage(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(written, []volume.Presence{volume.Uncertain}) || vs.entry.Staging.Presence != volume.Present {
		t.Errorf("written: %v, in the end it is %s", written, vs.entry.Staging.Presence)
	}
}

// TestAnIntentToUnstageThatWasNotWrittenIsTakenBack: with the unpublishing whose intent it came with.
func TestAnIntentToUnstageThatWasNotWrittenIsTakenBack(t *testing.T) {
	vs := madeState(t, "a")
	vs.withdraw("a")
	k := keeperWith(t, vs, &scripted{}, func(any) ([]byte, error) { return nil, errDisk })
	undo := vs.decided(entry.Step{Verb: entry.Unpublish, Alloc: "a"})
	err := k.step(t.Context(), testKey, undo, connectionOf("/base"))
	if !errors.Is(err, errDisk) {
		t.Fatalf("it ended with %v", err)
	}
	if vs.entry.Staging.Presence != volume.Present || vs.entry.Pubs["a"].Presence != volume.Present ||
		vs.unstageIntended {
		t.Errorf("nothing was begun, and there is %+v, %+v", vs.entry.Staging, vs.entry.Pubs["a"])
	}
}

// TestCallsOfAVolumeFollowEachOther: while one is made, nobody else can begin another.
func TestCallsOfAVolumeFollowEachOther(t *testing.T) {
	vs, base := madeState(t, "a"), t.TempDir()
	vs.entry.Staging.Presence, vs.entry.Staging.HostPath = volume.Uncertain, filepath.Join(base, "s", "x")
	k := keeperOf(t, vs)
	made := false
	k.cfg.Codec.Encode = func(any) ([]byte, error) { // of the id file: the call is under way
		made = true
		if begun, _ := vs.call.Read(t.Context(), func(context.Context) error { return nil }); begun {
			t.Error("another call could be made beside it")
		}
		return nil, errDisk
	}
	err := k.step(t.Context(), testKey, vs.decided(entry.Step{Verb: entry.Stage}), connectionOf(base))
	if !errors.Is(err, errDisk) || !made {
		t.Errorf("it was made: %v, and ended with %v", made, err)
	}
}

// TestAWantThatChangedUnderACallIsNotFulfilledByIt: what the call made is undone first.
func TestAWantThatChangedUnderACallIsNotFulfilledByIt(t *testing.T) {
	vs := madeState(t, "a")
	vs.entry.Staging.Skip = true
	vs.entry.Staging.Presence = volume.Uncertain // its call is under way
	g := grantOf("a")
	g.Generation++
	if err := vs.want(g); err != nil {
		t.Fatal(err)
	}
	if err := keeperOf(t, vs).finish(testKey, entry.Step{Verb: entry.Stage}, volume.Absent, nil); err != nil {
		t.Fatal(err)
	}
	if now := vs.entry.Staging.Presence; now != volume.Lost {
		t.Errorf("the staging is %s", now)
	}
}

// acked is the servers' answer to a report of one want, about the claim that they know.
func acked(void ...volume.Epoch) *wire.InventoryReply {
	r := &wire.InventoryReply{}
	for _, e := range void {
		r.Void = append(r.Void, wire.VoidClaim{PublicationKey: grantOf("a").Key, Epoch: e})
	}
	return r
}

// TestAnAnswerIsAboutWhatWasReported: to a want that is another by now, or none, it says nothing.
func TestAnAnswerIsAboutWhatWasReported(t *testing.T) {
	epoch := grantOf("a").Epoch
	later := epoch
	later.Index++
	for name, c := range map[string]struct {
		meanwhile func(*volumeState)
		answer    *wire.InventoryReply
		known     bool // the servers are held to know the want
		wanted    bool
	}{
		"acknowledged":           {nil, acked(), true, true},
		"its claim has ended":    {nil, acked(epoch), false, false},
		"an earlier claim ended": {nil, acked(volume.Epoch{Incarnation: "i"}), true, true},
		"withdrawn":              {func(vs *volumeState) { vs.withdraw("a") }, acked(), false, false},
		"granted anew": {func(vs *volumeState) {
			g := grantOf("a")
			g.Epoch = later
			_ = vs.want(g) // the arguments are the same: it is not refused
		}, acked(), false, true},
		"granted anew, the earlier claim has ended": {func(vs *volumeState) {
			g := grantOf("a")
			g.Epoch = later
			_ = vs.want(g) // likewise
		}, acked(epoch), false, true},
	} {
		vs := newVolumeState(&entry.Entry{Key: testKey})
		if err := vs.want(grantOf("a")); err != nil {
			t.Fatal(err)
		}
		k := keeperOf(t, vs)
		entries, _, _ := k.Report(true)
		if c.meanwhile != nil {
			c.meanwhile(vs)
		}
		k.acknowledge(entries, c.answer)
		if _, known := vs.acknowledged["a"]; known != c.known || vs.entry.Pubs["a"].Wanted != c.wanted {
			t.Errorf("%s: known to the servers %v, wanted %v", name, known, vs.entry.Pubs["a"].Wanted)
		}
	}
}

// TestNoWantIsWithdrawnBeforeTheNodeIsArmed: until then it does not know which allocs belong to it.
func TestNoWantIsWithdrawnBeforeTheNodeIsArmed(t *testing.T) {
	vs, s := madeState(t, "a"), &scripted{}
	k := keeperWith(t, vs, s, wire.Encode)
	k.withdrawUnknown()
	if !vs.entry.Pubs["a"].Wanted {
		t.Error("a want was withdrawn before the node was armed")
	}
	s.armed = true
	k.withdrawUnknown()
	if vs.entry.Pubs["a"].Wanted {
		t.Error("an alloc that nobody runs keeps its want")
	}
}

// TestASaveWritesTheNewestState: what changes while the journal waits for its turn is written too.
func TestASaveWritesTheNewestState(t *testing.T) {
	vs := madeState(t, "a")
	var got *entry.Entry
	entered, goOn := make(chan struct{}), make(chan struct{})
	k := keeperWith(t, vs, &scripted{}, func(v any) ([]byte, error) {
		if e, ok := v.(*entry.Entry); ok {
			got = e
		}
		return wire.Encode(v)
	})
	busy := make(chan error, 1)
	go func() { busy <- k.cfg.Store.Update(func(*kv.Tx) error { close(entered); <-goOn; return nil }) }()
	<-entered
	saved := make(chan error, 1)
	go func() { saved <- k.save(testKey) }()
	time.Sleep(50 * time.Millisecond) // it waits for the other transaction
	k.mu.Lock()
	vs.withdraw("a")
	k.mu.Unlock()
	close(goOn)
	if err := errors.Join(<-busy, <-saved); err != nil {
		t.Fatal(err)
	}
	if got.Pubs["a"].Wanted || vs.record.Journal != entry.Current {
		t.Errorf("written: %+v, the disk is %s", got.Pubs["a"], vs.record.Journal)
	}
}

// TestAWantKeepsARecordThatWasToBeErased: it came before the transaction.
func TestAWantKeepsARecordThatWasToBeErased(t *testing.T) {
	vs := newVolumeState(&entry.Entry{Key: testKey, Pubs: map[ids.Alloc]*entry.Publication{}})
	k := keeperOf(t, vs)
	if err := k.save(testKey); err != nil {
		t.Fatal(err)
	}
	vs.record = entry.Record{Journal: entry.Current, Servers: entry.Nothing}
	if err := vs.want(grantOf("a")); err != nil {
		t.Fatal(err)
	}
	if err := k.erase(testKey); err != nil {
		t.Fatal(err)
	}
	if vs.saved == nil || vs.record.Journal == entry.Nothing {
		t.Error("the record of a wanted volume was erased")
	}
}

// answers are servers that a test plays.
type answers struct {
	seen    lineage.Point
	marked  chan struct{}
	answer  func(*wire.InventoryReport) (*wire.InventoryReply, error)
	known   func(*wire.InventoryDigest) (bool, error) // nil: they want every report
	reports []*wire.InventoryReport
	digests []wire.InventoryDigest
}

func (a *answers) Seen() lineage.Point     { return a.seen }
func (a *answers) Marked() <-chan struct{} { return a.marked }

func (a *answers) InventoryKnown(_ context.Context, d *wire.InventoryDigest) (bool, error) {
	a.digests = append(a.digests, *d)
	if a.known == nil {
		return false, nil
	}
	return a.known(d)
}

func (a *answers) SendInventory(_ context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error) {
	a.reports = append(a.reports, r)
	return a.answer(r)
}

// TestWhenAReportIsWhole: the first one, one after an answer that it was out of order, and one to another leadership.
// Each says what it follows.
func TestWhenAReportIsWhole(t *testing.T) {
	k := keeperOf(t, madeState(t, "a"))
	a := &answers{seen: lineage.Point{Incarnation: "i", Index: 7, Mark: "one"}, marked: make(chan struct{})}
	end := errors.New("the connection is lost")
	a.answer = func(r *wire.InventoryReport) (*wire.InventoryReply, error) {
		switch n := len(a.reports); n {
		case 1: // out of order
			return &wire.InventoryReply{Head: 5, Stale: true}, nil
		case 2:
			k.Released("another")
			return &wire.InventoryReply{Head: 6}, nil
		case 3: // of nothing; another leadership begins
			a.seen.Mark = "two"
			close(a.marked)
			return &wire.InventoryReply{Head: 7}, nil
		}
		return nil, end
	}
	if err := (&reporter.Reporter{Keeper: k, Servers: a}).Run(t.Context()); !errors.Is(err, end) {
		t.Fatalf("it ended with %v", err)
	}
	var got []string
	for _, r := range a.reports {
		text := "changes"
		if r.Full {
			text = "whole"
		}
		got = append(got, text+strings.Repeat("+", len(r.Entries))+" "+r.At.Mark)
	}
	if want := []string{"whole+ one", "whole+ one", "changes one", "whole+ two"}; !slices.Equal(got, want) {
		t.Errorf("reports: %q, want %q", got, want)
	}
	for i, prev := range []uint64{0, 5, 6, 7} {
		if a.reports[i].Prev != prev {
			t.Errorf("report %d follows %d, want %d", i, a.reports[i].Prev, prev)
		}
	}
}

// TestANodeThatCaughtUpSaysSo: it reported as of an older set of allocs, and has nothing new to tell but that it has
// seen a newer one since.
func TestANodeThatCaughtUpSaysSo(t *testing.T) {
	k := keeperOf(t, madeState(t, "a"))
	a := &answers{seen: lineage.Point{Incarnation: "i", Index: 7, Mark: "one"}, marked: make(chan struct{})}
	end := errors.New("the connection is lost")
	a.answer = func(r *wire.InventoryReport) (*wire.InventoryReply, error) {
		if len(a.reports) > 1 {
			return nil, end
		}
		a.seen.Index = 9
		close(a.marked)
		return &wire.InventoryReply{Head: 5}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := (&reporter.Reporter{Keeper: k, Servers: a}).Run(ctx); !errors.Is(err, end) {
		t.Fatalf("it ended with %v", err)
	}
	if last := a.reports[1]; last.Full || len(last.Entries) > 0 || last.At.Index != 9 || last.Prev != 5 {
		t.Errorf("it says %+v", last)
	}
}

// TestAReportIsNoNewerThanItsEntries: the state of the servers that it names is read before them.
func TestAReportIsNoNewerThanItsEntries(t *testing.T) {
	k := keeperOf(t, madeState(t, "a"))
	s := &reads{answers: answers{marked: make(chan struct{})}, k: k}
	end := errors.New("enough")
	s.answer = func(*wire.InventoryReport) (*wire.InventoryReply, error) { return nil, end }
	if err := (&reporter.Reporter{Keeper: k, Servers: s}).Run(t.Context()); !errors.Is(err, end) {
		t.Fatal(err)
	}
	if s.late {
		t.Error("the entries were taken before the state that the report names")
	}
}

// reads are servers that notice when their state is read after the entries were taken.
type reads struct {
	answers
	k    *Keeper
	late bool
}

func (r *reads) Seen() lineage.Point {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	for _, vs := range r.k.vols {
		r.late = r.late || vs.record.Servers == entry.Underway
	}
	return r.seen
}

// mounted mounts a small file system in a directory of the test.
func mounted(t *testing.T, path string, flags uintptr) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", flags, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) }) // the test may have done it
}

// mountedState is a volume that is staged and published, with mounts to show for it.
func mountedState(t *testing.T) *volumeState {
	t.Helper()
	vs, dir := madeState(t, "a"), t.TempDir()
	st, p := &vs.entry.Staging, vs.entry.Pubs["a"]
	st.HostPath, p.HostPath = filepath.Join(dir, "s", "x"), filepath.Join(dir, "p", "x", "m")
	mounted(t, st.HostPath, 0)
	mounted(t, p.HostPath, 0)
	table := readTable(t)
	st.Mounts = evidence.Beneath(table, st.HostPath)
	o, found, err := evidence.Published(vs.entry, "a", table)
	if err != nil || o != entry.Worked {
		t.Fatalf("it is mounted, and that comes to %d, %v", o, err)
	}
	p.Device = found.Device
	return vs
}

func readTable(t *testing.T) *hostfs.Table {
	t.Helper()
	table, err := hostfs.ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestMountedAsksTheMountTable is invariant I17: a task starts only on a target that shows what was published there.
func TestMountedAsksTheMountTable(t *testing.T) {
	vs := mountedState(t)
	k := keeperOf(t, vs)
	key, p := grantOf("a").Key, vs.entry.Pubs["a"]
	if err := k.Mounted(t.Context(), key, false); err != nil {
		t.Fatal(err)
	}
	for _, presence := range []volume.Presence{volume.Absent, volume.Uncertain, volume.Lost} {
		p.Presence = presence
		if err := k.Mounted(t.Context(), key, false); !fault.Has(err, fault.NotReady) {
			t.Errorf("a task would start on a publication that is %s: %v", presence, err)
		}
	}
	p.Presence = volume.Present
	if err := k.Mounted(t.Context(), grantOf("b").Key, false); !fault.Has(err, fault.NotReady) {
		t.Errorf("a task would start on what another alloc has: %v", err)
	}
	mounted(t, p.HostPath, 0)
	if err := k.Mounted(t.Context(), key, false); !fault.Has(err, fault.NotReady) {
		t.Errorf("a task would start on what somebody mounted over it: %v", err)
	}
	for range 2 {
		if err := unix.Unmount(p.HostPath, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Mounted(t.Context(), key, false); !fault.Has(err, fault.NotReady) {
		t.Errorf("a task would start in the bare directory: %v", err)
	}
}

// TestWhatTheMountTableNoLongerShowsIsLost: and its alloc hears of it.
func TestWhatTheMountTableNoLongerShowsIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *entry.Entry) error
		pub    volume.Presence
		st     volume.Presence
	}{
		"nothing": {func(*testing.T, *entry.Entry) error { return nil }, volume.Present, volume.Present},
		"the target was unmounted": {func(_ *testing.T, e *entry.Entry) error {
			return unix.Unmount(e.Pubs["a"].HostPath, 0)
		}, volume.Lost, volume.Present},
		"something lies over the target": {func(t *testing.T, e *entry.Entry) error {
			mounted(t, e.Pubs["a"].HostPath, 0)
			return nil
		}, volume.Lost, volume.Present},
		"the staging was unmounted": {func(_ *testing.T, e *entry.Entry) error {
			return unix.Unmount(e.Staging.HostPath, 0)
		}, volume.Lost, volume.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			vs, s := mountedState(t), &scripted{}
			k := keeperWith(t, vs, s, wire.Encode)
			vs.record.Journal = entry.Current
			if err := c.change(t, vs.entry); err != nil {
				t.Fatal(err)
			}
			if err := k.verify(); err != nil {
				t.Fatal(err)
			}
			k.reportVictims()
			if p := vs.entry.Pubs["a"]; p.Presence != c.pub || vs.entry.Staging.Presence != c.st {
				t.Errorf("the publication is %s, the staging %s", p.Presence, vs.entry.Staging.Presence)
			}
			if reported := slices.Equal(s.lost, []string{"a data"}); reported != (c.pub == volume.Lost) {
				t.Errorf("reported: %q", s.lost)
			}
			if written := vs.record.Journal == entry.Current; written == (c.pub == volume.Lost) {
				t.Errorf("the disk is %s", vs.record.Journal)
			}
		})
	}
}

// TestAnAnswerIsHeldAgainstTheMountTable: a plugin's OK, or that it knows nothing of a volume, proves nothing.
func TestAnAnswerIsHeldAgainstTheMountTable(t *testing.T) {
	notFound := &csi.Error{Retry: volume.RetryVerify}
	for name, c := range map[string]struct {
		verb  entry.Verb
		there bool // it is mounted
		flags uintptr
		err   error
		want  entry.Outcome
	}{
		"published":                  {entry.Publish, true, 0, nil, entry.Worked},
		"published and not there":    {entry.Publish, false, 0, nil, entry.Missing},
		"published for reading":      {entry.Publish, true, unix.MS_RDONLY, nil, entry.Missing},
		"unpublished":                {entry.Unpublish, false, 0, nil, entry.Worked},
		"unpublished and there":      {entry.Unpublish, true, 0, nil, entry.Unknown},
		"not found":                  {entry.Unpublish, false, 0, notFound, entry.Worked},
		"not found and there":        {entry.Unpublish, true, 0, notFound, entry.Unknown},
		"unstaged":                   {entry.Unstage, false, 0, nil, entry.Worked},
		"unstaged and there":         {entry.Unstage, true, 0, nil, entry.Unknown},
		"no staging found":           {entry.Unstage, false, 0, notFound, entry.Worked},
		"no staging found and there": {entry.Unstage, true, 0, notFound, entry.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			vs, dir := madeState(t, "a"), t.TempDir()
			st, p := &vs.entry.Staging, vs.entry.Pubs["a"]
			st.HostPath, p.HostPath = filepath.Join(dir, "s", "x"), filepath.Join(dir, "p", "x", "m")
			path := p.HostPath
			if c.verb == entry.Unstage {
				path = st.HostPath
			}
			if c.there {
				mounted(t, path, c.flags)
			}
			o, _, err := keeperOf(t, vs).verifyStep(testKey, entry.Step{Verb: c.verb, Alloc: "a"}, c.err)
			if o != c.want {
				t.Errorf("outcome %d (%v), want %d", o, err, c.want)
			}
		})
	}
}

// TestAnIDFileNamesWhatTheJournalLost: as uncertain; one that was copied elsewhere names nothing.
func TestAnIDFileNamesWhatTheJournalLost(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperOf(t, nil)
	base := filepath.Join(k.cfg.DataDir, "csi", "p")
	st, p := &vs.entry.Staging, vs.entry.Pubs["a"]
	st.HostPath, p.HostPath = filepath.Join(base, "s", "x"), filepath.Join(base, "p", "x", "m")
	for _, dir := range []string{filepath.Dir(st.HostPath), filepath.Dir(p.HostPath)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(evidence.WriteIDFile(k.cfg.Codec, vs.entry, ""),
		evidence.WriteIDFile(k.cfg.Codec, vs.entry, "a"),
		os.Rename(st.HostPath+".id", st.HostPath+"-copy.id")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Dir(p.HostPath) + ".id"); err != nil {
		t.Fatal(err)
	}
	if err := k.adoptUnrecorded(); err != nil || len(k.vols) != 0 || len(k.broken) != 0 {
		t.Errorf("a copied file is believed: %v, %v, %v", err, keys(k), k.broken)
	}
	if err := evidence.WriteIDFile(k.cfg.Codec, vs.entry, "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(st.HostPath+"-copy.id", st.HostPath+".id"); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(filepath.Dir(st.HostPath), "y.id.tmp")
	if err := errors.Join(os.WriteFile(half, []byte("half"), 0o600), k.adoptUnrecorded()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a crash left half written stays: %v", err)
	}
	got := k.vols[testKey]
	if got == nil || got.entry.Pubs["a"] == nil {
		t.Fatalf("nothing was adopted: %v", keys(k))
	}
	if e := got.entry; e.Staging.Presence != volume.Uncertain || e.Pubs["a"].Presence != volume.Uncertain ||
		e.Staging.HostPath != st.HostPath || !e.Staging.Args.Equal(st.Args) || got.record.Journal == entry.Current {
		t.Errorf("adopted: %+v, %+v", e.Staging, e.Pubs["a"])
	}
}

// beginning is an alloc whose first process starts, and whose want is withdrawn, just after it was said to have none.
type beginning struct {
	begin func()
	live  bool
}

func (b *beginning) ProcessesGone(ids.Alloc) (bool, string) {
	said := !b.live
	if b.begin != nil {
		b.begin()
		b.begin, b.live = nil, true
	}
	return said, "a process lives"
}
func (b *beginning) ProcessesIdle(ids.Alloc) bool { return !b.live }
func (*beginning) Changed() <-chan struct{}       { return nil }

// TestWhatWasReadBeforeAWantWasWithdrawnIsReadAgain: the alloc may have started since.
func TestWhatWasReadBeforeAWantWasWithdrawnIsReadAgain(t *testing.T) {
	vs := madeState(t, "a")
	k := keeperWith(t, vs, &scripted{armed: true}, wire.Encode)
	k.cfg.Processes = &beginning{begin: func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		vs.withdraw("a")
	}}
	if d := k.plan(testKey); d.ok {
		t.Errorf("%s although a process lives", d.step.Verb)
	}
	if want := "waiting for the allocation's processes to end: a process lives"; vs.status.text != want {
		t.Errorf("status %q, want %q", vs.status.text, want)
	}
}

// TestAStepThatWasPickedForAnotherEntryIsNotMade: by now the alloc wants its volume again, and knows that it is there.
func TestAStepThatWasPickedForAnotherEntryIsNotMade(t *testing.T) {
	vs := madeState(t, "a")
	vs.withdraw("a")
	k := keeperOf(t, vs)
	picked := vs.decided(entry.Step{Verb: entry.Unpublish, Alloc: "a"})
	if err := vs.want(grantOf("a")); err != nil {
		t.Fatal(err)
	}
	if err := k.step(t.Context(), testKey, picked, connectionOf("/base")); err != nil {
		t.Fatal(err)
	}
	if now := vs.entry.Pubs["a"].Presence; now != volume.Present || len(vs.entry.Unanswered) > 0 {
		t.Errorf("the publication is %s; unanswered: %v", now, vs.entry.Unanswered)
	}
}

// looked is what a look at a device finds.
type looked struct{ held bool }

func (l *looked) Free(context.Context, entry.Device) (entry.Sighting, error) {
	return entry.Sighting{Held: l.held}, nil
}

func (l *looked) Look(context.Context, entry.Device, ...string) (entry.Sighting, error) {
	return entry.Sighting{Held: l.held, All: true}, nil
}

// TestAPersonsWordDoesNotReleaseADeviceThatIsHeld: whoever holds it where this node sees no mount may still write.
func TestAPersonsWordDoesNotReleaseADeviceThatIsHeld(t *testing.T) {
	vs := newVolumeState(&entry.Entry{Key: testKey, Staging: entry.Staging{
		Presence: volume.Uncertain,
		HostPath: filepath.Join(t.TempDir(), "s"),
		Device:   entry.Device{Device: "7:3", Seq: 9},
	}})
	k, device := keeperOf(t, vs), &looked{held: true}
	k.cfg.Holding = holding.NewSearch(device, slog.New(slog.DiscardHandler))
	if err := k.cfg.Holding.Absent(t.Context(), vs.entry); err == nil {
		t.Fatal("the unstaging of a device that is held counts as done")
	}
	err := k.ReleaseVolume(testKey, "looked", "me")
	if !fault.Has(err, fault.Conflict) || vs.entry.Staging.Presence != volume.Uncertain {
		t.Errorf("held, and by a person's word it is %s: %v", vs.entry.Staging.Presence, err)
	}
	device.held = false
	if err := k.cfg.Holding.Absent(t.Context(), vs.entry); err != nil {
		t.Fatal(err)
	}
	if err := k.ReleaseVolume(testKey, "looked", "me"); err != nil || vs.entry.Staging.Presence != volume.Absent {
		t.Errorf("free, and by a person's word it is %s: %v", vs.entry.Staging.Presence, err)
	}
}
