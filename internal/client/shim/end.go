package shim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/port/driver"
	"berth/internal/shimproto"
)

// endLimit bounds one try to end a shim, so that what does not end is reported.
const endLimit = 30 * time.Second

// atOnce is how many shims are looked at, or ended, at the same time.
const atOnce = 8

// End ends an alloc's shim and all it holds, and returns when its cgroup is empty: the last step before an alloc's
// storage is released. It is no error when nothing is left; a nil Launcher has launched nothing.
func (l *Launcher) End(ctx context.Context, id ids.Alloc) error {
	if l == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	return fault.Note(l.end(limited, string(id)), "end", "the processes of alloc "+ids.Short(id))
}

// EndAll ends every shim of this launcher's directory, whosever it is, and waits for them. A nil Launcher has none.
func (l *Launcher) EndAll(ctx context.Context) error {
	if l == nil {
		return nil
	}
	stems, err := l.stems()
	if err != nil {
		return err
	}
	return each(ctx, stems, func(ctx context.Context, stem string) error { return l.End(ctx, ids.Alloc(stem)) })
}

// each runs a step for every element, some at a time, and returns what failed.
func each[T any](ctx context.Context, all []T, step func(context.Context, T) error) error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, atOnce)
	g, gctx := lifecycle.NewGroup(ctx)
	for i, v := range all {
		slots <- struct{}{}
		g.Go("shims", func() error {
			defer func() { <-slots }()
			errs[i] = step(gctx, v)
			return nil
		})
	}
	return errors.Join(append(errs, g.Wait())...)
}

// end kills all that an alloc's shim holds or starts, and has the shim end.
func (l *Launcher) end(ctx context.Context, alloc string) error {
	unlock, err := l.lock(ctx, alloc)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := l.reach(ctx, alloc)
	if errors.Is(err, errGone) {
		return l.sweep(ctx, alloc)
	}
	if err != nil {
		return err
	}
	defer c.close()
	if c.legacy() {
		return l.killLegacy(ctx, alloc, c)
	}
	var held shimproto.List
	if err := c.ask(ctx, shimproto.TypeList, nil, &held); err != nil && !errors.Is(err, errGone) {
		return err
	}
	for _, e := range held.Entries {
		if err := l.killHeld(ctx, alloc, e.Named); err != nil {
			return err
		}
	}
	_, err = l.sayBye(ctx, alloc)
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	// A shim that still undoes a start ends after that.
	if err := waitDead(ctx, c.hello.PID, c.hello.Start); err != nil {
		return err
	}
	return l.sweep(ctx, alloc)
}

// Abort implements driver.Launcher.
func (l *Launcher) Abort(ctx context.Context, id ids.Alloc, task string, attempt int) error {
	_, err := l.stop(ctx, string(id), &shimproto.Kill{Named: named(task, attempt)})
	switch {
	case errors.Is(err, errGone):
		err = l.bye(ctx, string(id)) // what a dead shim left is ended with it
	case fault.Has(err, fault.NotFound):
		err = nil
	}
	return fault.Note(err, "abort", "process "+strconv.Quote(driver.ProcessName(task, attempt)))
}

// killHeld kills what a shim says to hold. That it is gone meanwhile, or the whole shim, is what was wanted.
func (l *Launcher) killHeld(ctx context.Context, alloc string, n shimproto.Named) error {
	_, err := l.stop(ctx, alloc, &shimproto.Kill{Named: n})
	if fault.Has(err, fault.NotFound) || errors.Is(err, errGone) {
		return nil
	}
	return err
}

// stop ends one attempt, returns how it ended, and has the shim forget it.
func (l *Launcher) stop(ctx context.Context, alloc string, m *shimproto.Kill) (*shimproto.Exit, error) {
	c, err := l.reach(ctx, alloc)
	if err != nil {
		return nil, err
	}
	defer c.close()
	exit := &shimproto.Exit{}
	err = c.ask(ctx, shimproto.TypeKill, m, exit)
	if err != nil && c.legacy() {
		known, ok := l.legacyEnd(ctx, alloc, m.Named, err)
		if !ok {
			return nil, err
		}
		exit, err = known, nil
	}
	if err != nil {
		return nil, err
	}
	err = ask(ctx, l.socket(alloc), shimproto.TypeForget, &m.Named, &shimproto.Forgotten{})
	if fault.Has(err, fault.NotFound) || errors.Is(err, errGone) || c.legacy() {
		err = nil // it is forgotten, or its shim never will: that one is killed with its alloc
	}
	return exit, err
}

// bye lets an alloc's shim end if it holds nothing any more, and removes what it leaves. A shim that still holds
// something remembers it.
func (l *Launcher) bye(ctx context.Context, alloc string) error {
	unlock, err := l.lock(ctx, alloc)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := l.sayBye(ctx, alloc)
	if errors.Is(err, errGone) {
		return l.sweep(ctx, alloc)
	}
	if err != nil || c == nil {
		return err
	}
	if err := waitDead(ctx, c.PID, c.Start); err != nil {
		return err
	}
	return l.sweep(ctx, alloc)
}

// sayBye asks an alloc's shim to end as soon as it holds nothing, and returns it if that is now.
func (l *Launcher) sayBye(ctx context.Context, alloc string) (ends *shimproto.HelloReply, err error) {
	c, err := l.reach(ctx, alloc)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var last shimproto.Forgotten
	err = c.ask(ctx, shimproto.TypeBye, nil, &last)
	switch {
	case errors.Is(err, errGone): // it ended before it could answer
	case err != nil:
		return nil, err
	case !last.Last:
		return nil, nil
	}
	return &c.hello, nil
}
