package collector

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/lifecycle"
)

// Given programs of many sizes, when they are busy, then what may be allocated between collections grows with what the
// machine spares, up to four times what lives; and stays so until they have been calm for a while.
func TestABusyProgramCollectsMoreSeldom(t *testing.T) {
	for _, c := range []struct {
		name   string
		memory uint64
		live   uint64
		want   int
	}{
		{"a small one", 16 << 30, 20 << 20, 400},
		{"one that lives of some hundred", 16 << 30, 400 << 20, 256},
		{"a large one", 16 << 30, 1 << 30, 100},
		{"a very large machine", 1 << 40, 400 << 20, 256},
		{"a machine of a GiB", 1 << 30, 40 << 20, 160},
		{"a machine that does not say", 0, 20 << 20, 100},
		{"one of which nothing lives", 16 << 30, 0, 400},
	} {
		p := Pacer{percent: usual, spare: spareOf(c.memory)}
		step := func(collections uint64) int { p.percent = p.next(collections, c.live); return p.percent }
		for _, collections := range []uint64{busy, busy - 1, 100, 0, busy} {
			if got := step(collections); got != usual {
				t.Errorf("%s: %d percent before it is busy for long", c.name, got)
			}
		}
		if got := step(busy); got != c.want {
			t.Errorf("%s: %d percent when it is busy, want %d", c.name, got, c.want)
		}
		for range 3 * calm {
			for _, collections := range []uint64{1, 0, 0} {
				if got := step(collections); got != c.want {
					t.Fatalf("%s: %d percent while it collects at times, want %d", c.name, got, c.want)
				}
			}
		}
		for range calm {
			step(0)
		}
		if p.percent != usual {
			t.Errorf("%s: %d percent when it is calm", c.name, p.percent)
		}
	}
}

// Given a program that makes much garbage, when it is paced, then the collector is set so; and it is as it was when the
// garbage ends, and when the pacing does.
func TestTheCollectorFollows(t *testing.T) {
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	until := func(what string, garbage int, done func() bool) {
		t.Helper()
		for limit := time.Now().Add(60 * time.Second); !done(); {
			if time.Now().After(limit) {
				t.Fatalf("%s: %d percent", what, percent())
			}
			for range garbage {
				kept = make([]byte, 1<<20)
			}
			<-time.After(time.Millisecond)
		}
	}
	g, ctx := lifecycle.NewGroup(context.Background())
	p := New()
	p.Interval = 20 * time.Millisecond
	g.Go("collector", func() error { return p.Run(ctx) })
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	thp := err == nil // the kernel has huge pages for who asks
	until("the begin", 0, func() bool { return !thp || flagged(t, "hg") >= p.spare })
	until("garbage", 50, func() bool { return percent() > usual })
	kept = nil
	until("calm", 0, func() bool { return percent() == usual })
	until("calm", 0, func() bool { return !thp || flagged(t, "nh") >= p.spare })
	until("garbage again", 50, func() bool { return percent() > usual })
	until("garbage again", 50, func() bool { return !thp || flagged(t, "hg") >= p.spare })
	g.Stop()
	if err := g.Wait(); err != nil || percent() != usual {
		t.Errorf("%v, %d percent at the end", err, percent())
	}
}

// Given a program that was never busy, when it has been calm for a while, then it gives back what it does not use, if
// that is much.
func TestACalmProgramGivesBackWhatItDoesNotUse(t *testing.T) {
	forced := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	theHeap() // which collects, too
	for much, gives := range map[uint64]bool{rest + 1: true, rest: false} {
		asked := make(chan struct{}, 1)
		p := New()
		p.Interval = time.Millisecond
		p.unused = func() uint64 {
			select {
			case asked <- struct{}{}:
			default:
			}
			return much
		}
		before := forced()
		g, ctx := lifecycle.NewGroup(context.Background())
		g.Go("collector", func() error { return p.Run(ctx) })
		<-asked
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if given := forced() != before; given != gives {
			t.Errorf("of %d bytes it gave back: %v, want %v", much, given, gives)
		}
	}
	if kept = make([]byte, 8<<20); unused() > 1<<40 {
		t.Errorf("%d bytes are not used", unused())
	}
}

// Given a process whose memory a control group limits, or not, or about which somebody has said a limit, then the
// collector stays below nine tenths of the group's, where nobody has said another; and in the end it is as it was.
func TestTheHeapStaysBelowTheLimitOfAControlGroup(t *testing.T) {
	for _, c := range []struct {
		said, may, want int64
		limited         bool
	}{
		{math.MaxInt64, 1000 << 20, 900 << 20, true},
		{math.MaxInt64, 1000 << 20, math.MaxInt64, false},
		{2 << 30, 1000 << 20, 2 << 30, true},
	} {
		debug.SetMemoryLimit(c.said)
		back := bound(uint64(c.may), c.limited)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
		back()
		if got := debug.SetMemoryLimit(-1); got != c.said {
			t.Errorf("%+v: %d in the end", c, got)
		}
	}
	debug.SetMemoryLimit(math.MaxInt64)
}

// flagged is how much memory of this process the kernel treats as a flag of its says: hg, with huge pages; nh, without.
func flagged(t *testing.T, flag string) (size uint64) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	of := uint64(0)
	for line := range strings.Lines(string(all)) {
		switch words := strings.Fields(line); words[0] {
		case "Size:":
			if of, err = strconv.ParseUint(words[1], 10, 64); err != nil {
				t.Fatal(err)
			}
		case "VmFlags:":
			if slices.Contains(words, flag) {
				size += of << 10
			}
		}
	}
	return size
}

// Given a process whose address space is counted, then no more of it is taken than is used.
func TestWhereAddressSpaceIsCountedNoneIsTakenAhead(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &before); err != nil {
		t.Fatal(err)
	}
	limited := before
	limited.Cur = 1 << 50
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limited); err != nil {
		t.Fatal(err)
	}
	got := ahead(8 * hugePage)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &before); err != nil {
		t.Fatal(err)
	}
	if got != (pages{}) {
		t.Errorf("%+v were taken", got)
	}
	limit := debug.SetMemoryLimit(1 << 40)
	got = ahead(8 * hugePage)
	debug.SetMemoryLimit(limit)
	if got != (pages{}) {
		t.Errorf("%+v were taken beside a limit of memory", got)
	}
	got = ahead(8 * hugePage)
	taken := got.size >= 7*hugePage && got.from%hugePage == 0 && got.size%hugePage == 0
	if nothing := got == (pages{}); taken == counted() || nothing != counted() { // it may be, on this machine
		t.Errorf("%+v of %d bytes were taken, and it is %v that address space is counted", got, 8*hugePage, counted())
	}
}

// kept has what is made escape.
var kept []byte
