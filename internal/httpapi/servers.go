package httpapi

import (
	"fmt"
	"net/http"

	"berth/internal/base/fault"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/nodeservers"
	"berth/internal/wire"
)

// servers are all of the cluster, as the one that leads knows them; if none does, as the agent's own server does. A
// server that others do not reach is in no list: what it says of itself stands for it.
func (s *Server) servers(r *calls.Request) (*wire.SystemStatusReply, []wire.ServerStatus, error) {
	st, err := s.status(r)
	if err != nil {
		return nil, nil, err
	}
	stale := r.Flag("stale") || st.Leaderless != ""
	out, err := wire.ServerList.Call(r.Context(), s.cfg.Servers, &wire.Query{Stale: stale})
	if fault.Has(err, fault.Unavailable) {
		out, err = wire.ServerList.Call(r.Context(), s.cfg.Servers, &wire.Query{Stale: true})
	}
	switch {
	case fault.Has(err, fault.Unavailable): // it has not joined, or has ended its log
		return st, []wire.ServerStatus{convert.OwnServer(st)}, nil
	case err != nil:
		return nil, nil, err
	}
	if len(out.Servers) == 1 && out.Servers[0].Unlisted {
		return st, []wire.ServerStatus{convert.OwnServer(st)}, nil
	}
	return st, out.Servers, nil
}

func (s *Server) agentMembers(r *calls.Request) (any, error) {
	st, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	return convert.ServerMembers(s.cfg.Region, st.Members[0], all), nil
}

func (s *Server) peers(r *calls.Request) (any, error) {
	_, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	return convert.Peers(all), nil
}

// nodeServers are the servers that the agent's node asks, or those of the cluster where the agent has a server.
func (s *Server) nodeServers(r *calls.Request) (any, error) {
	if s.cfg.NodeServers == nil {
		return s.peers(r)
	}
	return s.cfg.NodeServers.Addresses(), nil
}

// nodeServersPut has the agent's node ask other servers.
func (s *Server) nodeServersPut(r *calls.Request) (any, error) {
	return calls.None{}, nodeservers.Use(s.cfg.NodeServers, r.URL.Query()["address"])
}

// raftConfiguration lists the servers that keep the log.
func (s *Server) raftConfiguration(r *calls.Request) (any, error) {
	st, all, err := s.servers(r)
	if err != nil {
		return nil, err
	}
	return convert.RaftConfiguration(st.Index, all), nil
}

// named is the server that a request names by its id, or by its address.
func (s *Server) named(r *calls.Request) (string, error) {
	id, addr := r.Arg("id"), r.Arg("address")
	if (id == "") == (addr == "") {
		return "", calls.BadRequest("Must specify either ?id with the server's ID or ?address with IP:port of peer")
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
	return "", calls.Refuse(http.StatusInternalServerError,
		fmt.Sprintf("address %q was not found in the Raft configuration", addr))
}

// raftRemove takes a server out of the cluster, for good.
func (s *Server) raftRemove(r *calls.Request) (any, error) {
	name, err := s.named(r)
	if err != nil {
		return nil, err
	}
	_, err = wire.ServerRemove.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	if fault.Has(err, fault.NotFound) {
		return nil, calls.Refuse(http.StatusInternalServerError,
			fmt.Sprintf("id %q was not found in the Raft configuration", name))
	}
	return calls.None{}, err
}

// forceLeave is raftRemove by the name that members show. A name that nobody has is no error, as clients expect.
func (s *Server) forceLeave(r *calls.Request) (any, error) {
	name := r.Arg("node")
	if name == "" {
		return nil, calls.BadRequest("missing node to force leave")
	}
	_, err := wire.ServerRemove.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	if fault.Has(err, fault.NotFound) {
		err = nil
	}
	return calls.None{}, err
}

func (s *Server) raftTransfer(r *calls.Request) (any, error) {
	name := ""
	if r.Arg("id") != "" || r.Arg("address") != "" {
		var err error
		if name, err = s.named(r); err != nil {
			return nil, err
		}
	}
	_, err := wire.ServerTransfer.Call(r.Context(), s.cfg.Servers, &wire.ServerRef{Name: name})
	return calls.None{}, err
}
