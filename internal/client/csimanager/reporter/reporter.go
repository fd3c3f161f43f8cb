// Package reporter owns when a node's inventory of volumes is reported to the servers. The client's composition runs
// it; what is reported the node keeper knows.
package reporter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
	"berth/internal/client/csimanager"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Inventory is what is reported; the node keeper implements it.
type Inventory interface {
	// Changed returns a channel that is closed when there may be news.
	Changed() <-chan struct{}
	// Repeat returns everything, as a whole report would say it; not ok: the servers have not heard of all of it.
	Repeat() (entries []volume.InventoryEntry, unknown []volume.UnknownMount, ok bool)
	// News is the most urgent of what the servers have not heard of.
	News() csimanager.News
	// Report takes what is to be sent, and holds it to be under way until it is answered.
	Report(full bool) (entries []volume.InventoryEntry, unknown []volume.UnknownMount, due bool)
	// Answered takes the servers' answer to a report of these entries.
	Answered(entries []volume.InventoryEntry, reply *wire.InventoryReply)
}

// Reporter sends the inventory: everything at each connect, then what changed. What the servers wait for goes at once,
// coalesced while a report is under way; the rest is held back for a while, because a report of allocs may take it
// along (Board). A report that would only repeat what the same leadership has acknowledged goes as a digest, which
// costs the servers no entry of their log as long as they need no more.
type Reporter struct {
	Keeper  Inventory
	Servers Servers
	Delay   time.Duration // how long news are held back that the servers do not wait for
	// Patience is how long what is under way and goes well is held back: the alloc that waits for it reports it.
	Patience time.Duration

	hurry atomic.Bool // nothing is held back in the next report
	once  sync.Once
	sends chan struct{} // full while a report is under way; see lock
	open  *connection   // nil: there is none
	last  head
	board lifecycle.Signal // Board has given the lock back
}

// head is the newest report that the servers took over from this agent run, and the mark of the leadership that it was
// made under, which had a whole one before any other. The lock guards it. The zero value: there is none.
type head struct {
	index uint64
	mark  string
}

// connection is what was reported since the servers were reached.
type connection struct {
	full     bool // the next report is of everything
	caughtUp bool // the node has acted on a whole set of allocs since the last report
	reported uint64
	mark     string
}

// Servers are whom a node reports to; the client's session implements it.
type Servers interface {
	// SendInventory delivers a report, fills in who reports, and returns the acknowledgement.
	SendInventory(ctx context.Context, r *wire.InventoryReport) (*wire.InventoryReply, error)
	// InventoryKnown asks whether the servers need a report that would say nothing new, and fills in who asks.
	InventoryKnown(ctx context.Context, d *wire.InventoryDigest) (bool, error)
	// Seen is the newest alloc set that the node has acted on.
	Seen() lineage.Point
	// Marked returns a channel that is closed when the servers' leadership changed, or Seen is a whole set of allocs.
	Marked() <-chan struct{}
}

// Run reports until ctx ends. It returns an error when the connection failed; the client runs another. A report names
// the one that it follows: one that was delayed on its way never overwrites a later one.
func (r *Reporter) Run(ctx context.Context) error {
	r.connect(&connection{full: true})
	defer r.connect(nil)
	var held heldBack
	for {
		ch, marked := r.Keeper.Changed(), r.Servers.Marked()
		board := r.board.C()
		due := held.look(r.Keeper.News(), time.Now(), r.Delay, r.Patience)
		if err := r.report(ctx, !due.IsZero() && !time.Now().Before(due)); err != nil {
			return err // the next run begins with everything
		}
		due = held.look(r.Keeper.News(), time.Now(), r.Delay, r.Patience)
		if !r.rest(ctx, ch, marked, board, due) {
			return nil
		}
	}
}

// heldBack is since when there have been news, and since when something has stood in the way, without a break.
type heldBack struct{ any, standing time.Time }

// look takes over what there is now, and returns when it is reported at the latest; zero: there is nothing.
func (h *heldBack) look(n csimanager.News, now time.Time, delay, patience time.Duration) (due time.Time) {
	since := func(at *time.Time, is bool) {
		if !is {
			*at = time.Time{}
		} else if at.IsZero() {
			*at = now
		}
	}
	since(&h.any, n >= csimanager.UnderWay)
	since(&h.standing, n >= csimanager.Standing)
	if h.any.IsZero() {
		return due
	}
	due = h.any.Add(max(delay, patience))
	if soon := h.standing.Add(delay); !h.standing.IsZero() && soon.Before(due) {
		due = soon
	}
	return due
}

// rest waits until there may be something to report; false when ctx ended.
func (r *Reporter) rest(ctx context.Context, changed, marked, board <-chan struct{}, due time.Time) bool {
	var late <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-marked:
		r.catchUp()
	case <-late:
	case <-changed:
		return retry.Sleep(ctx, coalesce)
	case <-board:
	}
	return true
}

func (r *Reporter) connect(c *connection) {
	r.lock() <- struct{}{}
	defer r.unlock()
	r.open = c
}

// lock is what is filled by who makes a report.
func (r *Reporter) lock() chan<- struct{} {
	r.once.Do(func() { r.sends = make(chan struct{}, 1) })
	return r.sends
}

func (r *Reporter) unlock() { <-r.sends }

func (r *Reporter) catchUp() {
	r.lock() <- struct{}{}
	defer r.unlock()
	r.open.caughtUp = true
}

// report sends what is due until nothing is.
func (r *Reporter) report(ctx context.Context, all bool) error {
	r.lock() <- struct{}{}
	defer r.unlock()
	if known, err := r.known(ctx); known || err != nil {
		return err
	}
	for out := r.next(all); out != nil; out = r.next(false) {
		reply, err := r.Servers.SendInventory(ctx, out)
		if err != nil {
			return err
		}
		r.arrived(out, reply)
	}
	return nil
}

// known reports that the servers need no report now: one is due, but it would repeat what they have, and by its silence
// nothing ends. The caller holds the lock.
func (r *Reporter) known(ctx context.Context) (bool, error) {
	c := r.open
	at := r.Servers.Seen() // before the entries, as in a report
	if r.last.index == 0 || r.last.mark != at.Mark || !c.full && !c.silence(at) {
		return false, nil
	}
	entries, unknown, ok := r.Keeper.Repeat()
	if !ok {
		return false, nil
	}
	digest, err := wire.InventoryDigestOf(entries, unknown)
	if err != nil {
		return false, err
	}
	known, err := r.Servers.InventoryKnown(ctx, &wire.InventoryDigest{At: at, Prev: r.last.index, Digest: digest})
	switch {
	case fault.Has(err, fault.Unsupported): // the servers are older
		return false, nil
	case err != nil || !known:
		return false, err
	}
	c.full, c.caughtUp = false, false
	c.mark, c.reported = at.Mark, at.Index
	return true, nil
}

// silence reports whether the node has to say that it has caught up: by its silence claims end that are newer than what
// it had seen.
func (c *connection) silence(at lineage.Point) bool { return c.caughtUp && at.Index > c.reported }

// next takes the report that is due; with all, whatever is new is. The caller holds the lock.
func (r *Reporter) next(all bool) *wire.InventoryReport {
	c := r.open
	at := r.Servers.Seen() // before the entries: they may be newer than it, never older
	if at.Mark != c.mark {
		c.full, c.mark = true, at.Mark // another leadership asks anew what there is
	}
	silence := c.silence(at)
	c.caughtUp = false
	pressing := r.Keeper.News() == csimanager.Pressing
	if hurry := r.hurry.Swap(false); !all && !hurry && !c.full && !silence && !pressing {
		return nil
	}
	entries, unknown, due := r.Keeper.Report(c.full)
	if !c.full && !due && !silence && len(entries) == 0 {
		return nil
	}
	return &wire.InventoryReport{
		Full:    c.full,
		At:      at,
		Prev:    r.last.index,
		Entries: entries,
		Unknown: unknown,
	}
}

// arrived takes the answer to a report; without one it is not known what became of it. The caller holds the lock.
func (r *Reporter) arrived(out *wire.InventoryReport, reply *wire.InventoryReply) {
	c := r.open
	if c == nil {
		return // the next connection begins with everything
	}
	if reply == nil || reply.Stale {
		c.full = true
		if reply != nil {
			r.last.index = reply.Head
		}
		return
	}
	r.last = head{index: reply.Head, mark: out.At.Mark}
	c.full, c.reported = false, out.At.Index
	r.Keeper.Answered(out.Entries, reply)
}

// boarding is how long a report of allocs waits for one of volumes that is under way: far longer than servers take that
// are well, so that what is new shares an entry of their log.
const boarding = time.Second

// Board implements allocs.Inventory: what is new rides with a report of allocs. Another report that is under way is
// waited for, for a while; what is new then is sent right after it.
func (r *Reporter) Board() (*wire.InventoryReport, func(*wire.InventoryReply)) {
	late := time.NewTimer(boarding)
	defer late.Stop()
	select {
	case r.lock() <- struct{}{}:
	case <-late.C:
		r.hurry.Store(true)
		return nil, nil
	}
	var out *wire.InventoryReport
	if r.open != nil {
		out = r.next(true)
	}
	if out == nil {
		r.unlock()
		return nil, nil
	}
	return out, func(reply *wire.InventoryReply) {
		r.arrived(out, reply)
		r.unlock()
		r.board.Notify() // what came up meanwhile has found a report under way
	}
}

// coalesce is how long a burst of steps is gathered into one report; far below what a person notices.
const coalesce = 2 * time.Millisecond
