package httpapi

import (
	"net/http"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/agentlog"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/wire"
)

func (s *Server) agentSelf(r *calls.Request) (any, error) {
	config, stats := s.cfg.Self.Describe()
	out := &api.AgentSelf{Config: config, Stats: stats}
	st, err := s.status(r)
	if err == nil {
		for group, values := range st.Stats {
			out.Stats[group] = values
		}
		if len(st.Members) > 0 {
			out.Member = *convert.Member(st.Members[0])
		}
	}
	if out.Member.Name == "" {
		out.Member.Name = "none"
	}
	return out, nil
}

// agentHealth is for load balancers: 500 when a half that this agent runs is not well.
func (s *Server) agentHealth(r *calls.Request) (any, error) {
	out, well := operator.Health(s.cfg.Self.Health(r.Context()), r.Arg("type"))
	if !well {
		return nil, calls.Refuse(http.StatusInternalServerError, convert.HealthText(out))
	}
	return out, nil
}

// monitor streams an agent's log: this one's, or a node's by way of the servers.
func (s *Server) monitor(w http.ResponseWriter, r *calls.Request) error {
	level, ok := agentlog.Level(r.Arg("log_level"))
	if !ok {
		return calls.BadRequest("Unknown log level: " + r.Arg("log_level"))
	}
	if node := ids.Node(r.Arg("node_id")); node != "" && node != s.cfg.Self.NodeID() {
		stream, err := wire.AgentMonitor.Open(r.Context(), s.cfg.Servers,
			&wire.AgentMonitorRequest{
				Node:     node,
				Level:    r.Arg("log_level"),
				JSON:     r.Flag("log_json"),
				Location: r.Flag("log_include_location"),
			})
		if err != nil {
			return err
		}
		return s.pump(w, r, stream, r.Flag("plain"))
	}
	if name := r.Arg("server_id"); name != "" {
		st, err := s.status(r)
		if err != nil {
			return err
		}
		if err := agentlog.OfServer(name, st); err != nil {
			return err
		}
	}
	return agentlog.Stream(w, r.Flag("plain"), func(each func([]byte) error) error {
		return s.cfg.Logs.Follow(r.Context(), level, r.Flag("log_json"), each)
	})
}

// license answers as every edition without one does.
func (s *Server) license(w http.ResponseWriter, _ *calls.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reconciled has nothing to do: summaries are counted whenever they are read.
func (s *Server) reconciled(*calls.Request) (any, error) { return calls.None{}, nil }
