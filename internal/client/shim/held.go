package shim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// Held is a shim and what it holds, or what a dead one left.
type Held struct {
	Alloc  ids.Alloc // for an alloc whose id is no UUID and whose shim does not answer: the hash that names its files
	Bundle []byte    // what the agent recorded of the alloc (Config.Bundle) when it launched last; nil: not known
	PID    int       // of the shim; 0 when it does not answer
	Tasks  []HeldTask
	Ends   []HeldEnd // of tasks of which it holds nothing any more
	// Cancelled: the shim says that it holds nothing and starts nothing: no task of it ever started, because its launch
	// was given up, or all have ended and were forgotten.
	Cancelled bool
	// Dead: nobody serves the socket. Populated: processes are left in its cgroup all the same.
	Dead, Populated bool
	// Err is why a shim that lives could not be asked.
	Err error
	// Since is when the keeper found an orphan first, as long as it runs.
	Since time.Time

	at   time.Time // when it was asked
	gone bool      // then no process of a task was left, for certain
}

// HeldTask is an attempt of a task that a shim holds.
type HeldTask struct {
	Task    string
	Attempt int
	PID     int
	Cgroup  string
	Ended   bool // its main process has ended; what that left behind may live
	// Handle finds the attempt again, as the record of its start would.
	Handle driver.ProcessHandle
}

// HeldEnd is how the last attempt of a task ended that a shim remembers.
type HeldEnd struct {
	Task    string
	Attempt int
	Exit    driver.ExitResult
}

// lookLimit bounds how long one shim is waited for. A frozen one must not hold up the others.
const lookLimit = 3 * time.Second

// Held lists every shim of this launcher's directory, by alloc.
func (l *Launcher) Held(ctx context.Context) ([]Held, error) {
	stems, err := l.stems()
	if err != nil {
		return nil, err
	}
	out := make([]Held, len(stems))
	index := make([]int, len(stems))
	for i := range index {
		index[i] = i
	}
	return out, each(ctx, index, func(ctx context.Context, i int) error {
		out[i] = l.look(ctx, stems[i])
		return ctx.Err()
	})
}

// Look asks the shim of one alloc what it holds. An alloc without a shim, or without a launcher, has a dead one.
func (l *Launcher) Look(ctx context.Context, id ids.Alloc) Held {
	if l == nil {
		return Held{Alloc: id, Dead: true}
	}
	return l.look(ctx, stem(string(id)))
}

// stems lists the allocs that have a socket in the directory, each by what names its files.
func (l *Launcher) stems() ([]string, error) {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "shim directory "+strconv.Quote(l.cfg.Dir))
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".sock"); ok && e.Type() == fs.ModeSocket {
			out = append(out, name)
		}
	}
	return out, nil
}

// look asks one shim what it holds.
func (l *Launcher) look(ctx context.Context, stem string) Held {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	h := Held{Alloc: ids.Alloc(stem), at: time.Now()}
	var m shimproto.List
	from := driver.ProcessHandle{Socket: l.socket(stem), Boot: bootID()}
	c, err := l.reach(limited, stem)
	if err == nil {
		defer c.close()
		h.PID = c.hello.PID
		from.ShimPID, from.ShimStart = c.hello.PID, c.hello.Start
		if c.hello.Alloc != "" {
			h.Alloc = ids.Alloc(c.hello.Alloc)
		}
		err = c.ask(limited, shimproto.TypeList, nil, &m)
	}
	if errors.Is(err, errGone) {
		h.Dead, h.Populated = true, l.populated(ids.Alloc(stem))
		return h
	}
	if err != nil {
		h.Err = err
		return h
	}
	// An old shim does not list what it starts; it refuses the good-bye then.
	h.Bundle, h.Cancelled = m.Bundle, m.Empty || c.legacy() && len(m.Entries) == 0
	h.take(&m, from)
	return h
}

// take notes what a shim lists; from is the handle of the shim alone.
func (h *Held) take(m *shimproto.List, from driver.ProcessHandle) {
	for _, e := range m.Entries {
		e.Complete()
		t := HeldTask{
			Task:    e.Task,
			Attempt: e.Attempt,
			PID:     e.PID,
			Cgroup:  e.Cgroup,
			Ended:   e.Ended,
			Handle:  from,
		}
		t.Handle.Name = e.Name
		t.Handle.Task, t.Handle.Attempt = e.Task, e.Attempt
		t.Handle.PID, t.Handle.Cgroup = e.PID, e.Cgroup
		h.Tasks = append(h.Tasks, t)
	}
	for _, e := range m.Ends {
		h.Ends = append(h.Ends, HeldEnd{Task: e.Task, Attempt: e.Attempt, Exit: exitResult(&e.Exit)})
	}
}

// populated reports whether any process, a shim's too, is in the cgroup of an alloc, or cannot be ruled out.
func (l *Launcher) populated(id ids.Alloc) bool {
	empty, err := l.tree.Alloc(l.cfg.Slice, string(id)).Empty()
	return err != nil || !empty
}

// over reports whether it is certain that no process of a task is left in a shim.
func (l *Launcher) over(h Held) bool {
	if h.Dead {
		return !h.Populated
	}
	return h.Err == nil && !slices.ContainsFunc(h.Tasks, func(t HeldTask) bool {
		g, err := l.tree.At(t.Cgroup)
		if err != nil {
			return true
		}
		empty, err := g.Empty()
		return !t.Ended || err != nil || !empty
	})
}
