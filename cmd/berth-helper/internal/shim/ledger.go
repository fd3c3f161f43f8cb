package shim

import (
	"maps"
	"slices"
	"time"

	"berth/internal/shimproto"
)

// ledger is what a shim knows of the attempts of its tasks. It decides what a request may touch, and does nothing
// itself. Whoever uses it holds the shim's lock.
type ledger map[string]*record

// record is one task.
type record struct {
	newest int // highest attempt that was ever admitted
	// that start, run, or are not destroyed yet, by attempt; beside the newest only those that are torn down
	procs map[int]*process
	ends  []end // of the last attempts, oldest first
}

// end is how one attempt ended.
type end struct {
	attempt int
	exit    shimproto.Exit
	// entry describes the attempt until it is forgotten; then it is nil, and the shim need not live for it.
	entry *shimproto.Entry
}

// find returns what is known of an attempt: its process, or how it ended. Both are nil for an attempt that is not
// known.
func (l ledger) find(task string, attempt int) (*process, *shimproto.Ended) {
	r := l[task]
	if r == nil {
		return nil, nil
	}
	if p := r.procs[attempt]; p != nil {
		return p, nil
	}
	for i := range r.ends {
		if r.ends[i].attempt == attempt {
			return nil, &shimproto.Ended{Exit: r.ends[i].exit, Newest: r.newest}
		}
	}
	if attempt >= r.newest {
		return nil, nil // it failed to start, or was never heard of
	}
	return nil, &shimproto.Ended{Newest: r.newest, Exit: shimproto.Exit{Unknown: true, Ended: time.Now().UnixNano(),
		Err: "a later attempt has taken its place, and how it ended is not remembered"}}
}

// admit takes up a process that is to be started, unless its attempt is known. before are the processes of older
// attempts that must be gone before it starts.
func (l ledger) admit(p *process) (known *process, ended *shimproto.Ended, before []*process) {
	n := p.launch.Named
	if known, ended := l.find(n.Task, n.Attempt); known != nil || ended != nil {
		return known, ended, nil
	}
	r := l[n.Task]
	if r == nil {
		r = &record{procs: map[int]*process{}}
		l[n.Task] = r
	}
	for _, attempt := range slices.Sorted(maps.Keys(r.procs)) {
		before = append(before, r.procs[attempt]) // none is newer: then this attempt would be known to have ended
	}
	for i := range r.ends {
		r.ends[i].entry = nil // whoever starts the next attempt waits for no earlier end
	}
	r.newest = n.Attempt
	r.procs[n.Attempt] = p
	return nil, nil, before
}

// settle notes how a process ended of which nothing is left. waited says that somebody will ask for it, until it is
// forgotten; for a process that a later one has replaced nobody does.
func (l ledger) settle(p *process, exit shimproto.Exit, waited bool) {
	n := p.launch.Named
	r := l[n.Task]
	e := end{attempt: n.Attempt, exit: exit}
	if waited && n.Attempt == r.newest {
		entry := p.entry()
		entry.Ended = true
		e.entry = &entry
	}
	delete(r.procs, n.Attempt)
	at, _ := slices.BinarySearchFunc(r.ends, e, func(a, b end) int { return a.attempt - b.attempt })
	r.ends = slices.Insert(r.ends, at, e)
	if extra := len(r.ends) - shimproto.Kept; extra > 0 {
		r.ends = slices.Delete(r.ends, 0, extra)
	}
}

// drop removes a process that could not be started: the attempt may be launched again.
func (l ledger) drop(p *process) {
	delete(l[p.launch.Task].procs, p.launch.Attempt)
}

// forget says that the end of an attempt is not waited for any more.
func (l ledger) forget(task string, attempt int) {
	r := l[task]
	for i := 0; r != nil && i < len(r.ends); i++ {
		if e := &r.ends[i]; e.attempt == attempt {
			e.entry = nil
		}
	}
}

// empty reports whether there is neither a process nor an end that somebody waits for.
func (l ledger) empty() bool {
	for _, r := range l { // any order: all are looked at
		if len(r.procs) > 0 || slices.ContainsFunc(r.ends, func(e end) bool { return e.entry != nil }) {
			return false
		}
	}
	return true
}

// processes lists all processes, by task and attempt.
func (l ledger) processes() (out []*process) {
	for _, task := range slices.Sorted(maps.Keys(l)) {
		for _, attempt := range slices.Sorted(maps.Keys(l[task].procs)) {
			out = append(out, l[task].procs[attempt])
		}
	}
	return out
}

// list is the answer to TypeList.
func (l ledger) list() *shimproto.List {
	out := &shimproto.List{Empty: l.empty()}
	for _, p := range l.processes() {
		out.Entries = append(out.Entries, p.entry())
	}
	for _, task := range slices.Sorted(maps.Keys(l)) {
		for _, e := range l[task].ends {
			if e.entry != nil {
				out.Entries = append(out.Entries, *e.entry)
			}
			out.Ends = append(out.Ends, shimproto.End{Task: task, Attempt: e.attempt, Exit: e.exit})
		}
	}
	return out
}
