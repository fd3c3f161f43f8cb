package fsm

import (
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/port/raftlog"
	"berth/internal/server/state"
)

// FSM applies the log to the state. It stops for good at the first entry that it does not understand, because going on
// without it would make another state than that of the other servers.
type FSM struct {
	store   *state.Store
	halted  atomic.Pointer[error]
	stopped chan struct{}
	// OnPanic hears of commands that panicked. It must not block.
	OnPanic func(index uint64, name string, err *lifecycle.PanicError)
}

// New returns the machine over a store that only it writes.
func New(store *state.Store) *FSM { return &FSM{store: store, stopped: make(chan struct{})} }

// Halted returns why the machine has stopped applying, or nil.
func (f *FSM) Halted() error {
	if p := f.halted.Load(); p != nil {
		return *p
	}
	return nil
}

// Stopped is closed when the machine stops applying.
func (f *FSM) Stopped() <-chan struct{} { return f.stopped }

// ApplyBatch applies entries in order, each as a step of its own, and returns their results; an error is one. They
// become visible together. None is applied from the first that it does not understand on.
func (f *FSM) ApplyBatch(entries []raftlog.Entry) []any {
	out := make([]any, len(entries))
	steps := make([]state.Step, 0, len(entries))
	at := f.store.Snapshot().Stamp().Time
	halt := f.Halted()
	for i, e := range entries {
		if halt != nil {
			out[i] = halt
			continue
		}
		cmd, proposed, err := Decode(e.Data)
		if err != nil {
			halt = fault.Note(err, "apply", fmt.Sprintf("log entry %d", e.Index))
			out[i] = halt
			continue
		}
		if proposed.After(at) { // leaders' clocks differ: the state's time never runs backwards
			at = proposed
		}
		steps = append(steps, f.step(e, cmd, Stamp{Index: e.Index, Time: at}, &out[i]))
	}
	for i, err := range f.store.Batch(steps) {
		if err != nil {
			out[i] = err
		}
	}
	if halt != nil && f.halted.CompareAndSwap(nil, &halt) {
		close(f.stopped)
	}
	return out
}

// step is the application of one command. When it is done again it is read anew: a command may have changed itself.
func (f *FSM) step(e raftlog.Entry, cmd Command, st Stamp, result *any) state.Step {
	fresh := cmd
	k, _ := KindOf(cmd)
	return state.Step{Stamp: st, Name: k.Name, Size: len(e.Data), Do: func(tx *state.Tx) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = f.panicked(e.Index, cmd, v)
			}
		}()
		c := fresh
		fresh = nil
		if c == nil {
			if c, _, err = Decode(e.Data); err != nil {
				return err
			}
		}
		*result, err = c.Apply(tx, st)
		return err
	}}
}

// panicked refuses a command that panics: nothing of it is in the state, as on every other server, which applies the
// same to the same. Were it to end the server, it would at each start, and on all of them. Whoever mends the command
// must not have its effect on some servers only: OnPanic has the state saved, so that the entry is not replayed.
func (f *FSM) panicked(index uint64, cmd Command, v any) error {
	k, _ := KindOf(cmd) // it was decoded by its kind
	if f.OnPanic != nil {
		f.OnPanic(index, k.Name, &lifecycle.PanicError{Value: v, Stack: debug.Stack()})
	}
	return fault.New(fault.Internal, "apply", fmt.Sprintf("log entry %d, %s", index, k.Name), fmt.Sprint("panic: ", v))
}

// Snapshot freezes the state and returns what writes it. A halted machine has none: it would hide what it skipped.
func (f *FSM) Snapshot() (func(io.Writer) error, error) {
	if err := f.Halted(); err != nil {
		return nil, err
	}
	return f.store.Snapshot().Persist, nil
}

// Restore replaces the state.
func (f *FSM) Restore(r io.Reader) error { return f.store.Restore(r) }
