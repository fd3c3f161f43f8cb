package allocs

import (
	"context"
	"log/slog"
	"maps"
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

// reportBatch bounds how many allocs one call carries.
const reportBatch = 500

// reporter reports to the servers how the allocs are, at once; changes are gathered only while a call is under way.
type reporter struct {
	table *Table
	link  *servers.Link
	log   *slog.Logger
	wake  lifecycle.Signal

	mu    sync.Mutex
	dirty map[ids.Alloc]bool
	busy  bool
	// ended holds allocs whose complete or failed the servers have acknowledged.
	ended map[ids.Alloc]bool
}

func newReporter(t *Table, link *servers.Link, log *slog.Logger) *reporter {
	return &reporter{
		table: t,
		link:  link,
		log:   log,
		dirty: map[ids.Alloc]bool{},
		ended: map[ids.Alloc]bool{},
	}
}

// mark says that an alloc changed.
func (p *reporter) mark(id ids.Alloc) {
	p.mu.Lock()
	p.dirty[id] = true
	p.mu.Unlock()
	p.wake.Notify()
}

// acknowledged reports whether the servers know that the alloc has ended.
func (p *reporter) acknowledged(id ids.Alloc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[id]
}

func (p *reporter) forget(id ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dirty, id)
	delete(p.ended, id)
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
	for _, r := range p.table.runners() {
		if r.Released() && !p.acknowledged(r.ID()) {
			return false
		}
	}
	return true
}

func (p *reporter) run(ctx context.Context) error {
	if !p.link.AwaitRegistered(ctx) {
		return nil
	}
	failures := 0
	for {
		changed := p.wake.C()
		batch := p.take()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		if err := p.send(ctx, batch); err != nil {
			p.giveBack(batch)
			if ctx.Err() != nil {
				return nil
			}
			p.link.Unreachable("report how allocations are", err)
			failures++
			if !servers.Pause.Sleep(ctx, failures) {
				return nil
			}
			continue
		}
		failures = 0
	}
}

func (p *reporter) take() []ids.Alloc {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasBusy := p.busy
	batch := slices.Sorted(maps.Keys(p.dirty))
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
	return batch
}

func (p *reporter) giveBack(batch []ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range batch {
		p.dirty[id] = true
	}
}

func (p *reporter) send(ctx context.Context, batch []ids.Alloc) error {
	req := &wire.NodeUpdateRequest{NodeIdentity: p.link.Identity()}
	for _, id := range batch {
		if r := p.table.Runner(id); r != nil {
			req.Allocs = append(req.Allocs, r.Report())
		}
	}
	if len(req.Allocs) == 0 {
		return nil
	}
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	if _, err := wire.NodeUpdate.Call(cctx, p.link.Conn(), req); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range req.Allocs {
		if a.ClientStatus == alloc.ClientComplete || a.ClientStatus == alloc.ClientFailed {
			p.ended[a.ID] = true
			p.log.Debug("the end of an allocation is acknowledged", logkey.Alloc, a.ID)
		}
	}
	return nil
}
