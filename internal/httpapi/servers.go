package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// servers are all of the cluster, as the one that leads knows them; if none does, as the agent's own server does. A
// server that others do not reach is in no list: what it says of itself stands for it.
func (s *Server) servers(r *request) (*wire.SystemStatusReply, []wire.ServerStatus, error) {
	st, err := s.status(r)
	if err != nil {
		return nil, nil, err
	}
	out, err := wire.ServerList.Call(r.Context(), s.cfg.Servers, &wire.Query{Stale: r.flag("stale")})
	if fault.Has(err, fault.Unavailable) {
		out, err = wire.ServerList.Call(r.Context(), s.cfg.Servers, &wire.Query{Stale: true})
	}
	switch {
	case fault.Has(err, fault.Unavailable): // it has not joined, or has ended its log
		return st, []wire.ServerStatus{own(st)}, nil
	case err != nil:
		return nil, nil, err
	}
	if len(out.Servers) == 1 && out.Servers[0].Unlisted {
		return st, []wire.ServerStatus{own(st)}, nil
	}
	return st, out.Servers, nil
}

// own is what a server says of itself, as one of the list.
func own(st *wire.SystemStatusReply) wire.ServerStatus {
	m := st.Members[0]
	out := wire.ServerStatus{
		Tags:   m.Tags,
		Member: true,
		Voter:  true,
		Alive:  true,
		Leader: st.Leader != "",
	}
	out.Name, out.Address = m.Name, hostPort(m.Addr, m.Tags["port"])
	return out
}

// memberStatus is how a server is, in the words of this API.
func memberStatus(s wire.ServerStatus) string {
	switch {
	case !s.Removed.IsZero() && !s.Member:
		return "left"
	case !s.Removed.IsZero():
		return "leaving"
	case s.Alive:
		return "alive"
	case !s.Member:
		return "none"
	}
	return "failed"
}

func (s *Server) agentMembers(r *request) (any, error) {
	st, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	self := st.Members[0]
	out := &api.ServerMembers{
		ServerRegion: s.cfg.Region,
		ServerName:   self.Name,
		ServerDC:     self.Tags["dc"],
		Members:      []*api.AgentMember{},
	}
	for _, m := range all {
		if m.Name == self.Name {
			own := convert.Member(self)
			own.Status = memberStatus(m)
			out.Members = append(out.Members, own)
			continue
		}
		host, port, err := net.SplitHostPort(m.Address)
		if err != nil {
			host = m.Name // its address is not known
		}
		n, _ := strconv.ParseUint(port, 10, 16) // 0: it is not known
		tags := map[string]string{"id": m.Name, "region": s.cfg.Region, "port": port, "rpc_addr": host}
		for k, v := range m.Tags {
			tags[k] = v
		}
		out.Members = append(out.Members, convert.Member(wire.Member{
			Name:   m.Name,
			Addr:   host,
			Port:   uint16(n),
			Status: memberStatus(m),
			Tags:   tags,
		}))
	}
	return out, nil
}

func (s *Server) peers(r *request) (any, error) {
	_, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, m := range all {
		if m.Member {
			out = append(out, m.Address)
		}
	}
	return out, nil
}

// raftConfiguration lists the servers that keep the log.
func (s *Server) raftConfiguration(r *request) (any, error) {
	st, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	out := &api.RaftConfiguration{Servers: []*api.RaftServer{}, Index: st.Index}
	for _, m := range all {
		if m.Member {
			out.Servers = append(out.Servers, &api.RaftServer{
				ID:           m.Name,
				Node:         m.Name,
				Address:      m.Address,
				Leader:       m.Leader,
				Voter:        m.Voter,
				RaftProtocol: "3",
			})
		}
	}
	return out, nil
}

// named is the server that a request names by its id, or by its address.
func (s *Server) named(r *request) (string, error) {
	id, addr := r.arg("id"), r.arg("address")
	if (id == "") == (addr == "") {
		return "", badRequest("Must specify either ?id with the server's ID or ?address with IP:port of peer")
	}
	if id != "" {
		return id, nil
	}
	_, all, err := s.servers(r)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Address == addr {
			return m.Name, nil
		}
	}
	return "", &statusError{http.StatusInternalServerError,
		fmt.Sprintf("address %q was not found in the Raft configuration", addr)}
}

// raftRemove takes a server out of the cluster, for good.
func (s *Server) raftRemove(r *request) (any, error) {
	name, err := s.named(r)
	if err != nil {
		return nil, err
	}
	_, err = wire.ServerRemove.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	if fault.Has(err, fault.NotFound) {
		return nil, &statusError{http.StatusInternalServerError,
			fmt.Sprintf("id %q was not found in the Raft configuration", name)}
	}
	return noReply{}, err
}

// forceLeave is raftRemove by the name that members show. A name that nobody has is no error, as clients expect.
func (s *Server) forceLeave(r *request) (any, error) {
	name := r.arg("node")
	if name == "" {
		return nil, badRequest("missing node to force leave")
	}
	_, err := wire.ServerRemove.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	if fault.Has(err, fault.NotFound) {
		err = nil
	}
	return noReply{}, err
}

func (s *Server) raftTransfer(r *request) (any, error) {
	name := ""
	if r.arg("id") != "" || r.arg("address") != "" {
		var err error
		if name, err = s.named(r); err != nil {
			return nil, err
		}
	}
	_, err := wire.ServerTransfer.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	return noReply{}, err
}

// autopilotHealth says whether each server is well, and how many may fail. Nobody acts by it.
func (s *Server) autopilotHealth(r *request) (any, error) {
	_, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	out := &api.AutopilotHealth{Healthy: true, Voters: []string{}, Servers: []*api.ServerHealth{}}
	voters, well := 0, 0
	for _, m := range all {
		if !m.Member {
			continue
		}
		healthy := m.Alive && m.Why == ""
		h := &api.ServerHealth{
			ID:          m.Name,
			Name:        m.Name,
			Address:     m.Address,
			SerfStatus:  memberStatus(m),
			Version:     m.Tags["build"],
			Leader:      m.Leader,
			LastContact: m.Contact.Round(time.Millisecond).String(),
			LastTerm:    m.Term,
			LastIndex:   m.Last,
			Healthy:     healthy,
			Voter:       m.Voter,
			StableSince: m.Stable,
		}
		out.Servers = append(out.Servers, h)
		out.Healthy = out.Healthy && healthy
		if m.Leader {
			out.Leader = m.Name
		}
		if m.Voter {
			voters++
			out.Voters = append(out.Voters, m.Name)
			if healthy {
				well++
			}
		}
	}
	out.FailureTolerance = max(0, well-(voters/2+1))
	return out, nil
}
