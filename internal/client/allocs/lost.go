package allocs

import (
	"context"

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
	req := &wire.NodeUpdateRequest{NodeIdentity: a.cfg.Link.Identity()}
	for _, l := range lost {
		a.log.Warn("the servers' state was restored, and this node has no record of an allocation that it brought "+
			"back: it is not begun", logkey.Alloc, l.ID, logkey.Job, l.Job)
		req.Allocs = append(req.Allocs,
			&alloc.Alloc{ID: l.ID, ClientStatus: alloc.ClientLost, ClientDescription: alloc.LostInRestore})
	}
	cctx, cancel := context.WithTimeout(ctx, servers.CallTimeout)
	defer cancel()
	_, err := wire.NodeUpdate.Call(cctx, a.cfg.Link.Conn(), req)
	return err
}
