package raftlog

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

func openedGuard(t *testing.T, cfg Config) *guard {
	t.Helper()
	g, err := openGuard(cfg.withDefaults(), &Counters{}, make(chan error, 1), newDamage())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

func smallLog(t *testing.T) Config {
	return Config{Dir: filepath.Join(t.TempDir(), "raft"), SegmentSize: 1 << 20, Reserve: 1 << 20}
}

// TestAnEntryCarriesItsChecksum: given an entry that is proposed, when it is read, then its checksum is there; and no
// part of the entry can change without it.
func TestAnEntryCarriesItsChecksum(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	if err := g.StoreLog(&raft.Log{Index: 1, Term: 2, Data: []byte("data")}); err != nil {
		t.Fatal(err)
	}
	var e raft.Log
	if err := g.GetLog(1, &e); err != nil || len(e.Extensions) != files.SumSize {
		t.Fatalf("read %+v, %v", e, err)
	}
	for name, change := range map[string]func(*raft.Log){
		"index": func(e *raft.Log) { e.Index++ },
		"term":  func(e *raft.Log) { e.Term++ },
		"kind":  func(e *raft.Log) { e.Type = raft.LogNoop },
		"data":  func(e *raft.Log) { e.Data = []byte("date") },
		"sum":   func(e *raft.Log) { e.Extensions = append([]byte(nil), e.Extensions...); e.Extensions[4] ^= 1 },
		"form":  func(e *raft.Log) { e.Extensions = []byte{9, 0, 0, 0, 0} },
	} {
		other := e
		change(&other)
		if files.Sound(&other) == nil {
			t.Errorf("another %s was not noticed", name)
		}
	}
}

// Given an entry that was damaged on its way from the leader, when it is to be stored, then it is refused, so that the
// leader sends it again; that one is stored, with the checksum that its proposer gave it.
func TestAnEntryThatWasDamagedOnItsWayIsRefused(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	sent := raft.Log{Index: 1, Term: 1, Data: []byte("data")}
	files.Seal(&sent)
	arrived := sent
	arrived.Data = []byte("date")
	if err := g.StoreLog(&arrived); !fault.Has(err, fault.Internal) {
		t.Fatalf("it was stored: %v", err)
	}
	if err := g.StoreLog(&sent); err != nil {
		t.Fatal(err)
	}
	var e raft.Log
	err := g.GetLog(1, &e)
	if err != nil || string(e.Data) != "data" || !slices.Equal(e.Extensions, sent.Extensions) {
		t.Errorf("read %+v, %v", e, err)
	}
}

// Given a log of a version that knew no checksums, when it is opened, then its entries are read and applied.
func TestEntriesWithoutAChecksumAreRead(t *testing.T) {
	cfg := smallLog(t)
	cfg.ID = "one"
	w, err := files.OpenWAL(cfg.files())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetUint64(files.CurrentTerm, firstTerm); err != nil {
		t.Fatal(err)
	}
	self := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}}}
	entries := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(self)}}
	for n := range uint64(5) {
		entries = append(entries, &raft.Log{Index: n + 2, Term: 1, Data: number(n + 1)})
	}
	if err := w.StoreLogs(entries); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum, said, err := reopen(t, cfg)
	if err != nil || sum != 15 {
		t.Errorf("the sum is %d (%v), and it said:\n%s", sum, err, said)
	}
}

// Given an entry that is damaged after the server has started, when the library reads it, then the server ends with its
// path, and nothing is stored, applied or written to a snapshot any more.
func TestAnEntryThatIsDamagedWhileItRunsEndsTheServer(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	for n := range uint64(3) {
		sent := raft.Log{Index: n + 1, Term: 1, Data: append(number(n+1), make([]byte, 100)...)}
		if err := g.StoreLog(&sent); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, one(t, g.dir, "wal/*.wal", false), flip(2))
	g.Forget(1, 3) // as if many had been written since
	var e raft.Log
	if err := g.GetLog(2, &e); err != nil || e.Type != raft.LogNoop || len(e.Data) > 0 {
		t.Errorf("the library got %+v, %v; an error has it end the whole process", e, err)
	}
	err := g.damage.known()
	for _, want := range []string{"entry 2 is damaged", ".wal", "snapshot restore"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
	select {
	case got := <-g.damage.found:
		if !errors.Is(got, err) {
			t.Errorf("the server ends with %v", got)
		}
	default:
		t.Fatal("the server goes on")
	}
	if g.StoreLog(&raft.Log{Index: 4, Term: 1, Data: number(4)}) == nil {
		t.Error("something was stored after it")
	}
	sm := &adder{}
	m := &machine{sm: sm, damage: g.damage}
	got, _ := m.Apply(&raft.Log{Index: 3, Term: 1, Data: number(3)}).(error)
	if !errors.Is(got, err) || sm.entries > 0 {
		t.Errorf("an entry was applied after it: %v", got)
	}
	if _, got := m.Snapshot(); !errors.Is(got, err) {
		t.Errorf("a snapshot was written after it: %v", got)
	}
}

// Given an entry that was damaged in memory, when it is to be applied, then it is not.
func TestADamagedEntryIsNotApplied(t *testing.T) {
	sm := &adder{}
	m := &machine{sm: sm, damage: newDamage()}
	e := raft.Log{Index: 1, Term: 1, Data: number(5)}
	files.Seal(&e)
	if got := m.Apply(&e); got != uint64(5) {
		t.Fatalf("a sound one answered %v", got)
	}
	e.Data = number(6)
	if got := m.ApplyBatch([]*raft.Log{&e, {Index: 2, Term: 1, Data: number(1)}}); sm.total() != 5 {
		t.Errorf("answered %v, the sum is %d", got, sm.total())
	}
	if m.damage.known() == nil {
		t.Error("the server goes on")
	}
}
