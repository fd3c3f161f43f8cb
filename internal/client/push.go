package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// pushBatch bounds how many allocs one call carries.
const pushBatch = 500

// pusher tells the servers how the allocs are, at once; changes are gathered only while a call is under way.
type pusher struct {
	c    *Client
	wake lifecycle.Signal

	mu    sync.Mutex
	dirty map[ids.Alloc]bool
	busy  bool
	// ended holds allocs whose complete or failed the servers have acknowledged.
	ended map[ids.Alloc]bool
}

func newPusher(c *Client) *pusher {
	return &pusher{c: c, dirty: map[ids.Alloc]bool{}, ended: map[ids.Alloc]bool{}}
}

// mark says that an alloc changed.
func (p *pusher) mark(id ids.Alloc) {
	p.mu.Lock()
	p.dirty[id] = true
	p.mu.Unlock()
	p.wake.Notify()
}

// everything marks every alloc: a new session begins with the whole truth.
func (p *pusher) everything() {
	for _, r := range p.c.allocs.runners() {
		p.mark(r.ID())
	}
}

// acknowledged reports whether the servers know that the alloc has ended.
func (p *pusher) acknowledged(id ids.Alloc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[id]
}

func (p *pusher) forget(id ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dirty, id)
	delete(p.ended, id)
}

func (p *pusher) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dirty) == 0 && !p.busy
}

// lastWord bounds how long a stopping agent tries to tell the servers how its allocs ended; the next life tells them else.
const lastWord = 2 * time.Second

// drain waits until everything is told, or for lastWord.
func (p *pusher) drain(ctx context.Context) {
	dctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	for {
		changed := p.wake.C()
		if p.idle() {
			return
		}
		select {
		case <-dctx.Done():
			return
		case <-changed:
		}
	}
}

func (p *pusher) run(ctx context.Context) error {
	if !p.c.session.awaitRegistered(ctx) {
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
			p.c.session.unreachable("tell how allocations are", err)
			if !sleep(ctx, failures) {
				return nil
			}
			failures++
			continue
		}
		failures = 0
	}
}

func (p *pusher) take() []ids.Alloc {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasBusy := p.busy
	batch := slices.Sorted(maps.Keys(p.dirty))
	if len(batch) > pushBatch {
		batch = batch[:pushBatch]
	}
	for _, id := range batch {
		delete(p.dirty, id)
	}
	p.busy = len(batch) > 0
	if wasBusy && !p.busy {
		p.wake.Notify() // whoever waits until all is told; only once, because the loop itself hears it too
	}
	return batch
}

func (p *pusher) giveBack(batch []ids.Alloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range batch {
		p.dirty[id] = true
	}
}

func (p *pusher) send(ctx context.Context, batch []ids.Alloc) error {
	req := &wire.NodeUpdateRequest{NodeIdentity: p.c.Identity()}
	for _, id := range batch {
		if r := p.c.allocs.runner(id); r != nil {
			req.Allocs = append(req.Allocs, r.Report())
		}
	}
	if len(req.Allocs) == 0 {
		return nil
	}
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := wire.NodeUpdate.Call(cctx, p.c.conn, req); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range req.Allocs {
		if a.ClientStatus == alloc.ClientComplete || a.ClientStatus == alloc.ClientFailed {
			p.ended[a.ID] = true
			p.c.log.Debug("the end of an allocation is acknowledged", logkey.Alloc, a.ID)
		}
	}
	return nil
}
