// Package sources owns what is said of what the templates of this node's tasks read. It asks the servers for all tasks
// in one call, which blocks until something is another thing, has Consul asked for what is Consul's, and has those
// tasks looked at again of which something is another thing. Only the client's composition makes it; hooks see what
// they need of it.
package sources

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/base/retry"
	"berth/internal/wire"
)

// wait is how long a call blocks while nothing changes.
const wait = 5 * time.Minute

// again paces calls while the servers cannot be asked.
var again = retry.Backoff{Min: 500 * time.Millisecond, Max: 15 * time.Second}

// Task names a task.
type Task struct {
	Alloc ids.Alloc
	Name  string
}

// Ask makes the call.
type Ask func(ctx context.Context, tasks []wire.TaskSources, wait time.Duration) ([]wire.SourcesAnswer, error)

// Consul asks Consul, and has the keeper told what it hears by Tell and Refuse. It calls neither from Want or Forget.
type Consul interface {
	// Want has it asked for more that a task reads, and Forget for nothing of it any more.
	Want(t Task, more []render.Source)
	Forget(t Task)
	Run(ctx context.Context) error
}

// Keeper keeps what the servers say, and Consul.
type Keeper struct {
	ask    Ask
	consul Consul // nil: the node has none
	log    *slog.Logger
	loop   *reconcile.Loop[Task]

	mu     sync.Mutex
	tasks  map[Task]*reads
	moved  chan struct{} // closed when what is to be asked changes
	cancel context.CancelFunc
}

// reads are what a task reads.
type reads struct {
	sources []render.Source
	answer  *wire.SourcesAnswer // to the first len(answer.Values) of them; nil: none yet
	consul  map[render.Source]word
	heard   chan struct{} // closed with the next answer
	refresh func(context.Context) error
	hidden  redact.Map // what is wrong is said without them
}

// word is what Consul has said of a source.
type word struct {
	text string
	why  string // it is not said; empty: it is
}

// UseConsul has Consul asked for what is Consul's. It is called before Run, if the node has one.
func (k *Keeper) UseConsul(c Consul) { k.consul = c }

// New returns a keeper. It starts nothing.
func New(ask Ask, log *slog.Logger) *Keeper {
	k := &Keeper{ask: ask, log: log, tasks: map[Task]*reads{}, moved: make(chan struct{})}
	k.loop = reconcile.New(reconcile.Config{Name: "templates", Parallel: 64, Log: log}, k.look)
	return k
}

// look has a task look at what was said of what it reads.
func (k *Keeper) look(ctx context.Context, t Task) (reconcile.Result, error) {
	k.mu.Lock()
	var refresh func(context.Context) error
	if r := k.tasks[t]; r != nil {
		refresh = r.refresh
	}
	k.mu.Unlock()
	if refresh == nil {
		return reconcile.Done(), nil
	}
	return reconcile.Done(), refresh(ctx)
}

// of is what is known of a task. The caller holds the lock.
func (k *Keeper) of(t Task) *reads {
	r := k.tasks[t]
	if r == nil {
		r = &reads{heard: make(chan struct{})}
		k.tasks[t] = r
	}
	return r
}

// Known is what was said of what a task reads, and a channel that is closed when something else is.
func (k *Keeper) Known(t Task) (render.Known, <-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(t)
	known, err := r.known()
	if err != nil && len(r.hidden) > 0 {
		err = fault.New(fault.KindOf(err), "", "", r.hidden.Scrub(err.Error()))
	}
	return known, r.heard, err
}

// Hide keeps values out of what Known says is wrong: names of what a task reads were made of them, and stand in it.
func (k *Keeper) Hide(t Task, values redact.Map) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(t)
	for _, v := range values {
		if slices.ContainsFunc(slices.Collect(maps.Values(r.hidden)), v.Equal) {
			continue
		}
		if r.hidden == nil {
			r.hidden = redact.Map{}
		}
		r.hidden[strconv.Itoa(len(r.hidden))] = v
	}
}

func (r *reads) known() (render.Known, error) {
	out := render.Known{}
	var refused error
	why := ""
	for s, one := range r.consul {
		if one.why == "" {
			out[s] = one.text
		} else if why == "" || one.why < why { // of several always the same
			why = one.why
		}
	}
	if why != "" {
		refused = fault.New(fault.NotReady, "", "", why)
	}
	if r.answer == nil {
		return out, refused
	}
	if r.answer.Refused != "" {
		kind := fault.NotReady
		if r.answer.Final {
			kind = fault.Denied
		}
		return out, fault.New(kind, "", "", r.answer.Refused)
	}
	for i, v := range r.answer.Values {
		out[r.sources[i]] = v.Values[wire.SourceText]
	}
	return out, refused
}

// Want has the servers asked for more that a task reads, and Consul.
func (k *Keeper) Want(t Task, more []render.Source) {
	ofServers := slices.DeleteFunc(slices.Clone(more), render.Source.OfConsul)
	ofConsul := slices.DeleteFunc(slices.Clone(more), func(s render.Source) bool { return !s.OfConsul() })
	switch {
	case len(ofConsul) == 0:
	case k.consul != nil:
		k.consul.Want(t, ofConsul)
	default:
		k.Refuse(t, ofConsul[0], fault.WithHint(
			fault.New(fault.NotReady, "read", ofConsul[0].String(), "the node's agent speaks to no Consul"),
			"write consul {} in the agent's configuration"))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(t)
	added := false
	for _, s := range ofServers {
		if !slices.Contains(r.sources, s) {
			r.sources = append(r.sources, s)
			added = true
		}
	}
	if added {
		k.move()
	}
}

// move has the next call ask for something else. The caller holds the lock.
func (k *Keeper) move() {
	close(k.moved)
	k.moved = make(chan struct{})
	if k.cancel != nil {
		k.cancel()
	}
}

// Tell says what a source of Consul is.
func (k *Keeper) Tell(t Task, s render.Source, text string) { k.hear(t, s, word{text: text}) }

// Refuse says why it is not said what a source of Consul is; what was said before is forgotten.
func (k *Keeper) Refuse(t Task, s render.Source, why error) { k.hear(t, s, word{why: why.Error()}) }

func (k *Keeper) hear(t Task, s render.Source, what word) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(t)
	if r.consul == nil {
		r.consul = map[render.Source]word{}
	}
	if what.why != "" && r.consul[s] == what {
		return
	}
	r.consul[s] = what
	k.news(t, r)
}

// news has a task look at what was said. The caller holds the lock.
func (k *Keeper) news(t Task, r *reads) {
	close(r.heard)
	r.heard = make(chan struct{})
	if r.refresh != nil {
		k.loop.Mark(t)
	}
}

// Follow has refresh called when something else is said of what a task reads, and once now; nil: nobody is.
func (k *Keeper) Follow(t Task, refresh func(context.Context) error) {
	k.mu.Lock()
	if refresh != nil || k.tasks[t] != nil {
		k.of(t).refresh = refresh
	}
	k.mu.Unlock()
	if refresh != nil {
		k.loop.Mark(t)
	}
}

// Forget ends that anybody is asked for a task.
func (k *Keeper) Forget(t Task) {
	if k.consul != nil {
		k.consul.Forget(t)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.tasks[t]; r != nil {
		delete(k.tasks, t)
		if len(r.sources) > 0 {
			k.move()
		}
	}
}

// Run asks until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("look", func() error { return k.loop.Run(gctx) })
	g.Go("ask", func() error { return k.follow(gctx) })
	if k.consul != nil {
		g.Go("ask Consul", func() error { return k.consul.Run(gctx) })
	}
	return g.Wait()
}

// follow makes one call after the other.
func (k *Keeper) follow(ctx context.Context) error {
	for failed := 0; ctx.Err() == nil; {
		call, asked, moved := k.next(ctx)
		if len(asked) == 0 {
			select {
			case <-ctx.Done():
			case <-moved:
			}
			continue
		}
		answers, err := k.ask(call, asked, wait)
		switch {
		case call.Err() != nil: // something else is to be asked
		case err != nil:
			failed++
			k.log.Debug("the servers cannot be asked for what templates read", logkey.Error, err)
			again.Sleep(call, failed)
		default:
			failed = 0
			k.take(asked, answers)
		}
	}
	return nil
}

// next is what to ask for, and the context in which that is still to be asked.
func (k *Keeper) next(ctx context.Context) (context.Context, []wire.TaskSources, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
	call, cancel := context.WithCancel(ctx)
	k.cancel = cancel
	var out []wire.TaskSources
	for t, r := range k.tasks {
		if len(r.sources) == 0 {
			continue
		}
		ask := wire.TaskSources{Alloc: t.Alloc, Task: t.Name, Sources: slices.Clone(r.sources)}
		if r.answer != nil && (r.answer.Refused != "" || len(r.answer.Values) == len(r.sources)) {
			ask.Seen = r.answer.Mark
		}
		out = append(out, ask)
	}
	return call, out, k.moved
}

// take takes over what the servers have said, and has those tasks look at it.
func (k *Keeper) take(asked []wire.TaskSources, answers []wire.SourcesAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range answers {
		a := &answers[i]
		t := Task{a.Alloc, a.Task}
		r := k.tasks[t]
		fits := slices.ContainsFunc(asked, func(q wire.TaskSources) bool {
			return q.Alloc == a.Alloc && q.Task == a.Task && (a.Refused != "" || len(q.Sources) == len(a.Values))
		})
		if r == nil || !fits {
			continue
		}
		r.answer = a
		k.news(t, r)
	}
}
