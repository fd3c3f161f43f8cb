package httpapi

import (
	"net/http"

	"berth/internal/httpapi/access"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/httpapi/packed"
	"berth/internal/wire"
)

// How the servers keep themselves.
var (
	// It shows its index in itself alone, as clients know it.
	autopilotGet = calls.Call(wire.AutopilotGet, (*calls.Request).Whole, calls.One("autopilot",
		calls.Public(operator.Autopilot)))
	autopilotPut = calls.Write(wire.AutopilotPut, func(r *calls.Request) (*wire.AutopilotPutRequest, error) {
		data, err := r.Bytes()
		if err != nil {
			return nil, err
		}
		return operator.ToAutopilot(data, r.Arg("cas"), access.Peer(r.Request))
	}, operator.AutopilotSet)
)

// autopilotHealth says whether each server is well, and how many may fail. Clients know by its status whether all are.
func (s *Server) autopilotHealth(w http.ResponseWriter, r *calls.Request) error {
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
