// Package lifecycle owns goroutines: it is the only place with a bare go statement. Everybody else starts work in a
// Group, which joins what it started. Long-lived things have a Run(ctx) error that returns when its children have.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group is a set of goroutines that live under one context and are joined together. The first error of a child
// cancels the others. A panic in a child becomes an error with its stack: one fault never takes the agent down.
type Group struct {
	cancel context.CancelCauseFunc
	done   <-chan struct{}
	ctxErr func() error

	mu     sync.Mutex
	idle   sync.Cond // active became zero
	active int       // children under way
	err    error
	closed bool
}

// NewGroup returns a group and the context that its children get. Cancelling parent ends them.
func NewGroup(parent context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	g := &Group{cancel: cancel, done: ctx.Done(), ctxErr: ctx.Err}
	g.idle.L = &g.mu
	return g, ctx
}

// Go starts fn in the group. A non-nil error that is not the end of the group's own context cancels the group. After
// Wait has returned Go does nothing and reports false.
func (g *Group) Go(name string, fn func() error) bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	g.active++
	g.mu.Unlock()
	go func() {
		defer g.leave()
		if err := guard(fn); err != nil && !(errors.Is(err, context.Canceled) && g.ctxErr() != nil) {
			g.fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
	return true
}

func (g *Group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active--; g.active == 0 {
		g.idle.Broadcast()
	}
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.mu.Unlock()
	g.cancel(err)
}

// Stop cancels the children; it does not wait.
func (g *Group) Stop() { g.cancel(nil) }

// Wait joins every child, those that are started meanwhile too, then closes the group, and returns the first error.
func (g *Group) Wait() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.active > 0 {
		g.idle.Wait()
	}
	g.closed = true
	g.cancel(nil)
	return g.err
}

// Done is closed when the group's context ends.
func (g *Group) Done() <-chan struct{} { return g.done }

// PanicError is what a panic in a child of a group becomes.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// Runner is anything long-lived.
type Runner interface {
	Run(ctx context.Context) error
}

// RunAll runs the given functions under one context and returns when all have returned; the first error cancels the
// rest. Names appear in errors.
func RunAll(ctx context.Context, runs map[string]func(context.Context) error) error {
	g, gctx := NewGroup(ctx)
	for name, run := range runs {
		g.Go(name, func() error { return run(gctx) })
	}
	return g.Wait()
}

// Isolated runs fn so that its failure is handed to onErr instead of ending its siblings: the rule for loops over
// independent objects (a fault of one object never stops an agent). The name appears when fn panics.
func Isolated(name string, fn func() error, onErr func(error)) func() error {
	return func() error {
		err := guard(fn)
		if p, ok := err.(*PanicError); ok { //nolint:errorlint // a wrapped one has its name
			err = fmt.Errorf("%s: %w", name, p)
		}
		if err != nil {
			onErr(err)
		}
		return nil
	}
}
