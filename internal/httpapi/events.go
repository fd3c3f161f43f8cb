package httpapi

import (
	"net/http"

	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/events"
)

// eventStream tells what changes, line by line, until the client goes.
func (s *Server) eventStream(w http.ResponseWriter, r *calls.Request) error {
	req, err := calls.Parsed(events.Asked(r.URL.Query(), r.Namespace))
	if err != nil {
		return err
	}
	return s.events.Stream(r.Context(), w, s.cfg.Servers, req)
}
