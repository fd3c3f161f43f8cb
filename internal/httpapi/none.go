package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"berth/internal/httpapi/absent"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert/operator"
	"berth/internal/wire"
)

// maxWait is how long a read waits for a change when the client does not say how long.
const maxWait = 5 * time.Minute

// none answers with the list of what there cannot be yet.
func (s *Server) none(r *calls.Request) (any, error) { return s.unchanging(r, []any{}) }

// schedulerConfiguration describes how the scheduler works.
func (s *Server) schedulerConfiguration(r *calls.Request) (any, error) {
	return s.unchanging(r, operator.Scheduler())
}

// absentRoutes answer for what is not built.
func absentRoutes() (out []route) {
	for _, a := range absent.Answers() {
		out = append(out, route{method: a.Method, path: a.Path, answer: func(s *Server, r *calls.Request) (any, error) {
			if a.Status == http.StatusNotFound {
				return s.never(r, a.Text)
			}
			return nil, calls.Refuse(a.Status, a.Text)
		}})
	}
	return out
}

// never answers a read of what cannot be there yet. One can wait for it as for anything else.
func (s *Server) never(r *calls.Request, text string) (any, error) {
	if _, err := s.unchanging(r, nil); err != nil {
		return nil, err
	}
	return nil, calls.Missing(text)
}

// unchanging answers a read of something that does not change: it has index 1, and who waits for a higher one waits.
func (s *Server) unchanging(r *calls.Request, v any) (any, error) {
	q, err := r.Query()
	if err != nil {
		return nil, err
	}
	st, err := s.status(r)
	if err != nil {
		return nil, err
	}
	if q.MinIndex > 0 {
		waiting, cancel := context.WithTimeout(r.Context(), min(cmp.Or(max(q.Wait, 0), maxWait), maxWait))
		defer cancel()
		<-waiting.Done()
	}
	r.Observed(wire.Meta{Index: 1, KnownLeader: st.Leader != ""})
	return v, nil
}
