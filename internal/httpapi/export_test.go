package httpapi

// Routes lists the route table, each as "GET /v1/jobs".
func Routes() (out []string) {
	for _, r := range routes {
		out = append(out, r.method+" "+r.path)
	}
	return out
}

// ListsOff is the same surface of an agent without access control lists.
func (s *Server) ListsOff() *Server {
	cfg := s.cfg
	cfg.ListsOff = true
	return New(cfg)
}
