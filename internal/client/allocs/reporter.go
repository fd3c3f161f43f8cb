package allocs

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/servers"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// reportBatch bounds how many allocs one call carries, and their tasks: with those of the last alloc, and events of
// each that are as long as they may be (alloc.Bound), they fit into a message.
const reportBatch = 500

// Inventory is what the node holds of volumes. What is new of it goes with the reports of allocs: that an alloc has
// ended, and that its volumes are released, is one step of the servers.
type Inventory interface {
	// Board takes the report that is to be sent, nil when there is none; arrived hears of the answer, nil for none.
	Board() (report *wire.InventoryReport, arrived func(*wire.InventoryReply))
}

// reporter reports to the servers how the allocs are: at once what somebody waits for, and with it all that is new;
// news for people alone (an event, another description) are held back for a while, so that they share a report. What an
// alloc does on its way is held back for longer: as long as it goes well, where it arrives supersedes it.
type reporter struct {
	table     *Table
	link      *servers.Link
	inventory Inventory // nil: the node has none
	delay     time.Duration
	patience  time.Duration
	log       *slog.Logger
	wake      lifecycle.Signal

	mu       sync.Mutex
	dirty    map[ids.Alloc]*news
	busy     bool
	hurry    bool                       // nothing is held back any more
	reported map[ids.Alloc]*alloc.Alloc // what the servers have acknowledged
}

// news are changes of an alloc that the servers have not heard of.
type news struct {
	since    time.Time
	standing time.Time // since when it has been more than an alloc on its way; zero: it is not
	looked   bool      // pressing and standing are of the newest change
	pressing bool      // somebody waits for it
	anew     bool      // it is reported though the servers have acknowledged the same
}

// due is when they are reported at the latest.
func (n *news) due(delay, patience time.Duration) time.Time {
	at := n.since.Add(max(delay, patience))
	if soon := n.standing.Add(delay); !n.standing.IsZero() && soon.Before(at) {
		at = soon
	}
	return at
}

func newReporter(cfg Config) *reporter {
	return &reporter{
		table:     cfg.Holdings.Table,
		link:      cfg.Link,
		inventory: cfg.Inventory,
		delay:     cfg.ReportDelay,
		patience:  cfg.ReportPatience,
		log:       cfg.Log,
		dirty:     map[ids.Alloc]*news{},
		reported:  map[ids.Alloc]*alloc.Alloc{},
	}
}

// mark says that an alloc changed.
func (p *reporter) mark(id ids.Alloc) {
	p.mu.Lock()
	p.soil(id)
	p.mu.Unlock()
	p.wake.Notify()
}

// markAnew says that an alloc is to be reported though nothing of it changed.
func (p *reporter) markAnew(id ids.Alloc) {
	p.mu.Lock()
	p.soil(id)
	p.dirty[id].anew = true
	p.mu.Unlock()
	p.wake.Notify()
}

// soil notes a change. The caller holds the lock.
func (p *reporter) soil(id ids.Alloc) {
	n := p.dirty[id]
	if n == nil {
		n = &news{since: time.Now()}
		p.dirty[id] = n
	}
	n.looked = n.pressing // what presses once goes on to
}

// acknowledged reports whether the servers know that the alloc has ended.
func (p *reporter) acknowledged(id ids.Alloc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.reported[id]
	return last != nil && last.ProcessesGone()
}

func (p *reporter) forget(id ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dirty, id)
	delete(p.reported, id)
}

func (p *reporter) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dirty) == 0 && !p.busy
}

// flushTimeout bounds how long a stopping agent tries to report how its allocs ended; else it is done after a restart.
const flushTimeout = 2 * time.Second

// drain waits until everything is reported, the end of every alloc that is released included, or for flushTimeout. That
// an alloc is released is visible before it is marked, so that nothing to report does not mean that all was reported.
func (p *reporter) drain(ctx context.Context) {
	dctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	p.mu.Lock()
	p.hurry = true
	p.mu.Unlock()
	p.wake.Notify()
	for {
		changed := p.wake.C()
		if p.idle() && p.endsReported() {
			return
		}
		select {
		case <-dctx.Done():
			return
		case <-changed:
		}
	}
}

func (p *reporter) endsReported() bool {
	for _, r := range p.table.Runners() {
		if r.Released() && !p.acknowledged(r.ID()) {
			return false
		}
	}
	return true
}

func (p *reporter) run(ctx context.Context) error {
	failures := 0
	for p.link.AwaitRegistered(ctx) {
		changed := p.wake.C()
		batch, pause := p.take(time.Now())
		if len(batch) == 0 {
			if !rest(ctx, changed, pause) {
				return nil
			}
			continue
		}
		if err := p.send(ctx, batch); err != nil {
			p.giveBack(batch)
			if ctx.Err() != nil {
				return nil
			}
			p.link.Failed("report how allocations are", err)
			failures++
			if !servers.Pause.Sleep(ctx, failures) {
				return nil
			}
			continue
		}
		failures = 0
	}
	return nil
}

// rest waits for a change, or for a pause if there is one; false when ctx ended.
func rest(ctx context.Context, changed <-chan struct{}, pause time.Duration) bool {
	var late <-chan time.Time
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-late:
	}
	return true
}

// take returns what is to be reported now: everything as soon as something presses or was held back for long enough,
// what presses first. Else it returns for how long there is nothing to do; 0: until the next change.
func (p *reporter) take(now time.Time) (batch []ids.Alloc, pause time.Duration) {
	dropped := p.look(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	wasBusy := p.busy || dropped
	p.busy = false
	var first time.Time
	due := p.hurry
	for id, n := range p.dirty {
		batch = append(batch, id)
		due = due || n.pressing
		if at := n.due(p.delay, p.patience); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if left := first.Sub(now); !due && len(batch) > 0 && left > 0 {
		batch, pause = nil, left
	}
	slices.SortFunc(batch, func(a, b ids.Alloc) int {
		if x, y := p.dirty[a].pressing, p.dirty[b].pressing; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Compare(a, b)
	})
	if len(batch) > reportBatch {
		batch = batch[:reportBatch]
	}
	for _, id := range batch {
		delete(p.dirty, id)
	}
	p.busy = len(batch) > 0
	if wasBusy && !p.busy {
		p.wake.Notify() // whoever waits until all is reported; only once, because the loop itself hears it too
	}
	return batch, pause
}

// look finds out which of the new changes press, and which are of an alloc on its way, and drops those that left the
// alloc as it was reported. What was looked at is not looked at again: a burst of changes of many allocs costs one look
// for each.
func (p *reporter) look(now time.Time) (dropped bool) {
	p.mu.Lock()
	var fresh []ids.Alloc
	for id, n := range p.dirty {
		if !n.looked {
			n.looked = true
			fresh = append(fresh, id)
		}
	}
	p.mu.Unlock()
	for _, id := range fresh {
		r := p.table.Runner(id)
		if r == nil {
			continue
		}
		report, stopping := r.Report(), r.Stopping()
		p.mu.Lock()
		switch n := p.dirty[id]; {
		case n == nil:
		case n.looked && !n.pressing && !n.anew && reflect.DeepEqual(p.reported[id], report):
			delete(p.dirty, id) // no change came since it was looked at
			dropped = true
		default:
			if alloc.Presses(p.reported[id], report, stopping) {
				n.pressing, n.looked = true, true
			}
			if report.OnItsWay(stopping) {
				n.standing = time.Time{}
			} else if n.standing.IsZero() {
				n.standing = now
			}
		}
		p.mu.Unlock()
	}
	return dropped
}

func (p *reporter) giveBack(batch []ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range batch {
		p.soil(id)
		p.dirty[id].anew = true // it is not known what the servers have taken over
	}
}

// reports are those of a batch that go into one call; the others are given back.
func (p *reporter) reports(batch []ids.Alloc) (all []*alloc.Alloc) {
	tasks := 0
	for i, id := range batch {
		if tasks >= reportBatch {
			p.giveBack(batch[i:])
			break
		}
		if r := p.table.Runner(id); r != nil {
			all = append(all, r.Report())
			tasks += len(all[len(all)-1].TaskStates)
		}
	}
	return all
}

func (p *reporter) send(ctx context.Context, batch []ids.Alloc) error {
	req := &wire.NodeUpdateRequest{NodeIdentity: p.link.Identity(), Allocs: p.reports(batch)}
	if len(req.Allocs) == 0 {
		return nil
	}
	arrived := func(*wire.InventoryReply) {}
	if p.inventory != nil { // after the reports: what is released then may be said here, never the other way round
		if report, tell := p.inventory.Board(); report != nil {
			req.Inventory, arrived = report, tell
		}
	}
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	reply, err := wire.NodeUpdate.Call(cctx, p.link.Conn(), req)
	if err != nil {
		arrived(nil)
		return err
	}
	arrived(reply.Inventory)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range req.Allocs {
		was := p.reported[a.ID]
		if was == nil || was.ClientStatus != a.ClientStatus || was.ProcessesGone() != a.ProcessesGone() {
			p.log.Debug("allocation acknowledged", logkey.Alloc, a.ID, "is", a.ClientStatus, "over", a.ProcessesGone())
		}
		p.reported[a.ID] = a
	}
	return nil
}
