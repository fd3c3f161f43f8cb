package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/gauges"
)

// metrics shows the numbers among the agent's and the servers' statistics.
func (s *Server) metrics(w http.ResponseWriter, r *calls.Request) error {
	format := r.Arg("format")
	if format != "" && format != "json" && format != "prometheus" {
		return calls.BadRequest("format must be json or prometheus, is " + strconv.Quote(format))
	}
	all := append(gauges.Gather(r.Context(), s.cfg.Servers, s.cfg.Self),
		gauges.Refused(s.gate.Refused.TooMany.Load(), s.gate.Refused.Unavailable.Load())...)
	if format != "prometheus" {
		s.reply(w, r, gauges.Listed(all, time.Now()))
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = gauges.Write(w, all) // an error is a client that is gone
	return nil
}
