package lineage

import (
	"slices"
	"strings"

	"berth/internal/model/trust"
	kit "berth/internal/testkit/servers"
	"berth/internal/wire"
)

// mostServers is how many there may be that were not removed: more would teach nothing.
const mostServers = 5

// join starts one more server.
func (s *sim) join() {
	if left := len(s.site.Members) - len(s.site.removed); left >= mostServers {
		return
	}
	s.site.Join()
	s.list()
}

// list has the server that leads take down those that are in no list yet, as they ask until they are.
func (s *sim) list() {
	lead := s.leader()
	if lead == nil {
		return
	}
	for _, m := range s.site.Members {
		if !s.site.joined[m] && !s.site.removed[m] {
			s.site.joined[m] = lead.List(s.ctx(), m) == nil
		}
	}
}

// leader is who takes itself for it; nil: nobody.
func (s *sim) leader() *kit.Member {
	for _, m := range s.site.Members {
		if m.Runs() && m.Leading() {
			return m
		}
	}
	return nil
}

// removeServer takes a server off for good.
func (s *sim) removeServer(m *kit.Member) {
	if !s.site.joined[m] || s.site.removed[m] {
		return
	}
	_, err := wire.ServerRemove.Call(s.ctx(), s.world.site.reach(nil), &wire.ServerRef{Name: m.Name})
	s.site.removed[m] = err == nil
	s.note("the end of server "+m.Name, err)
}

// handOver has another server lead.
func (s *sim) handOver(m *kit.Member) {
	_, err := wire.ServerTransfer.Call(s.ctx(), s.world.site.reach(nil), &wire.ServerRef{Name: m.Name})
	s.note("that "+m.Name+" leads", err)
}

// leave ends the servers that know that they were removed, as they do by themselves.
func (s *sim) leave() {
	for _, m := range s.site.Members {
		if m.Runs() && m.Removed() {
			m.Stop()
		}
	}
}

// staying are the servers that nobody has removed, as the newest state has it.
func (s *sim) staying() []*kit.Member {
	snap := s.snap()
	return slices.DeleteFunc(slices.Clone(s.site.Members), func(m *kit.Member) bool {
		r := snap.Member(nil, trust.Server, m.Name)
		return r != nil && r.Gone()
	})
}

// keptMembers holds that who was taken into the list is there until a person removes it, and never after.
func (s *sim) keptMembers() {
	snap := s.snap()
	for _, m := range s.site.Members {
		r := snap.Member(nil, trust.Server, m.Name)
		if s.site.joined[m] && r == nil {
			s.fails("server %s was taken into the list, and is not there", m.Name)
		}
		if s.site.removed[m] && (r == nil || !r.Gone()) {
			s.fails("server %s was removed, and is in the list", m.Name)
		}
	}
}

// unlike says how those that keep the log differ from those of the list; empty: they do not, and all vote.
func (s *sim) unlike() string {
	reply, err := wire.ServerList.Call(s.ctx(), s.world.site.reach(nil), &wire.Query{})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, x := range reply.Servers {
		switch {
		case !x.Removed.IsZero() && x.Member:
			out = append(out, x.Name+" was removed and keeps the log")
		case x.Removed.IsZero() && !x.Voter:
			out = append(out, x.Name+" does not vote")
		case x.Unlisted:
			out = append(out, x.Name+" keeps the log and is in no list")
		}
	}
	return strings.Join(out, ", ")
}
