package shim

import (
	"context"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/shimproto"
)

// Boottime reads the clock that leases and kill timeouts are counted in: time since the machine was booted, suspends
// included (CLOCK_BOOTTIME).
func Boottime() time.Duration { return time.Duration(shimproto.Boottime()) }

// Lease says until when, in Boottime, the tasks of an alloc may run without another renewal; 0 ends the lease: they run
// on. After a deadline that passed the shim kills all its tasks by itself, whether an agent is there or not, and
// starts none until a later deadline is set. A deadline only moves later. It is what self-fencing stands on: the
// agent hands on the lease that the servers gave it, counted from when it asked for it. fault.NotFound: the alloc has
// no shim; fault.Unsupported: its shim is of a version that knows no leases.
func (l *Launcher) Lease(ctx context.Context, id ids.Alloc, until time.Duration) error {
	subject := "the tasks of alloc " + ids.Short(id)
	c, err := l.reach(ctx, string(id))
	if err != nil {
		return fault.Wrap(err, goneKind(err), "give a lease to", subject)
	}
	defer c.close()
	if c.legacy() {
		return fault.New(fault.Unsupported, "give a lease to", subject,
			"their shim was started by an earlier version of Berth")
	}
	m := &shimproto.Lease{Deadline: int64(until), At: shimproto.Boottime()}
	err = c.ask(ctx, shimproto.TypeLease, m, &shimproto.Lease{})
	if err != nil {
		return fault.Wrap(err, goneKind(err), "give a lease to", subject)
	}
	return nil
}
