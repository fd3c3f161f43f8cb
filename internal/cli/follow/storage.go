package follow

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// storage says for each volume that an allocation has not released what that waits for, how the last call to its plugin
// failed, and when the next one comes. It returns one of the volumes; empty: it holds none.
func (f *Follower) storage(ctx context.Context, a *api.AllocationListStub) (text, held string, err error) {
	full, _, err := f.Client.Allocations().Get(ctx, a.ID, &api.QueryOptions{Namespace: a.Namespace})
	if fault.Has(err, fault.NotFound) {
		return "", "", nil
	}
	if err != nil {
		return "", "", kit.Doing(err, "read", "allocation", f.id(a.ID))
	}
	var parts []string
	for _, v := range full.Storage {
		if !v.Held {
			continue
		}
		held, text = v.Volume, fmt.Sprintf("volume %q: %s", v.Volume, v.State)
		if v.LastError != "" {
			text += "; last error: " + kit.OneSentence(v.LastError)
			if v.NextTry != nil {
				text += "; next try at " + kit.At(*v.NextTry)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", and "), held, nil
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
			return nil
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
