package allocs

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/client/localstate"
	"berth/internal/client/servers"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// reportLost tells the servers which allocs of a restored state this node has no record of, before it notes that it has
// seen that state: what it has not said it would begin at its next start.
func (a *Allocs) reportLost(ctx context.Context, lost []*alloc.Alloc) error {
	if len(lost) == 0 {
		return nil
	}
	all := make([]ids.Alloc, 0, len(lost))
	for _, l := range lost {
		a.log.Warn("the servers' state was restored, and this node has no record of an allocation that it brought "+
			"back: it is not begun", logkey.Alloc, l.ID, logkey.Job, l.Job)
		all = append(all, l.ID)
	}
	return a.sayLost(ctx, alloc.LostInRestore, all...)
}

// sayNotWritten reports, once for each reason, why allocs that the servers have placed here are not begun: nobody would
// know by the allocs that the node's own store is in the way. The next set tries again.
func (a *Allocs) sayNotWritten(ctx context.Context, fresh []*localstate.Alloc, why error) error {
	text := alloc.NotWritten(why)
	said := map[ids.Alloc]string{}
	var reports []*alloc.Alloc
	for _, rec := range fresh {
		id := rec.Bundle.Alloc.ID
		said[id] = text
		if a.notWritten[id] == text || rec.Bundle.Alloc.ClientStatus != alloc.ClientPending {
			continue // the servers know it; of one that has run here they know more
		}
		r := &alloc.Alloc{
			ID:                id,
			ClientStatus:      alloc.ClientPending,
			ClientDescription: text,
			TaskStates:        map[string]*alloc.TaskState{},
		}
		for name := range rec.Bundle.Alloc.Resources.Tasks {
			r.TaskStates[name] = &alloc.TaskState{State: alloc.TaskPending, Events: []*alloc.TaskEvent{{
				Type:           alloc.EventNotWritten,
				Time:           time.Now().UnixNano(),
				DisplayMessage: text,
				Message:        text,
			}}}
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil
	}
	if err := a.report(ctx, reports); err != nil {
		return err
	}
	a.notWritten = said
	return nil
}

// sayLost reports allocs as lost. Those that the servers do not know they pass over.
func (a *Allocs) sayLost(ctx context.Context, text string, all ...ids.Alloc) error {
	var reports []*alloc.Alloc
	for _, id := range all {
		reports = append(reports, &alloc.Alloc{ID: id, ClientStatus: alloc.ClientLost, ClientDescription: text})
	}
	return a.report(ctx, reports)
}

// report tells the servers of allocs that nothing here runs for.
func (a *Allocs) report(ctx context.Context, reports []*alloc.Alloc) error {
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	_, err := wire.NodeUpdate.Call(cctx, a.cfg.Link.Conn(), &wire.NodeUpdateRequest{
		NodeIdentity: a.cfg.Link.Identity(),
		Allocs:       reports,
	})
	return err
}
