package httpapi

import (
	"net/http"

	"berth/internal/httpapi/events"
)

// eventStream tells what changes, line by line, until the client goes.
func (s *Server) eventStream(w http.ResponseWriter, r *request) error {
	req, err := parsed(events.Asked(r.URL.Query(), r.ns))
	if err != nil {
		return err
	}
	return events.Stream(r.Context(), w, s.cfg.Servers, req)
}
