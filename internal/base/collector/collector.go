// Package collector owns how much memory the garbage collector may spare itself work with, and in which pages that
// lies. It is of the whole process: the program alone has it paced, for an agent, of which much is asked at times.
package collector

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

const (
	usual = 100 // percent of what lives that may be allocated until the next collection, as Go has it
	most  = 400

	// busy collections in an interval mark a program of which much is asked: one at rest has none for minutes.
	busy = 2
	// enough busy intervals, one after another, are no beginning of a program, nor a single large answer.
	enough = 2
	// calm intervals without any, one after another, mark one of which nothing is.
	calm = 10
)

// spare bounds the memory that fewer collections may take beyond the usual, on any machine and as a share of what this
// process may have.
const (
	spare      = 1 << 30
	spareShare = 16
)

// Pacer lets a program that is busy collect more seldom, and take more memory for that, as long as it is. The heap lies
// in huge pages, until it has shrunk.
type Pacer struct {
	Interval time.Duration // between looks
	percent  int
	spare    uint64
	unused   func() uint64 // what the heap has and neither uses nor has given back

	// Intervals until now, one after another: busy ones, and those without a collection.
	busy, quiet int
}

// New returns a pacer that looks every second.
func New() *Pacer {
	return &Pacer{Interval: time.Second, percent: usual, spare: spared(), unused: unused}
}

// spared is how much this process may take beyond the usual.
func spared() uint64 {
	may, _ := memory()
	return spareOf(may)
}

func spareOf(memory uint64) uint64 { return min(spare, memory/spareShare) }

// Run paces the collector until ctx ends, and leaves it as it was. Where it was set from without, it stays so.
func (p *Pacer) Run(ctx context.Context) error {
	if before := debug.SetGCPercent(usual); before != usual {
		debug.SetGCPercent(before)
		return nil
	}
	defer debug.SetGCPercent(usual)
	heap := theHeap()
	heap.advise(unix.MADV_HUGEPAGE) // an earlier run may have ended it
	defer bound(memory())()
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	last, _ := seen()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		collections, live := seen()
		next := p.next(collections-last, live)
		last = collections
		if next == p.percent {
			if p.quiet == calm && p.unused() > rest {
				heap.advise(unix.MADV_NOHUGEPAGE)
				debug.FreeOSMemory()
			}
			continue
		}
		raised := p.percent > usual
		p.percent = next
		debug.SetGCPercent(next)
		switch {
		case raised && next == usual:
			heap.advise(unix.MADV_NOHUGEPAGE) // else the kernel makes whole ones of what is left in each
			debug.FreeOSMemory()              // what the last collections left would stay for minutes
		case !raised:
			heap.advise(unix.MADV_HUGEPAGE)
		}
	}
}

// bound has the collector work harder before a control group's limit would have the kernel kill the process: below nine
// tenths of it, for the rest is not the heap's. Where somebody has said a limit, that one stays. The returned function
// takes it back.
func bound(may uint64, limited bool) (back func()) {
	before := debug.SetMemoryLimit(-1)
	if !limited || before != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(int64(may / 10 * 9))
	return func() { debug.SetMemoryLimit(before) }
}

// rest is how much that is not used a program keeps that is calm: more was of something that is over.
const rest = 64 << 20

func unused() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// next is the percentage for the next interval, after one with so many collections that left so many bytes alive.
func (p *Pacer) next(collections, live uint64) int {
	if p.busy++; collections < busy {
		p.busy = 0
	}
	if p.quiet++; collections > 0 {
		p.quiet = 0
	}
	if p.quiet >= calm || p.percent == usual && p.busy < enough {
		return usual
	}
	return int(min(max(usual, p.spare*100/max(live, 1)), most))
}

// seen are the collections until now, but for those that were asked for, and the bytes that the last one left alive.
func seen() (collections, live uint64) {
	s := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}
