package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/raftlog"
	"berth/internal/port/raftlog/files"
	"berth/internal/port/tlsport"
	"berth/internal/server/fsm"
	"berth/internal/server/membership"
	"berth/internal/server/mending"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// Admits says who may open a connection of which protocol to this server.
func (s *Server) Admits() map[string]func(trust.Peer) error {
	return map[string]func(trust.Peer) error{
		tlsport.Calls: func(p trust.Peer) error {
			if p.Role == trust.Node {
				return nil
			}
			return s.member(p)
		},
		tlsport.Raft:    s.member,
		tlsport.Reverse: onlyNodes,
		tlsport.Join:    func(trust.Peer) error { return nil },
	}
}

func onlyNodes(p trust.Peer) error {
	if p.Role != trust.Node {
		return fault.New(fault.Denied, "admit", p.String(), "this is for nodes")
	}
	return nil
}

// member admits the servers of the cluster, each by its one key.
func (s *Server) member(p trust.Peer) error {
	if p.Role == trust.Server && s.cfg.Own != nil {
		for _, m := range s.cfg.Own.Servers() {
			if m.Name == p.ID && m.Key == p.Key {
				return nil
			}
		}
	}
	return fault.New(fault.Denied, "admit", p.String(), "it is none of the servers that this one knows")
}

// reach is the way to the others by what the cluster has told.
type reach struct {
	*Server
	streams net.Listener // of the log, while the server runs
}

// Dial implements Network.
func (r *reach) Dial(ctx context.Context, to string) (net.Conn, error) {
	return r.cfg.Own.Reach(ctx, to, tlsport.Calls, r.Credentials())
}

// Open implements raftlog.Network.
func (r *reach) Open(ctx context.Context, to string) (net.Conn, error) {
	return r.cfg.Own.Reach(ctx, to, tlsport.Raft, r.Credentials())
}

// Listener implements raftlog.Network.
func (r *reach) Listener() net.Listener { return r.streams }

// begins reports whether this server is to begin a cluster, if it has no log.
func (c *Config) begins() bool { return c.Own != nil && c.Own.Begins() }

// join has a server that is to join, and has no log yet, become a member.
func (s *Server) join(ctx context.Context, seal []byte) error {
	if s.cfg.Own == nil || s.cfg.begins() || files.Begun(s.raftDir()) {
		return nil
	}
	return s.cfg.Own.Join(ctx, credentials.Self{ID: s.cfg.Name, Address: s.cfg.Address, Seal: seal})
}

// runLog drives the log as soon as this server may have one.
func (s *Server) runLog(ctx context.Context, seal []byte) error {
	if err := s.join(ctx, seal); err != nil || ctx.Err() != nil {
		return err
	}
	return s.log.Run(ctx)
}

// menders are the other servers, as those that are asked for what this one's log has lost: those that the cluster has
// told last, which stand beside the log and not in it, or those with which it is begun.
func (s *Server) menders(id string, voters []raftlog.Voter) []raftlog.Peer {
	var names []string
	if s.cfg.Own != nil {
		for _, at := range s.cfg.Own.Servers() {
			names = append(names, at.Name)
		}
	} else {
		for _, v := range voters {
			names = append(names, v.ID)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == id })
	return mending.Peers(names, s.To)
}

// stand keeps this server's place among the others.
func (s *Server) stand(ctx context.Context) error {
	conn, err := s.Connect()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // in-process: nobody is at the other end any more
	return (&membership.Standing{
		Name:    s.cfg.Name,
		Address: s.cfg.Address,
		Seal:    s.ring.Public(),
		Store:   s.store,
		Own:     s.cfg.Own,
		Leader:  s.log.Leader,
		Servers: conn,
		Log:     s.cfg.Log,
	}).Run(ctx)
}

// roster are the servers as this one knows them. With the keeper of the list it implements joining.Servers.
type roster struct{ *Server }

// Leaves has this server say that it was asked to leave, and returns the index at which the list of servers last
// changed as far as it knows. joined: it is one of them.
func (s *Server) Leaves() (asOf uint64, joined bool) {
	s.lead.ends(leaves)
	joined = s.cfg.Own == nil || s.cfg.begins() || s.cfg.Own.Joined()
	return s.store.Snapshot().TableIndex(state.Members), joined
}

// Stops has this server say that it is about to stop, and comes back.
func (s *Server) Stops() { s.lead.ends(stops) }

// Name is that of this server.
func (r roster) Name() string { return r.cfg.Name }

// Progress is how far this server is.
func (r roster) Progress() (*wire.ProgressReply, error) {
	p, err := r.log.Progress()
	if err != nil {
		return nil, err
	}
	out := &wire.ProgressReply{
		Last:    p.Last,
		Term:    p.LastTerm,
		Applied: p.Applied,
		Schema:  fsm.Schema(),
		Tags:    r.cfg.Tags,
		Leaves:  r.lead.ending() == leaves,
		Stops:   r.lead.ending() == stops,
	}
	if err := r.ring.Opens(r.store.Snapshot()); err != nil {
		out.Unready = err.Error()
	}
	if err := r.log.Available(); err != nil {
		out.Full = err.Error()
	}
	return out, nil
}

// progressOf asks a server how far it is.
func (r roster) progressOf(ctx context.Context, server string) (*wire.ProgressReply, error) {
	if server == r.cfg.Name {
		return r.Progress()
	}
	conn, err := r.To(server)
	if err != nil {
		return nil, err
	}
	return wire.ServerProgress.Call(ctx, conn, &wire.ProgressRequest{})
}

// Transfer has another server lead.
func (r roster) Transfer(ctx context.Context, name string) error {
	if name == r.cfg.Name {
		return nil // it does
	}
	members, err := r.log.Members()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m raftlog.Member) bool { return m.ID == name })
	switch {
	case name == "" && len(members) < 2:
		return fault.WithHint(fault.New(fault.Conflict, "give the leadership to", "another server", "there is none"),
			"have one join first: berth operator join-token create -role server")
	case name != "" && i < 0:
		return unknown(name)
	case name != "" && !members[i].Voter:
		return fault.New(fault.Conflict, "give the leadership to", fmt.Sprintf("server %q", name),
			"it does not vote yet")
	}
	return r.log.Transfer(ctx, name)
}

func unknown(name string) error {
	return fault.WithHint(fault.New(fault.NotFound, "find", fmt.Sprintf("server %q", name),
		"it is none of those that keep the log"), `"berth operator raft list-peers" names them`)
}

// progressTimeout bounds how long one server is waited for where all are asked.
const progressTimeout = 2 * time.Second

// List tells how all servers are, as far as this one knows: the one that leads knows who answers its log.
func (r roster) List(ctx context.Context) (wire.ServerListReply, error) {
	out := wire.ServerListReply{Expect: r.cfg.Expect}
	members, err := r.log.Members()
	if err != nil {
		return out, err
	}
	leader, _ := r.log.Leader()
	contacts, since, _ := r.log.Contacts()
	for m := range r.store.Snapshot().Members(nil, trust.Server) {
		out.Servers = append(out.Servers, wire.ServerStatus{
			ServerAt: trust.ServerAt{Name: m.ID, Address: m.Address, Key: m.Key},
			Joined:   m.Joined,
			Removed:  m.Removed,
		})
	}
	for _, m := range members {
		i := slices.IndexFunc(out.Servers, func(s wire.ServerStatus) bool { return s.Name == m.ID })
		if i < 0 {
			i = len(out.Servers)
			out.Servers = append(out.Servers, wire.ServerStatus{ServerAt: trust.ServerAt{Name: m.ID}, Unlisted: true})
		}
		s := &out.Servers[i]
		s.Member, s.Voter = true, m.Voter
		s.Leader = m.ID == leader
		s.Stable = since
		if s.Joined.After(since) {
			s.Stable = s.Joined
		}
		if c, ok := contacts[m.ID]; ok {
			s.Stable = c.Since
		}
	}
	slices.SortFunc(out.Servers, func(a, b wire.ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	g, gctx := lifecycle.NewGroup(ctx)
	for i := range out.Servers {
		if s := &out.Servers[i]; s.Member {
			g.Go("ask "+s.Name, func() error { r.describe(gctx, s, contacts[s.Name]); return nil })
		}
	}
	err = g.Wait()
	r.judge(out.Servers)
	return out, err
}

// judge says of the servers that answer whether they are well, by what operators say of it.
func (r roster) judge(all []wire.ServerStatus) {
	by, newest := r.store.Snapshot().Autopilot(nil), uint64(0)
	for i := range all {
		if all[i].Leader {
			newest = all[i].Last
		}
	}
	for i := range all {
		s := &all[i]
		if s.Alive && s.Why == "" && !s.Leader {
			s.Why = by.Unwell(s.Contact, newest-min(newest, s.Last))
		}
	}
}

// describe says of a server that keeps the log how it is.
func (r roster) describe(ctx context.Context, s *wire.ServerStatus, c raftlog.Contact) {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	asked := time.Now()
	p, err := r.progressOf(ctx, s.Name)
	s.Alive = err == nil && !c.Silent
	switch {
	case err != nil:
		s.Why = err.Error()
	case c.Silent:
		s.Why = "its log does not answer"
	}
	if c.Silent {
		s.Contact = time.Since(c.Since)
	} else if !s.Leader {
		s.Contact = time.Since(asked)
	}
	if p == nil {
		return
	}
	s.Tags = p.Tags
	s.Last, s.Term = p.Last, p.Term
	s.Why = cmp.Or(p.Unready, p.Full, s.Why)
}
