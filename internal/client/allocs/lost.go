package allocs

import (
	"context"

	"berth/internal/base/ids"
	"berth/internal/base/logkey"
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

// sayLost reports allocs as lost. Those that the servers do not know they pass over.
func (a *Allocs) sayLost(ctx context.Context, text string, all ...ids.Alloc) error {
	req := &wire.NodeUpdateRequest{NodeIdentity: a.cfg.Link.Identity()}
	for _, id := range all {
		req.Allocs = append(req.Allocs, &alloc.Alloc{ID: id, ClientStatus: alloc.ClientLost, ClientDescription: text})
	}
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	_, err := wire.NodeUpdate.Call(cctx, a.cfg.Link.Conn(), req)
	return err
}
