package raftlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/port/raftlog/files"
)

const damagedEntries = 400

// writtenLog is a log of several segments with two snapshots, which holds the sum of 1 to damagedEntries.
func writtenLog(t *testing.T, cfg Config, snapshots ...uint64) Config {
	t.Helper()
	cfg.Dir = filepath.Join(t.TempDir(), "raft")
	cfg.SegmentSize, cfg.TrailingLogs = 16<<10, max(cfg.TrailingLogs, 40)
	l := start(t, cfg, &adder{})
	for n := range uint64(damagedEntries) {
		if _, _, err := l.Apply(t.Context(), append(number(n+1), make([]byte, 100)...)); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(snapshots, n+1) {
			if err := l.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// reopen runs a log until it leads and has applied everything, or ends.
func reopen(t *testing.T, cfg Config) (sum uint64, said string, err error) {
	t.Helper()
	var out bytes.Buffer
	cfg.ID, cfg.Reserve = "one", 1<<20
	cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
	sm := &adder{}
	l := New(cfg, sm)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	for {
		lead, changed := l.Leadership()
		if lead.Leading {
			break
		}
		select {
		case <-changed:
		case err := <-ended:
			cancel()
			return 0, out.String(), err
		case <-time.After(time.Minute):
			t.Fatal("neither a leader nor an end")
		}
	}
	waited := l.Barrier(ctx)
	cancel()
	err = <-ended // from here on nobody writes to out
	if waited != nil {
		return 0, out.String(), err
	}
	return sm.total(), out.String(), err
}

func copyDir(t *testing.T, cfg Config) Config {
	t.Helper()
	to := filepath.Join(t.TempDir(), "raft")
	if err := os.CopyFS(to, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = to
	return cfg
}

// one is the only file that matches, or the last: names sort by index.
func one(t *testing.T, dir, pattern string, last bool) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	if last {
		return found[len(found)-1]
	}
	return found[0]
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// flip changes one byte of the data of an entry, as a disk would that does not notice.
func flip(n uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		i := bytes.Index(b, number(n))
		b[i+len(number(n))+10] ^= 1
		return b
	}
}

func half(b []byte) []byte  { return b[:len(b)/2] }
func none([]byte) []byte    { return nil }
func zeros(b []byte) []byte { clear(b[len(b)/2:]); return b }

// cleared has zeros in a stretch, halfUsed and zerosUsed lack the second half of what is in use, and flipped has
// another byte there; a negative place counts from the end of what is in use.
func cleared(from, to int) func([]byte) []byte {
	return func(b []byte) []byte { clear(b[from:min(to, len(b))]); return b }
}

// otherIndex has a snapshot say that its configuration is of another entry.
func otherIndex(b []byte) []byte {
	return bytes.Replace(b, []byte(`"ConfigurationIndex":1`), []byte(`"ConfigurationIndex":0`), 1)
}

func halfUsed(b []byte) []byte  { return b[:used(b)/2] }
func zerosUsed(b []byte) []byte { clear(b[used(b)/2:]); return b }

func flipped(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += used(b)
		}
		b[at] ^= 1
		return b
	}
}

// both changes the first and the last file that match.
func both(pattern string, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		edit(t, one(t, dir, pattern, false), change)
		edit(t, one(t, dir, pattern, true), change)
	}
}

// used is how many bytes of a segment hold something.
func used(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }

// Given a log one of whose files is damaged or gone, when it is opened, then it has everything that was acknowledged,
// by what is left, and says what is damaged; or it is refused with the path, what was not done and what to do.
func TestADamagedLogIsRecoveredOrRefused(t *testing.T) {
	kept := writtenLog(t, Config{}, 150, 300)
	const meta, states = "wal/wal-meta.db", "snapshots/*/state.bin"
	const wantSum = damagedEntries * (damagedEntries + 1) / 2
	for name, c := range map[string]struct {
		damage  func(t *testing.T, dir string)
		refused string // what the refusal names; empty: it opens
		says    string // in the refusal, or in the log
	}{
		"nothing":                 {func(*testing.T, string) {}, "", ""},
		"wal-meta.db of 0 bytes":  {onFile(meta, none), meta, "it is empty"},
		"half of wal-meta.db":     {onFile(meta, half), meta, "it is cut off"},
		"no wal-meta.db":          {gone(meta), meta, "it is missing"},
		"no log at all":           {gone("wal"), "wal", "entries since are lost"},
		"pages of wal-meta.db":    {onFile(meta, cleared(8192, 1<<30)), meta, "is damaged"},
		"one meta page":           {onFile(meta, cleared(0, 4096)), "", ""},
		"both meta pages":         {onFile(meta, cleared(0, 8192)), meta, "neither of its first two pages"},
		"last segment of 0 bytes": {onFile("wal/*.wal$", none), ".wal", "it is cut off"},
		"half of the last":        {onFile("wal/*.wal$", halfUsed), ".wal", "it is cut off"},
		"zeros in the last":       {onFile("wal/*.wal$", zerosUsed), ".wal", "damaged"},
		"no last segment":         {gone("wal/*.wal$"), ".wal", "it is missing"},
		"no first segment":        {gone("wal/*.wal"), ".wal", "it is missing"},
		"half of the first":       {onFile("wal/*.wal", half), ".wal", "it is cut off"},
		"head of the first":       {onFile("wal/*.wal", flipped(9)), "", "a whole snapshot holds the same"},
		"head of the last":        {onFile("wal/*.wal$", flipped(9)), ".wal", "is damaged"},
		"list of the first":       {onFile("wal/*.wal", flipped(-20)), ".wal", "can't be read"},
		"a byte of an entry":      {onFile("wal/*.wal$", flip(damagedEntries-3)), ".wal", "is damaged"},
		"a byte of the last":      {onFile("wal/*.wal$", flip(damagedEntries)), ".wal", "is damaged"},
		"both snapshots' states":  {both(states, none), "state.bin", "it does not match its checksum"},
		"no snapshots":            {gone("snapshots"), "snapshots", "a snapshot is missing"},
		"state of the newest":     {onFile(states+"$", zeros), "state.bin", "it does not match its checksum"},
		"no state of the newest":  {gone(states + "$"), "state.bin", "no such file"},
		"meta of the newest":      {onFile("snapshots/*/meta.json$", half), "meta.json", "unexpected"},
		"a digit of its meta":     {onFile("snapshots/*/meta.json$", otherIndex), "meta.json", "its checksum"},
		"state of the older":      {onFile(states, zeros), "", "state.bin"},
		"no older snapshot":       {gone("snapshots/*"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := copyDir(t, kept)
			c.damage(t, cfg.Dir)
			before := tree(t, cfg.Dir)
			sum, said, err := reopen(t, cfg)
			if c.refused == "" {
				if err != nil || sum != wantSum || !strings.Contains(said, c.says) {
					t.Errorf("the sum is %d (%v), and it said:\n%s", sum, err, said)
				}
				return
			}
			if !fault.Has(err, fault.Internal) {
				t.Fatalf("it was opened: the sum is %d (%v), and it said:\n%s", sum, err, said)
			}
			for _, want := range []string{cfg.Dir, c.refused, c.says, "nothing was changed", "snapshot restore"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
			if after := tree(t, cfg.Dir); after != before {
				t.Errorf("something was changed; before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// onFile changes a file; a $ at the end of the pattern: the last one that matches.
func onFile(pattern string, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		name, last := strings.CutSuffix(pattern, "$")
		edit(t, one(t, dir, name, last), change)
	}
}

func gone(pattern string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		name, last := strings.CutSuffix(pattern, "$")
		remove(t, one(t, dir, name, last))
	}
}

// tree is every file of a directory with its content, in short.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out.WriteString(rel + " " + string(sumText(data)) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func sumText(data []byte) []byte {
	e := raft.Log{Data: data}
	return binary.BigEndian.AppendUint32(nil, files.SumOf(&e))
}

// Given a log whose older snapshot is all that is left, and which holds the entries since, when it is opened, then
// nothing is lost, and what is damaged is named.
func TestAnOlderSnapshotAndTheLogReplaceADamagedOne(t *testing.T) {
	kept := writtenLog(t, Config{TrailingLogs: 10000}, 150, 300)
	for name, damage := range map[string]func(*testing.T, string){
		"state of the newest": onFile("snapshots/*/state.bin$", zeros),
		"meta of the newest":  onFile("snapshots/*/meta.json$", half),
		"no newest":           gone("snapshots/*$"),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := copyDir(t, kept)
			damage(t, cfg.Dir)
			sum, said, err := reopen(t, cfg)
			if err != nil || sum != damagedEntries*(damagedEntries+1)/2 {
				t.Errorf("the sum is %d: %v", sum, err)
			}
			if name != "no newest" && !strings.Contains(said, "something older replaces it") {
				t.Errorf("nothing was said of it:\n%s", said)
			}
		})
	}
}

// Given a log whose last write was cut off by the end of the machine, when it is opened, then that is dropped, is
// reported, and the log goes on.
func TestAWriteThatWasCutOffIsDroppedAndReported(t *testing.T) {
	cfg := writtenLog(t, Config{})
	w, err := files.OpenWAL(cfg.withDefaults().files())
	if err != nil {
		t.Fatal(err)
	}
	last, err := w.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	e := raft.Log{Index: last + 1, Term: 1, Data: append(number(7), make([]byte, 500)...)}
	if err := w.StoreLogs([]*raft.Log{&e}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, one(t, cfg.Dir, "wal/*.wal", true), func(b []byte) []byte { clear(b[used(b)-300:]); return b })
	sum, said, err := reopen(t, cfg)
	if err != nil || sum != damagedEntries*(damagedEntries+1)/2 {
		t.Errorf("the sum is %d: %v", sum, err)
	}
	if !strings.Contains(said, "never acknowledged") {
		t.Errorf("nothing was said of it:\n%s", said)
	}
}

// Given a byte that changed where nothing is written yet, when the log is opened, then that is said, once: the next
// start finds nothing any more.
func TestWhatWasDroppedIsSaidOnce(t *testing.T) {
	cfg := writtenLog(t, Config{})
	edit(t, one(t, cfg.Dir, "wal/*.wal", true), func(b []byte) []byte { b[len(b)-3] ^= 0x40; return b })
	for _, want := range []bool{true, false} {
		sum, said, err := reopen(t, cfg)
		if err != nil || sum != damagedEntries*(damagedEntries+1)/2 {
			t.Errorf("the sum is %d: %v", sum, err)
		}
		if strings.Contains(said, "never acknowledged") != want {
			t.Errorf("it was to be said: %v; it says:\n%s", want, said)
		}
	}
}

// Given a log of a server that was killed, so that nothing says how far it was acknowledged, when an entry in the
// middle is damaged, then that is not taken for the end of the log.
func TestDamageBeforeWhatIsWholeIsNoEnd(t *testing.T) {
	g := openedGuard(t, smallLog(t))
	for n := range uint64(20) {
		e := raft.Log{Index: n + 1, Term: 1, Data: append(number(n+1), make([]byte, 100)...)}
		if err := g.StoreLog(&e); err != nil {
			t.Fatal(err)
		}
	}
	place := func(b []byte, n uint64) int { return bytes.Index(b, number(n)) }
	for name, damage := range map[string]func([]byte) []byte{
		"a byte of an entry":  flip(12),
		"the head of a frame": func(b []byte) []byte { b[place(b, 12)-12] ^= 0x40; return b },
		"a length":            func(b []byte) []byte { b[place(b, 12)-8] ^= 8; return b },
		"a stretch":           func(b []byte) []byte { clear(b[place(b, 12):place(b, 15)]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			killed := copyDir(t, Config{Dir: g.dir})
			edit(t, one(t, killed.Dir, "wal/*.wal", false), damage)
			if _, err := files.Check(killed.Dir); err == nil || !strings.Contains(err.Error(), "entry 12") {
				t.Errorf("got %v", err)
			}
		})
	}
}
