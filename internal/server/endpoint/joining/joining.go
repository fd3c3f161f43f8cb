// Package joining owns the answers to those who come into the cluster, or stay in it with a new certificate, and to the
// people who let them in. Only package endpoint constructs it.
package joining

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/seldom"
	"berth/internal/model/trust"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/joining"
	"berth/internal/server/fsm/keys"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Authority issues the certificates of the cluster.
type Authority interface {
	Open() (*trust.Authority, error)
	Await(ctx context.Context) (*trust.Authority, error)
	// Rotate replaces the cluster's root.
	Rotate(ctx context.Context, by string) (index uint64, err error)
	// Finish has the roots before it forgotten.
	Finish(ctx context.Context, force bool) (index uint64, err error)
}

// Wraps lets a server open the data keys.
type Wraps interface {
	WrapFor(s *state.Snap, name string, public []byte) (*keys.Wrap, error)
}

// Config names what the endpoints stand on.
type Config struct {
	serving.Base
	Proposer  fsm.Proposer
	Authority Authority
	Servers   Servers
	Wraps     Wraps
	Log       *slog.Logger
}

// Endpoints answer methods.
type Endpoints struct {
	cfg     Config
	refused seldom.Log // of those who join

	mu   sync.Mutex
	pace pace
}

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg: cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	e.RegisterOpen(s)
	serving.Unary(e.cfg.Base, s, wire.TrustAdmit, e.admit)
	serving.Unary(e.cfg.Base, s, wire.TrustAdmissions, e.admissions)
	serving.Unary(e.cfg.Base, s, wire.TrustRevoke, e.revoke)
	serving.Unary(e.cfg.Base, s, wire.TrustRoots, e.roots)
	serving.Unary(e.cfg.Base, s, wire.TrustRotate, e.rotate)
	serving.Unary(e.cfg.Base, s, wire.TrustFinish, e.finish)
	serving.Unary(e.cfg.Base, s, wire.NodeDeny, e.deny)
	serving.Unary(e.cfg.Base, s, wire.NodeAllow, e.allow)
	serving.Unary(e.cfg.Base, s, wire.NodeDenials, e.denials)
	serving.Unary(e.cfg.Base, s, wire.ServerList, e.list)
	serving.Unary(e.cfg.Base, s, wire.ServerAnnounce, e.announce)
	serving.Unary(e.cfg.Base, s, wire.ServerRemove, e.remove)
	serving.Unary(e.cfg.Base, s, wire.ServerLeave, e.leave)
	serving.Unary(e.cfg.Base, s, wire.ServerTransfer, e.transfer)
	wire.ServerProgress.Serve(s, e.progress)
}

// RegisterOpen adds what is answered to those who have no certificate.
func (e *Endpoints) RegisterOpen(s *wire.Server) {
	serving.Unary(e.cfg.Base, s, wire.TrustCertify, e.certify)
}

// certify issues a certificate: to who has joined, by its key; to who has not, by a join token, with which it joins.
func (e *Endpoints) certify(ctx context.Context, req *wire.CertifyRequest) (*wire.CertifyReply, error) {
	r, err := trust.ParseRequest(req.Request)
	if err != nil {
		return nil, err
	}
	if m := e.cfg.Store.Snapshot().Meta(nil); m == nil || m.ClusterID != r.Cluster {
		return nil, fault.New(fault.Denied, "join as", r.String(), "this is another cluster than "+r.Cluster)
	}
	// Before anything is written: who joins and gets no certificate would have used up its token. The index is read
	// first: who hears an older one than that of the roots asks once more.
	asOf := joining.RootsAsOf(e.cfg.Store.Snapshot())
	authority, err := e.cfg.Authority.Open()
	if err != nil {
		return nil, err
	}
	if again, err := e.join(ctx, r, req, authority); again > 0 || err != nil {
		return &wire.CertifyReply{Again: again}, err
	}
	now := time.Now()
	der, err := authority.Issue(r.Principal, r.Public, now)
	if err != nil {
		return nil, err
	}
	out := &wire.CertifyReply{
		Certificate: der,
		RootsAsOf:   asOf,
		Now:         now,
		Servers:     listed(e.cfg.Store.Snapshot()),
	}
	for _, root := range authority.Trusted {
		out.Roots = append(out.Roots, root.Raw)
	}
	return out, nil
}

// wait says how long who may have a certificate is to wait for it, where many ask; 0: it gets it now. Servers are few.
func (e *Endpoints) wait(r trust.Request, req *wire.CertifyRequest) (time.Duration, error) {
	if r.Role == trust.Server {
		return 0, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	again := e.pace.slot(r.ID, time.Now())
	if again > 0 && !req.Patient {
		return 0, fault.WithHint(fault.New(fault.Exhausted, "certify", r.String(), "many ask at once"),
			"ask again in "+again.Round(time.Millisecond).String())
	}
	return again, nil
}

// join makes sure that who asks is a member. again: it is to ask again after that time.
func (e *Endpoints) join(
	ctx context.Context, r trust.Request, req *wire.CertifyRequest, authority *trust.Authority,
) (again time.Duration, err error) {
	s := e.cfg.Store.Snapshot()
	m, err := joining.Known(s, r.Role, r.ID, r.Key)
	if err != nil {
		return 0, err
	}
	cmd := &joining.Join{Role: r.Role, ID: r.ID, Key: r.Key}
	if m == nil {
		if cmd, err = e.admitted(r, req); err != nil {
			return 0, err
		}
	}
	if again, err := e.wait(r, req); again > 0 || err != nil {
		return again, err
	}
	if root := trust.KeyOf(authority.Root); s.Understands(joining.RotationSchema) && slices.Contains(req.Roots, root) {
		cmd.Root = root
	}
	// One that is a member may have been denied since: the log says whether it was.
	now, _, err := fsm.Propose[*trust.Member](ctx, e.cfg.Proposer, cmd)
	if err == nil && m == nil {
		e.cfg.Log.Info("joined the cluster", "role", now.Role, "id", now.ID, "token", now.Token)
	}
	return 0, err
}

// admitted is the command by which one comes in that has a join token for it.
func (e *Endpoints) admitted(r trust.Request, req *wire.CertifyRequest) (*joining.Join, error) {
	if err := e.notTaken(r); err != nil {
		return nil, err
	}
	token, ok, err := req.Token.OpenToken()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.WithHint(fault.New(fault.Denied, "certify", r.String(), "it has not joined this cluster"),
			"make a join token where a server is, "+r.Role.Create()+", and start the agent with it")
	}
	if r.Role == trust.Server && (req.Address == "" || len(req.Seal) == 0) {
		return nil, fault.WithHint(fault.New(fault.Invalid, "join as", r.String(), "it does not say where it is found"),
			`write addresses { rpc = "10.0.0.1" } or advertise { rpc = "10.0.0.1:4647" }`)
	}
	// What is refused is written nowhere: whoever guesses would write as fast as he guesses.
	known := e.cfg.Store.Snapshot().Admission(nil, token.ID)
	if err := known.Admits(token.ID, token.Hash(), r.Role, time.Now()); err != nil {
		if missed, say := e.refused.Say(); say {
			e.cfg.Log.Warn("a join was refused", "role", r.Role, "id", r.ID, "not_said_before", missed,
				logkey.Error, err)
		}
		return nil, err
	}
	cmd := &joining.Join{
		Role:  r.Role,
		ID:    r.ID,
		Key:   r.Key,
		Token: token.ID,
		Hash:  token.Hash(),
	}
	if r.Role == trust.Server {
		wraps, err := e.cfg.Wraps.WrapFor(e.cfg.Store.Snapshot(), r.ID, req.Seal)
		if err != nil {
			return nil, err
		}
		cmd.Address, cmd.Seal = req.Address, req.Seal
		cmd.Wraps = wraps.Wraps
	}
	return cmd, nil
}

// notTaken refuses the id of a node that never joined, since it runs in a server's own agent: nothing but the id, which
// everybody sees, would tell who asks from that node. A person who readmits it vouches for who comes.
func (e *Endpoints) notTaken(r trust.Request) error {
	s, id := e.cfg.Store.Snapshot(), ids.Node(r.ID)
	if r.Role != trust.Node || s.Node(nil, id) == nil || s.Session(nil, id).Readmitting(time.Now()) {
		return nil
	}
	return fault.WithHint(fault.New(fault.Denied, "join as", r.String(),
		"it is the node of an agent that has a server, and no other agent may have its id"),
		"start this agent with a data_dir of its own, so that it has an id of its own; if that node moves here, let "+
			"it in with: berth node readmit -reason \"it moved\" "+ids.Short(id))
}

// announced is how long a server that has just started is waited for until it has said where it is found.
const announced = 3 * time.Second

// reachable reports whether some server says where others reach it.
func (e *Endpoints) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, announced)
	defer cancel()
	for {
		s, w := e.cfg.Store.Snapshot(), state.NewWatch()
		if len(trust.Listed(s.Members(w, trust.Server))) > 0 {
			return true
		}
		if w.Wait(ctx) != nil {
			return false
		}
	}
}

// admit makes a join token. The servers know its hash alone: it stands in this answer alone.
func (e *Endpoints) admit(ctx context.Context, req *wire.AdmitRequest) (*wire.AdmitReply, error) {
	if req.Role == trust.Server && !e.reachable(ctx) {
		return nil, fault.WithHint(fault.New(fault.Unsupported, "make", "join token",
			"no server can be reached by another one"), `let this one listen: addresses { rpc = "10.0.0.1" }`)
	}
	authority, err := e.cfg.Authority.Await(ctx)
	if err != nil {
		return nil, err
	}
	token := trust.NewJoinToken(authority.Root)
	a, index, err := fsm.Propose[*trust.Admission](ctx, e.cfg.Proposer, &joining.AdmissionPut{
		Admission: trust.Admission{
			ID:       token.ID,
			Hash:     token.Hash(),
			Role:     req.Role,
			NodePool: req.NodePool,
			Uses:     req.Uses,
			Expires:  time.Now().Add(req.Good).UTC(),
			By:       req.By,
		},
	})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a person made a join token", "token", a.ID, "role", a.Role, "uses", a.Uses, "expires", a.Expires,
		"by", a.By)
	return &wire.AdmitReply{Token: wire.SealToken(token), Admission: shown(a), Index: index}, nil
}

func (e *Endpoints) admissions(ctx context.Context, q *wire.Query) (*wire.AdmissionsReply, error) {
	out := &wire.AdmissionsReply{}
	err := e.cfg.Read(ctx, *q, &out.Meta, func(s *state.Snap, w *state.Watch) (uint64, error) {
		out.Admissions, out.Joined = nil, map[string][]wire.JoinedBy{}
		for a := range s.Admissions(w) {
			out.Admissions = append(out.Admissions, shown(a))
			out.Joined[a.ID] = nil
		}
		for _, r := range []trust.Role{trust.Server, trust.Node} {
			for m := range s.Members(w, r) {
				if by, there := out.Joined[m.Token]; there {
					out.Joined[m.Token] = append(by, wire.JoinedBy{
						ID:     m.ID,
						Joined: m.Joined,
						Denied: m.Denied != nil || m.Gone(),
					})
				}
			}
		}
		return max(s.TableIndex(state.Admissions), s.TableIndex(state.Members)), nil
	})
	slices.SortStableFunc(out.Admissions, func(a, b *trust.Admission) int { return a.Created.Compare(b.Created) })
	return out, err
}

// shown is what people see of a join token.
func shown(a *trust.Admission) *trust.Admission {
	out := *a
	out.Hash = nil
	return &out
}

func (e *Endpoints) revoke(ctx context.Context, req *wire.RevokeRequest) (*wire.Written, error) {
	_, index, err := e.cfg.Proposer.Propose(ctx, &joining.AdmissionDelete{ID: req.ID})
	if err != nil {
		return nil, err
	}
	e.cfg.Log.Warn("a join token was revoked", "token", req.ID)
	return &wire.Written{Index: index}, nil
}
