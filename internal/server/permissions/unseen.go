package permissions

import (
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// Unseen refuses what the caller named by its id alone and may not hear of: it is in a namespace in which the caller
// may do nothing. Who asks for it gets the answer to an id that there is not, which Stranger makes.
type Unseen struct{ error }

// Unwrap returns the refusal, for those who make no such answer.
func (u *Unseen) Unwrap() error { return u.error }

// nobody is an id that nothing has: those that are made are random.
const nobody = "00000000-0000-0000-0000-000000000000"

// Stranger is a request of what there is not, instead of what was named by its id, and that id. Nil: it names nothing.
func Stranger(req any) (of any, id, stands string) {
	switch r := req.(type) {
	case *wire.Ref[ids.Alloc]:
		return &wire.Ref[ids.Alloc]{Query: r.Query, ID: nobody}, string(r.ID), nobody
	case *wire.Ref[ids.Eval]:
		return &wire.Ref[ids.Eval]{Query: r.Query, ID: nobody}, string(r.ID), nobody
	case *wire.Ref[ids.Deployment]:
		return &wire.Ref[ids.Deployment]{Query: r.Query, ID: nobody}, string(r.ID), nobody
	case *wire.Ref[ids.Scaling]:
		return &wire.Ref[ids.Scaling]{Query: r.Query, ID: nobody}, string(r.ID), nobody
	case *wire.AllocStopRequest:
		c := *r
		c.Alloc = nobody
		return &c, string(r.Alloc), nobody
	case *wire.DeploymentRequest:
		c := *r
		c.Deployment = nobody
		return &c, string(r.Deployment), nobody
	case *wire.DeploymentPromoteRequest:
		c := *r
		c.Deployment = nobody
		return &c, string(r.Deployment), nobody
	case *wire.DeploymentPauseRequest:
		c := *r
		c.Deployment = nobody
		return &c, string(r.Deployment), nobody
	case *wire.DeploymentHealthRequest:
		c := *r
		c.Deployment = nobody
		return &c, string(r.Deployment), nobody
	}
	return nil, "", ""
}
