package follow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/cli/kit"
)

// storage says for each volume that an allocation has not released what that waits for, how the last call to its plugin
// failed, and when the next one comes. It returns one of the volumes; empty: it holds none.
func (f *Follower) storage(ctx context.Context, a *api.AllocationListStub) (text, held string, err error) {
	full, _, err := f.Client.Allocations().Get(ctx, a.ID, &api.QueryOptions{Namespace: a.Namespace})
	if api.IsNotFound(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", kit.Doing(err, "read", "allocation", f.id(a.ID))
	}
	text, held = unreleased(full)
	return text, held, nil
}

// Holds says what an allocation that has ended has not released, why, and where that is followed; empty: it holds no
// volume.
func (f *Follower) Holds(ctx context.Context, a *api.AllocationListStub) string {
	text, held, err := f.storage(ctx, a)
	switch {
	case err != nil:
		return err.Error()
	case held == "":
		return ""
	}
	return text + "; follow it with: berth volume status " + held
}

func unreleased(full *api.Allocation) (text, held string) {
	var parts []string
	for _, v := range full.Storage {
		if !v.Held {
			continue
		}
		held = ids.Typed(ids.Namespace(full.Namespace), v.Volume)
		text = fmt.Sprintf("volume %q: %s", v.Volume, v.State)
		if v.LastError != "" {
			text += "; last error: " + kit.OneSentence(v.LastError)
			if v.NextTry != nil {
				text += "; next try at " + kit.At(*v.NextTry)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", and "), held
}

// lost is an allocation that has ended because its node is silent: what it held stays with the node.
func lost(a *api.AllocationListStub) bool {
	return a.ClientStatus == api.AllocClientStatusLost || a.ClientStatus == api.AllocClientStatusUnknown
}

// notFree is the error for a job whose tasks have ended, and whose storage is held up by an allocation; nil: none is.
func (f *Follower) notFree(ctx context.Context, job string, a *api.AllocationListStub, why string) error {
	text, held, err := f.storage(ctx, a)
	if err != nil {
		return err
	}
	hint := fmt.Sprintf("it goes on by itself; follow it with: berth alloc status %s", f.id(a.ID))
	if lost(a) {
		if held == "" {
			return f.mayRun(ctx, a)
		}
		why = fmt.Sprintf("was on node %s, which is silent", kit.ID(a.NodeID, f.Verbose))
		hint = fmt.Sprintf("the node releases it when it is back; if it never writes again: berth volume detach "+
			"-node-is-dead <reason> %s %s", held, kit.ID(a.NodeID, f.Verbose))
	}
	if text != "" {
		why += ": " + text
	}
	return kit.Fail(fault.Busy, hint, "the storage of job %q is not free yet: allocation %q %s", job, f.id(a.ID), why)
}

// mayRun warns of a lost allocation that holds nothing: as long as its node is silent, nobody knows whether it runs.
func (f *Follower) mayRun(ctx context.Context, a *api.AllocationListStub) error {
	n, _, err := f.Client.Nodes().Get(ctx, a.NodeID, nil)
	switch {
	case api.IsNotFound(err):
		return nil // it was forgotten, by a person or with time
	case err != nil:
		return kit.Doing(err, "read", "node", kit.ID(a.NodeID, f.Verbose))
	case n.Status == api.NodeStatusReady:
		return nil
	}
	f.Env.Err.Warn(fmt.Sprintf("allocation %q was on node %s, which is silent: its tasks may run on there, until the "+
		"node is back and ends them", f.id(a.ID), kit.ID(a.NodeID, f.Verbose)))
	return nil
}

// Waits says what the end of an allocation waits for.
func (f *Follower) Waits(alloc, what string) {
	f.line("Allocation %q ends and waits for: %s", f.id(alloc), what)
}

// Released follows an allocation that has ended until it has released its volumes, for a while: what holds one up then
// is the error. One that the servers do not know has released them when its node lists it no longer.
func (f *Follower) Released(ctx context.Context, alloc string) error {
	var text, held string
	ended := time.Now()
	err := Watch(ctx, "", func(o *api.QueryOptions) (bool, *api.QueryMeta, error) {
		before := held
		full, meta, err := f.Client.Allocations().Get(ctx, alloc, o)
		switch {
		case api.IsNotFound(err):
			text, held = "", ""
			return true, meta, nil
		case err != nil:
			return false, nil, kit.Doing(err, "follow", "allocation", f.id(alloc))
		}
		if text, held = unreleased(full); held != "" && before == "" {
			f.line("Allocation %q has ended and is releasing what it holds: %s", f.id(alloc), text)
		}
		o.WaitTime = max(releasePause-time.Since(ended), time.Millisecond)
		return held == "" || time.Since(ended) >= releasePause, meta, nil
	})
	if err != nil {
		return f.gaveUp(ctx, err, "berth alloc status "+f.id(alloc))
	}
	if held == "" {
		return nil
	}
	return kit.Fail(fault.Busy, "it goes on by itself; follow it with: berth volume status "+held,
		"allocation %q has ended, and its storage is not free yet: %s", f.id(alloc), text)
}
