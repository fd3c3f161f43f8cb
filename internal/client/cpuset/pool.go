// Package cpuset owns which allocs of the node have cores for themselves, and with that on which ones all other tasks
// run. The hook of an alloc asks for its cores; the launcher keeps the rest away from them. Package client wires it.
package cpuset

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/model/alloc"
	"berth/internal/model/cores"
)

// Shared is where the tasks of a node run that have no cores of their own.
type Shared struct {
	Cores string // as the kernel lists them; empty: wherever they like
	All   string // those of the node that tasks may use at all
	// Own are the lists of the tasks that have cores of their own, by alloc: they are left alone.
	Own map[ids.Alloc][]string
}

// Config of a Pool.
type Config struct {
	// Cores are those of the node, and the numbers of those that are kept back.
	Cores func() (all []cores.Core, kept []uint16)
	// Confine holds all tasks of the node to what is shared, those too that will be started; nil: nothing is started.
	Confine func(Shared) error
	Log     *slog.Logger
}

// Pool is safe for concurrent use.
type Pool struct {
	cfg  Config
	mu   sync.Mutex
	held map[ids.Alloc]map[string][]uint16
	free chan struct{} // closed when cores have become free
}

// New returns a pool of which nobody has anything.
func New(cfg Config) *Pool {
	return &Pool{cfg: cfg, held: map[ids.Alloc]map[string][]uint16{}, free: make(chan struct{})}
}

// Begin keeps tasks away from the cores that are kept back.
func (p *Pool) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, kept := p.cfg.Cores(); len(kept) > 0 {
		if err := p.confine(); err != nil {
			p.cfg.Log.Warn("tasks may run on cores that are kept back", logkey.Error, err)
		}
	}
}

// Hold gives an alloc the cores that it was placed with. It waits for an earlier alloc whose processes still use one of
// them, and says so. When it has returned, no other task of the node runs there. It may be repeated.
func (p *Pool) Hold(ctx context.Context, a *alloc.Alloc, say func(string)) error {
	want := coresOf(a)
	if len(want) == 0 {
		return nil
	}
	for {
		holder, free, err := p.take(a.ID, want)
		if holder == "" {
			return err
		}
		say(fmt.Sprintf("cores: %s, until allocation %s has ended, which still runs on one of them",
			cores.Format(flat(want)), ids.Short(string(holder))))
		select {
		case <-free:
		case <-ctx.Done():
			return fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), "wait for", "cores "+cores.Format(flat(want)))
		}
	}
}

// take takes the cores, or says who has one of them and what is closed when some become free.
func (p *Pool) take(id ids.Alloc, want map[string][]uint16) (holder ids.Alloc, free <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := flat(want)
	for other, held := range p.held {
		if other == id {
			continue
		}
		for _, core := range flat(held) {
			if slices.Contains(mine, core) {
				return other, p.free, nil
			}
		}
	}
	p.held[id] = want
	if err := p.confine(); err != nil {
		return "", nil, fault.Note(err, "keep other tasks off", "cores "+cores.Format(mine))
	}
	return "", nil, nil
}

// Release gives the cores of an alloc back to all, once its processes are gone.
func (p *Pool) Release(id ids.Alloc) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[id] == nil {
		return nil
	}
	delete(p.held, id)
	close(p.free)
	p.free = make(chan struct{})
	return p.confine()
}

// confine tells the launcher what is shared now. The caller holds the lock.
func (p *Pool) confine() error {
	if p.cfg.Confine == nil {
		return nil
	}
	all, kept := p.cfg.Cores()
	s := Shared{All: cores.Format(cores.Without(all, kept)), Own: map[ids.Alloc][]string{}}
	taken := slices.Clone(kept)
	for id, tasks := range p.held {
		for _, ids := range tasks {
			s.Own[id] = append(s.Own[id], cores.Format(ids))
		}
		taken = append(taken, flat(tasks)...)
	}
	if len(taken) > 0 {
		s.Cores = cores.Format(cores.Without(all, taken))
	}
	return p.cfg.Confine(s)
}

func coresOf(a *alloc.Alloc) map[string][]uint16 {
	out := map[string][]uint16{}
	for name, t := range a.Resources.Tasks {
		if len(t.Cores) > 0 {
			out[name] = t.Cores
		}
	}
	return out
}

func flat(tasks map[string][]uint16) []uint16 {
	var out []uint16
	for _, ids := range tasks {
		out = append(out, ids...)
	}
	return out
}
