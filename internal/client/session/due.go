package session

import (
	"context"
	"sync"

	"berth/internal/base/lifecycle"
)

// due says when the node is to be registered: when somebody asks for it, and whenever its description changed.
type due struct {
	again lifecycle.Signal

	mu    sync.Mutex
	asked bool
}

// described is what a registration sends.
type described interface {
	// Changed returns a channel that is closed when the description is another than at the call.
	Changed() <-chan struct{}
}

// ask asks for a registration as soon as possible.
func (d *due) ask() {
	d.mu.Lock()
	d.asked = true
	d.mu.Unlock()
	d.again.Notify()
}

func (d *due) take() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = false
	return asked
}

// keep registers whenever it is due, until ctx ends. Changes are gathered only while a call is under way.
func (d *due) keep(ctx context.Context, host described, register func(context.Context) error) error {
	changed := host.Changed()
	for failures := 0; ; {
		again := d.again.C()
		if d.take() {
			changed = host.Changed() // kept until the next registration: it tells of all that this one does not send
			err := register(ctx)
			if err == nil {
				failures = 0
				continue
			}
			d.ask()
			failures++
			if !pause(ctx, failures, err) {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			d.ask()
		case <-again:
		}
	}
}
