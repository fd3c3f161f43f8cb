package convert

import (
	"net"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/wire"
)

// OwnServer is what a server says of itself, as one of the list.
func OwnServer(st *wire.SystemStatusReply) wire.ServerStatus {
	m := st.Members[0]
	out := wire.ServerStatus{
		Tags:   m.Tags,
		Member: true,
		Voter:  true,
		Alive:  true,
		Leader: st.Leader != "",
	}
	out.Name, out.Address = m.Name, net.JoinHostPort(m.Addr, m.Tags["port"])
	return out
}

// serverStatus is how a server is, in the words of this API.
func serverStatus(s wire.ServerStatus) string {
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

// ServerMembers shows all servers to one of them.
func ServerMembers(region string, self wire.Member, all []wire.ServerStatus) *api.ServerMembers {
	out := &api.ServerMembers{
		ServerRegion: region,
		ServerName:   self.Name,
		ServerDC:     self.Tags["dc"],
		Members:      []*api.AgentMember{},
	}
	for _, m := range all {
		if m.Name == self.Name {
			own := Member(self)
			own.Status = serverStatus(m)
			out.Members = append(out.Members, own)
			continue
		}
		out.Members = append(out.Members, otherMember(region, m))
	}
	return out
}

func otherMember(region string, m wire.ServerStatus) *api.AgentMember {
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		host = m.Name // its address is not known
	}
	n, _ := strconv.ParseUint(port, 10, 16) // 0: it is not known
	tags := map[string]string{"id": m.Name, "region": region, "port": port, "rpc_addr": host}
	for k, v := range m.Tags {
		tags[k] = v
	}
	return Member(wire.Member{
		Name:   m.Name,
		Addr:   host,
		Port:   uint16(n),
		Status: serverStatus(m),
		Tags:   tags,
	})
}

// Peers are the addresses of the servers that keep the log.
func Peers(all []wire.ServerStatus) []string {
	out := []string{}
	for _, m := range all {
		if m.Member {
			out = append(out, m.Address)
		}
	}
	return out
}

// RaftConfiguration shows the servers that keep the log.
func RaftConfiguration(index uint64, all []wire.ServerStatus) *api.RaftConfiguration {
	out := &api.RaftConfiguration{Servers: []*api.RaftServer{}, Index: index}
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
	return out
}

// AutopilotHealth shows whether each server is well, and how many may fail.
func AutopilotHealth(all []wire.ServerStatus) *api.AutopilotHealth {
	out := &api.AutopilotHealth{Healthy: true, Voters: []string{}, Servers: []*api.ServerHealth{}}
	voters, well := 0, 0
	for _, m := range all {
		if !m.Member {
			continue
		}
		h := serverHealth(m)
		out.Servers = append(out.Servers, h)
		out.Healthy = out.Healthy && h.Healthy
		if m.Leader {
			out.Leader = m.Name
		}
		if m.Voter {
			voters++
			out.Voters = append(out.Voters, m.Name)
			if h.Healthy {
				well++
			}
		}
	}
	out.FailureTolerance = max(0, well-(voters/2+1))
	return out
}

func serverHealth(m wire.ServerStatus) *api.ServerHealth {
	return &api.ServerHealth{
		ID:          m.Name,
		Name:        m.Name,
		Address:     m.Address,
		SerfStatus:  serverStatus(m),
		Version:     m.Tags["build"],
		Leader:      m.Leader,
		LastContact: m.Contact.Round(time.Millisecond).String(),
		LastTerm:    m.Term,
		LastIndex:   m.Last,
		Healthy:     m.Alive && m.Why == "",
		Voter:       m.Voter,
		StableSince: m.Stable,
		Reason:      m.Why,
	}
}
