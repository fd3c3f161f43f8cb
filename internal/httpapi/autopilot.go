package httpapi

import (
	"net/http"

	"berth/internal/httpapi/access"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/httpapi/packed"
	"berth/internal/wire"
)

// How the servers keep themselves.
var (
	// It shows its index in itself alone, as clients know it.
	autopilotGet = call(wire.AutopilotGet, (*request).whole, one("autopilot", public(operator.Autopilot)))
	autopilotPut = write(wire.AutopilotPut, func(r *request) (*wire.AutopilotPutRequest, error) {
		data, err := r.body()
		if err != nil {
			return nil, err
		}
		return operator.ToAutopilot(data, r.arg("cas"), access.Peer(r.Request))
	}, operator.AutopilotSet)
)

// autopilotHealth says whether each server is well, and how many may fail. Clients know by its status whether all are.
func (s *Server) autopilotHealth(w http.ResponseWriter, r *request) error {
	_, all, err := s.servers(r)
	if err != nil {
		return err
	}
	out := convert.AutopilotHealth(all)
	if !out.Healthy {
		w = packed.Coded(w, http.StatusTooManyRequests)
	}
	s.reply(w, r, out)
	return nil
}
